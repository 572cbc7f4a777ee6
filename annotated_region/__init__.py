"""The facade: everything a user needs, as ``import annotated_region as ar``."""
