"""TVM's pattern tables for libraries of others."""
