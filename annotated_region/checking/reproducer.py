"""A folder that shows a fault: a region, its inputs, both answers, and scripts that compare them.

    module.py             the region as TVMScript, its constants as parameters
    model.onnx            the same as ONNX, where all of its ops have a translation
    inputs.npz            what enters, as the host computed it
    constants.npz         the constants
    expected.npz          what the host computes
    actual.npz            what the target computed
    show.py               builds the module for the target, and compares
    show_onnxruntime.py   runs the model in ONNX Runtime alone, and compares
    README.txt            what is wrong, with which versions

The same fault gives the same bytes.
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
from annotated_region.checking.failure import Failure
from annotated_region.checking.program import MAIN
from annotated_region.errors import AnnotatedRegionError, ReproducerError
from annotated_region.functions.external import External, external_function
from annotated_region.inputs import write_arrays
from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.types import expect, shape_vars_of

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
cut = ar.partition(mod, [{target!r}], prepare=False)
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
    """Write the folder, whole or not at all.

    Raises
    ------
    ReproducerError
        There is something of that name.
    OSError
        It cannot be written.
    """
    if os.path.lexists(folder):
        raise ReproducerError(f"{folder} is there already, and is not overwritten; name a new folder")
    unfinished = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=folder.parent))
    try:
        _fill(unfinished, failure)
        unfinished.chmod(0o755)
        unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return folder


def _fill(folder: Path, failure: Failure) -> None:
    made = external_function(
        failure.function.source, failure.nodes, (), {"global_symbol": MAIN}, bind_constants=False
    )
    assert made is not None, "what fails computes something"
    func = _without_shapes(made.func, failure)
    inputs, constants = _entering(made, func, failure)
    for name, arrays in (
        ("inputs", inputs),
        ("constants", constants),
        ("expected", failure.wanted),
        ("actual", failure.found),
    ):
        write_arrays(folder / f"{name}.npz", arrays)
    _write(folder / "module.py", tvm.IRModule({MAIN: func}).script(show_meta=True) + "\n")
    bound = expect(
        relax.Function, relax.transform.BindParams(MAIN, dict(constants))(tvm.IRModule({MAIN: func}))[MAIN]
    )
    has_model = _save_model(folder / "model.onnx", bound)
    kept = [*inputs.values(), *constants.values(), *failure.wanted.values()]
    _write_scripts(folder, failure, has_model, any(array.dtype.kind == "V" for array in kept))
    _write(folder / "README.txt", _words(failure, has_model))


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", errors="backslashreplace")


def _without_shapes(func: relax.Function, failure: Failure) -> relax.Function:
    """The function without parameters that are shapes: its extents become the numbers of the call."""
    if not any(isinstance(param.ty, relax.ShapeType) for param in func.params):
        return func
    known = {var.name: count for var, count in failure.values.extents.items()}
    names = {each.name for param in func.params for each in shape_vars_of(param.ty)}
    fixed = expect(
        relax.Function,
        func.bind_symbolic_vars({name: count for name, count in known.items() if name in names}),
    )
    params = [param for param in fixed.params if not isinstance(param.ty, relax.ShapeType)]
    return relax.Function(params, fixed.body, fixed.ret_ty, fixed.is_pure, fixed.attrs)


def _entering(
    made: External, func: relax.Function, failure: Failure
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """By the names of parameters, the inputs and the constants."""
    inputs: dict[str, np.ndarray] = {}
    constants: dict[str, np.ndarray] = {}
    tensors = [argument for argument in made.arguments if not isinstance(argument, relax.ShapeExpr)]
    for param, argument in zip(func.params, tensors, strict=True):
        leaf = failure.values.leaf_of(argument)
        kind = constants if isinstance(leaf.root, Constant) else inputs
        kind[param.name] = failure.values.array_of(leaf)
    return inputs, constants


def _save_model(path: Path, func: relax.Function) -> bool:
    """Write the model as ONNX; False where an op has no translation."""
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


def _words(failure: Failure, has_model: bool) -> str:
    """What is wrong, for the reader of the folder."""
    ops = "\n".join(f"  {op}" for op in failure.function.ops(failure.nodes))
    target = failure.function.target
    lines = [
        f"{failure.function.symbol}, which runs on target {target!r}, is wrong. The ops that are to blame:",
        ops,
        "",
        *([f"The target raises: {failure.error}"] if failure.error else _differences(failure)),
        f"Tolerance: {failure.tolerance.reason}",
        f"Options of the target: {json.dumps(dict(failure.options.get(target, {})), default=str)}",
        "",
        "python show.py                compares the target with what TVM computes",
        *(["python show_onnxruntime.py    runs model.onnx in ONNX Runtime alone"] if has_model else []),
        "",
        f"annotated-region {__version__}, TVM {tvm.__version__}, numpy {np.__version__}",
    ]
    return "\n".join(lines) + "\n"


def _differences(failure: Failure) -> list[str]:
    checks = [
        compared(name, found, failure.wanted[name], failure.tolerance)
        for name, found in failure.found.items()
    ]
    return [
        f"{each.name}: {each.failure or 'right'}; {each.found} instead of {each.wanted} at {each.where}"
        for each in checks
    ]
