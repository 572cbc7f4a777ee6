"""Targets: their backends, their rules and patterns, and the views that these get of ops."""
