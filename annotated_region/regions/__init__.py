"""Annotated regions: read from annotations, owned by a set, merged, certified, written back."""
