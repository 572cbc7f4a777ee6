"""Incremental partitioning: unedited parts of a module keep their regions."""
