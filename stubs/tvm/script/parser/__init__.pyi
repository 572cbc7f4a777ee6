"""The parser of TVMScript."""

from types import ModuleType

from . import core as core

ir: ModuleType
relax: ModuleType
tirx: ModuleType
