"""Integers and truth values as functions of their place: positions, masks, buckets of symbolic lengths."""
