"""A failing graph as a program: ``<target>_<digest>.py``, with its constants in ``<target>_<digest>.npz``."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tvm
from tvm import relax

from annotated_region.checked import checked
from annotated_region.inputs import read_arrays, write_arrays
from annotated_region.testing.conformance.modules import bindings_of, main_of, module_of, results_of
from annotated_region.testing.conformance.trial import Trial
from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.types import expect

__all__ = ["compare", "write_reproducer"]

_PROGRAM = '''"""What target {target!r} computes of this graph, beside TVM."""

import pathlib  # and your backend, if it is not installed

from annotated_region.testing.conformance import compare

GRAPH = """
{text}
"""

if __name__ == "__main__":
    print(compare({target!r}, GRAPH, pathlib.Path(__file__).with_suffix(".npz")))
'''


def write_reproducer(folder: Path, target: str, mod: tvm.IRModule) -> Path:
    """Write the program and its constants; deterministic for a given graph.

    Returns
    -------
    The program.

    Raises
    ------
    OSError
        They cannot be written.
    """
    bare, constants = _with_constants_as_parameters(mod)
    text = bare.script()
    program = _PROGRAM.format(target=target, text=text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"'))
    digest = hashlib.sha256(program.encode()).hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{target}_{digest}.py"
    write_arrays(path.with_suffix(".npz"), constants)
    path.write_text(program)
    return path


@checked
def compare(target: str, text: str, constants: Path, *, rtol: float = 1e-4, atol: float = 1e-4) -> str:
    """Describe the failure of a graph of `write_reproducer` on a target.

    Parameters
    ----------
    target
        The name of the backend.
    text
        The graph as TVMScript; it must be trusted, because TVM's parser evaluates it.
    constants
        The file with the values of its constant parameters.
    rtol, atol
        The tolerance, as in `check_backend`.
    """
    mod = relax.transform.BindParams("main", read_arrays(constants))(
        expect(tvm.IRModule, tvm.script.from_source(text))
    )
    failure = Trial(target, rtol, atol).first_failure([mod])
    return f"{target} agrees with TVM" if failure is None else f"{target} fails: {failure}"


def _with_constants_as_parameters(mod: tvm.IRModule) -> tuple[tvm.IRModule, Mapping[str, np.ndarray]]:
    """The module with its constants as parameters, and their values, which TVMScript does not contain."""
    values: dict[str, np.ndarray] = {}
    params: list[relax.Var] = []

    def lifted(arg: relax.Expr) -> relax.Expr:
        if isinstance(arg, relax.Tuple):
            return relax.Tuple([lifted(field) for field in arg.fields])
        if not isinstance(arg, Constant):
            return arg
        params.append(relax.Var(f"constant{len(params)}", arg.ty))
        values[params[-1].name] = arg.value.numpy()
        return params[-1]

    bindings = []
    for binding in bindings_of(mod):
        value = binding.value
        if isinstance(value, relax.Call):
            value = relax.Call(
                value.op, list(map(lifted, value.args)), value.attrs, value.ty_args, ret_ty=value.ty
            )
        bindings.append(relax.VarBinding(binding.var, value))
    return module_of([*main_of(mod).params, *params], bindings, set(results_of(mod))), values
