"""TVM's own backends."""

from . import cpu_generic as cpu_generic
from . import pattern_registry as pattern_registry
