"""Rewrites of host code that TVM cannot compile, or computes wrongly; one file per repair."""
