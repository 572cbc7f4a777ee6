"""Writes a folder that reproduces a fault: a region, its inputs, both results, and scripts to compare them.

    module.py             the region as TVMScript, with its constants as parameters
    model.onnx            the same as ONNX, if all of its ops have a translation
    inputs.npz            the inputs, as computed by the host
    constants.npz         the constants
    expected.npz          the results of the host
    actual.npz            the results of the target
    show.py               builds the module for the target, and compares
    show_onnxruntime.py   runs the model in ONNX Runtime only, and compares
    engine.txt            the log of the engine, if it has one
    README.txt            a description of the fault, with versions

Shapes are reduced to the smallest that still fail. The same fault gives the same bytes.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tvm
from tvm import relax

from annotated_region._version import __version__
from annotated_region.backends.onnx_emitter import emit, missing_onnx
from annotated_region.backends.onnxruntime.rules import DIALECT
from annotated_region.checking.comparison import compared
from annotated_region.checking.engine_log import ENGINE_LOG, engine_log
from annotated_region.checking.failure import Failure
from annotated_region.checking.fault_case import FaultCase, fault_case
from annotated_region.checking.program import MAIN
from annotated_region.checking.shrinking import with_smallest_shapes
from annotated_region.costs.model import HOST
from annotated_region.errors import AnnotatedRegionError, ReproducerError
from annotated_region.inputs import write_arrays
from annotated_region.tvm_adapter.types import expect

__all__ = ["write_reproducer"]

_LOADER = """
def arrays(name):
    with np.load(pathlib.Path(__file__).with_name(name), allow_pickle=False) as loaded:
        return {{key: {each} for key in loaded.files}}
"""
_PLAIN, _BRAIN_FLOATS = (
    "loaded[key]",
    ('loaded[key].view(ml_dtypes.bfloat16) if loaded[key].dtype.kind == "V" else loaded[key]'),
)
_COMPARISON = """
for (name, wanted), found in zip(arrays("expected.npz").items(), answers):
    wanted, found = wanted.astype("float64"), found.astype("float64")
    difference = np.abs(found - wanted)
    difference[(found == wanted) | (np.isnan(found) & np.isnan(wanted))] = 0
    where = np.unravel_index(np.argmax(np.nan_to_num(difference, nan=np.inf)), wanted.shape)
    print(f"{name}: {found[where]} instead of {wanted[where]} at {tuple(map(int, where))}")
"""
_SHOW = '''"""Shows how target {target!r} differs from TVM alone; needs annotated-region and that target."""

import pathlib

{imports}import numpy as np
import tvm
from tvm import relax

import annotated_region as ar

{loader}
text = pathlib.Path(__file__).with_name("module.py").read_text()
mod = relax.transform.BindParams("main", arrays("constants.npz"))(tvm.script.from_source(text))
cut = ar.partition(mod, [{target!r}], prepare=False, min_work={{{target!r}: 0}})
machine = relax.VirtualMachine(ar.build(cut, options={options}), tvm.cpu())
answer = machine["main"](*map(tvm.runtime.tensor, arrays("inputs.npz").values()))
answers = [each.numpy() for each in ([answer] if isinstance(answer, tvm.runtime.Tensor) else answer)]
{comparison}'''
_SHOW_ENGINE = '''"""Shows what ONNX Runtime makes of the same region; needs numpy and onnxruntime."""

import pathlib

{imports}import numpy as np
import onnxruntime

{loader}
model = str(pathlib.Path(__file__).with_name("model.onnx"))
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
names = [each.name for each in session.get_inputs()]
answers = session.run(None, dict(zip(names, arrays("inputs.npz").values())))
{comparison}'''


def write_reproducer(folder: Path, failure: Failure) -> Path:
    """Write the folder atomically.

    Raises
    ------
    ReproducerError
        `folder` exists.
    OSError
        It cannot be written.
    """
    if os.path.lexists(folder):
        raise ReproducerError(f"{folder} already exists and is not overwritten; choose a new folder")
    case = with_smallest_shapes(fault_case(failure), failure)
    unfinished = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=folder.parent))
    try:
        _fill(unfinished, case, failure)
        unfinished.chmod(0o755)
        unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return folder


def _fill(folder: Path, case: FaultCase, failure: Failure) -> None:
    for name, arrays in (
        ("inputs", case.inputs),
        ("constants", case.constants),
        ("expected", case.wanted),
        ("actual", case.found),
    ):
        write_arrays(folder / f"{name}.npz", arrays)
    _write(folder / "module.py", case.module.script(show_meta=True) + "\n")
    has_model = _save_model(folder / "model.onnx", expect(relax.Function, case.bound[MAIN]))
    kept = [*case.inputs.values(), *case.constants.values(), *case.wanted.values()]
    _write_scripts(folder, failure, has_model, any(array.dtype.kind == "V" for array in kept))
    log = engine_log(folder, failure.function.target)
    if log:
        _write(folder / ENGINE_LOG, log)
    _write(folder / "README.txt", _words(case, failure, has_model, bool(log)))


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", errors="backslashreplace")


def _save_model(path: Path, func: relax.Function) -> bool:
    """Write the model as ONNX; False if an op has no translation."""
    if missing_onnx() is not None:
        return False
    try:
        emit(func, DIALECT).save(path)
    except AnnotatedRegionError:
        path.unlink(missing_ok=True)
        return False
    return True


def _write_scripts(folder: Path, failure: Failure, has_model: bool, brain_floats: bool) -> None:
    words: Mapping[str, str] = {
        "imports": "import ml_dtypes\n" if brain_floats else "",
        "loader": _LOADER.format(each=_BRAIN_FLOATS if brain_floats else _PLAIN),
        "comparison": _COMPARISON,
    }
    target = failure.function.target
    options = {target: dict(failure.options.get(target, {}))}
    _write(folder / "show.py", _SHOW.format(target=target, options=repr(options), **words))
    if has_model:
        _write(folder / "show_onnxruntime.py", _SHOW_ENGINE.format(**words))


def _words(case: FaultCase, failure: Failure, has_model: bool, has_log: bool) -> str:
    """The text of ``README.txt``."""
    ops = "\n".join(f"  {op}" for op in failure.function.ops(failure.nodes))
    target = failure.function.target
    by = "" if failure.reference == HOST else f" with {failure.reference}"
    lines = [
        f"{failure.function.symbol}, which runs on target {target!r}, is wrong. The ops that are to blame:",
        ops,
        "",
        *([f"The target raises: {case.error}"] if case.error else _differences(case, failure)),
        f"Tolerance: {failure.tolerance.reason}",
        f"Options of the target: {json.dumps(dict(failure.options.get(target, {})), default=str)}",
        "",
        f"python show.py                compares the target with what TVM{by} computes",
        *(["python show_onnxruntime.py    runs model.onnx in ONNX Runtime alone"] if has_model else []),
        *([f"{ENGINE_LOG:29} what the engine says that it ran"] if has_log else []),
        "",
        f"annotated-region {__version__}, TVM {tvm.__version__}, numpy {np.__version__}",
    ]
    return "\n".join(lines) + "\n"


def _differences(case: FaultCase, failure: Failure) -> list[str]:
    checks = [
        compared(name, found, case.wanted[name], failure.tolerance) for name, found in case.found.items()
    ]
    return [
        f"{each.name}: {each.failure or 'right'}; {each.found} instead of {each.wanted} at {each.where}"
        for each in checks
    ]
