"""Converters of ATen ops that TVM's importer lacks, rejects, or converts wrongly."""
