"""Runs regions of the dnnl backend from their tables: the runtime is compiled once, a region not at all."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax
from tvm.support import cc

from annotated_region.backends.dnnl.codegen import region_graph, with_activations
from annotated_region.backends.dnnl.embedding import constants_value
from annotated_region.backends.dnnl.emission import constants_of, emit_region
from annotated_region.backends.dnnl.installation import build_options
from annotated_region.backends.dnnl.options import GeneratorSettings
from annotated_region.backends.dnnl.runtime_units import RUNTIME, runtime_parts
from annotated_region.cache import private_cache_folder
from annotated_region.compilation.objects import SharedLibraryLinker
from kits.hunt.table_layout import Layout
from kits.hunt.table_reader import read_tables

__all__ = ["InterpretedRegion", "interpreter"]

Options = Mapping[str, object]

SHIM = """
#include <tvm/ffi/tvm_ffi.h>
using annotated_region_dnnl::GraphTable;
using annotated_region_dnnl::RegionHandle;

ANNOTATED_REGION_SYMBOL(create)(void*, const TVMFFIAny* arguments, int32_t, TVMFFIAny* result) {
  TVM_FFI_SAFE_CALL_BEGIN();
  const auto* table = reinterpret_cast<const GraphTable*>(arguments[0].v_int64);
  *reinterpret_cast<tvm::ffi::Any*>(result) = reinterpret_cast<int64_t>(new RegionHandle(*table));
  TVM_FFI_SAFE_CALL_END();
}
ANNOTATED_REGION_SYMBOL(destroy)(void*, const TVMFFIAny* arguments, int32_t, TVMFFIAny*) {
  delete reinterpret_cast<RegionHandle*>(arguments[0].v_int64);
  return 0;
}
ANNOTATED_REGION_SYMBOL(load)(void*, const TVMFFIAny* arguments, int32_t count, TVMFFIAny* result) {
  auto* handle = reinterpret_cast<RegionHandle*>(arguments[0].v_int64);
  return handle->set_constants(arguments + 1, count - 1, result);
}
ANNOTATED_REGION_SYMBOL(run)(void*, const TVMFFIAny* arguments, int32_t count, TVMFFIAny*) {
  return reinterpret_cast<RegionHandle*>(arguments[0].v_int64)->call(arguments + 1, count - 1);
}
ANNOTATED_REGION_SYMBOL(describe)(void*, const TVMFFIAny* arguments, int32_t, TVMFFIAny* result) {
  return reinterpret_cast<RegionHandle*>(arguments[0].v_int64)->describe(result);
}
"""
"""Functions over any number of regions; the first argument is the address of a table or of a handle."""

POISON = "ANNOTATED_REGION_POISON"
"""Defined where the arena is filled with NaN before each call."""
POISONED = "AR_HUNT_SANITIZED" not in os.environ
"""AddressSanitizer guards the gaps of the arena, so that nothing may fill it as a whole."""


class Interpreter:
    """A compiled runtime, and the layout of its tables.

    Attributes
    ----------
    module
        The functions of the shim.
    layout
        The structs of the runtime's header.
    """

    def __init__(self, library: Path, layout: Layout) -> None:
        """Load the library."""
        self.module = tvm_ffi.load_module(str(library))
        self.layout = layout
        self.create, self.destroy, self.load, self.run, self.describe = (
            self.module.get_function(name) for name in ("create", "destroy", "load", "run", "describe")
        )


def runtime_folder() -> Path:
    """Where the C++ runtime stands; another one may be named, so that a broken one can be tried."""
    given = os.environ.get("AR_HUNT_RUNTIME")
    return Path(given or str(RUNTIME))


@cache
def interpreter() -> Interpreter:
    """The interpreter, compiled now unless it was compiled before from the same text.

    The builders of the runtime are the objects that the product links, from the same cache.
    """
    needs = build_options()
    (runtime,) = needs.sources
    links = list(needs.link_options)
    # An export does so with its run path; here nothing else has loaded the engine's library.
    for needed in needs.libraries:
        links += ["-Xlinker", "-rpath", "-Xlinker", str(needed.file.parent)]
    region, *builders = runtime_parts(runtime_folder())
    poison = (f"-D{POISON}",) if POISONED else ()
    own = replace(runtime, text=region + SHIM, options=(*runtime.options, *poison), others=())
    shared = replace(runtime, text=builders[0], others=tuple(builders[1:]))
    folder = private_cache_folder("hunt")
    assert folder is not None, "the compiled interpreter is kept in the user's cache, which is not private"
    compiler = cc.get_cc()
    assert compiler, "there is no C++ compiler"
    parts = [compiler, *own.units, *own.options, *shared.units, *shared.versions, *links]
    library = folder / f"{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:24]}.so"
    if not library.exists():
        # What runs plans, and poisons their memory, is compiled in the first unit alone.
        SharedLibraryLinker((own, shared))(str(library), [], links, compiler)
    include = next(Path(o[2:]) for o in runtime.options if (Path(o[2:]) / "oneapi").exists())
    return Interpreter(library, Layout.of(runtime_folder(), include))


class InterpretedRegion:
    """An external function of the dnnl backend, ready to run from its tables."""

    def __init__(
        self, function: relax.Function, names: Mapping[Any, str], options: Options, joins: bool = True
    ) -> None:
        """Generate the tables of `function` with options of the target.

        TVM's `names` are those of the constants of its module.
        """
        settings = GeneratorSettings.of(options)
        self.graph = with_activations(region_graph(function, names, joins=joins), settings)
        self._interpreter = interpreter()
        self._tables = read_tables(emit_region(self.graph, settings.precision), self._interpreter.layout)
        self._handle = self._interpreter.create(self._tables.address)
        values = {name: constant.value for constant, name in names.items()}
        constants = [constants_value(self.graph, name, values) for name in constants_of(self.graph)]
        self._interpreter.load(self._handle, [tvm.runtime.tensor(np.ascontiguousarray(c)) for c in constants])

    def __call__(self, arguments: Sequence[Any], results: Sequence[tvm.runtime.Tensor]) -> None:
        """Run it on tensors and shapes, into `results`."""
        self._interpreter.run(self._handle, *arguments, *results)

    def describe(self) -> str:
        """The steps of the plan that ran last."""
        return str(self._interpreter.describe(self._handle))

    def close(self) -> None:
        """Free what the runtime holds."""
        self._interpreter.destroy(self._handle)
