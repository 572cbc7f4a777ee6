"""Imports files of strangers in a process that can do nothing else, and receives the module as data."""
