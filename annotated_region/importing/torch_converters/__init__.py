"""Ops of ATen that TVM's importer lacks, refuses, or converts to something else than PyTorch computes."""
