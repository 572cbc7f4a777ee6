"""Annotated regions: read from annotations, held as a set, merged, certified, written back."""
