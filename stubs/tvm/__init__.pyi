"""The part of Apache TVM 0.27 that this project uses, for mypy alone: TVM ships no types of its own.

Never on Python's path and never in the wheel, where it would hide TVM. A class lists what is used here, not
all that TVM has; `tests/tvm_adapter/test_stubs.py` holds every name against the TVM that is installed.
"""

from tvm_ffi import Object as Object
from tvm_ffi import get_global_func as get_global_func
from tvm_ffi import register_global_func as register_global_func

from . import error as error
from . import ir as ir
from . import relax as relax
from . import runtime as runtime
from . import s_tir as s_tir
from . import script as script
from . import support as support
from . import sym as sym
from . import target as target
from . import te as te
from . import tirx as tirx
from . import topi as topi
from .ir import IRModule as IRModule
from .ir import instrument as instrument
from .ir import transform as transform
from .relax import VMExecutable
from .runtime import DataType as DataType
from .runtime import Device
from .runtime import cpu as cpu

__version__: str

def device(dev: str, index: int | None = None) -> Device: ...
def compile(
    mod: IRModule | tirx.PrimFunc,
    target: target.Target | str | None = None,
    *,
    relax_pipeline: transform.Pass | str | None = "default",
    tir_pipeline: transform.Pass | str | None = "default",
) -> VMExecutable: ...
