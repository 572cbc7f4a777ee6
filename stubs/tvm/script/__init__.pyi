"""TVMScript."""

from collections.abc import Mapping
from types import ModuleType

from ..ir import BaseFunc, IRModule
from . import parser as parser
from . import relax as relax
from . import tirx as tirx

ir: ModuleType

def from_source(program: str, extra_vars: Mapping[str, object] | None = None) -> IRModule | BaseFunc: ...
