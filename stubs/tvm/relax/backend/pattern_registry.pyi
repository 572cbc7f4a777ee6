"""The registry of patterns that TVM's backends claim."""

from ..transform import FusionPattern as FusionPattern

def get_patterns_with_prefix(prefix: str) -> list[FusionPattern]: ...
