"""Imports ``torch.export`` programs: their graph becomes ops that TVM's importer or ours convert."""
