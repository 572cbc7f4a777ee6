"""Reads TVMScript of strangers without executing it."""
