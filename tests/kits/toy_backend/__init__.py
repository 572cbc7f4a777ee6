"""A backend as a user would write one, for tests of everything that only the form of regions decides."""

from kits.toy_backend.generator import NAME, OPS, build_options, generate, register

__all__ = ["NAME", "OPS", "build_options", "generate", "register"]
