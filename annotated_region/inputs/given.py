"""Matches arrays with the parameters of a function, and makes arrays if none are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax

from annotated_region.errors import InputError
from annotated_region.inputs.made import array_type, made_array, words_for_use
from annotated_region.inputs.uses import uses_of_parameters
from annotated_region.tvm_adapter.types import expect, fixed_extents, shape_vars_of, tensor_type

__all__ = ["Arguments", "arguments_for"]

Given = Mapping[str, np.ndarray] | Sequence[np.ndarray]


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a function.

    Attributes
    ----------
    arrays
        The values by parameter name, in parameter order.
    made
        A description of the generated inputs, one line per parameter; empty if inputs were given.
    extents
        The values of the symbolic extents of the parameters, by name.
    """

    arrays: Mapping[str, np.ndarray]
    made: tuple[str, ...]
    extents: Mapping[str, int]

    def tensors(self) -> list[tvm.runtime.Tensor]:
        """The arrays as TVM tensors; each call makes new copies."""
        return [tvm.runtime.tensor(array) for array in self.arrays.values()]


def arguments_for(
    func: relax.Function, given: Given | None = None, extents: Mapping[str, int] | None = None, seed: int = 0
) -> Arguments:
    """Arguments for a function: the given arrays, or generated ones.

    Parameters
    ----------
    func
        A function whose parameters are tensors.
    given
        Arrays by parameter name, or in parameter order; None to generate them.
    extents
        The values of symbolic extents, by name; given arrays determine them by their shapes.
    seed
        The seed of generated values.

    Raises
    ------
    InputError
        An array is missing, matches no parameter, or has another dtype or shape than its parameter; a
        symbolic extent is unknown; a parameter is not a tensor of known rank.
    """
    names = [param.name for param in func.params]
    for param in func.params:
        _require_tensor(param)
    arrays = None if given is None else _by_name(names, given)
    known = _extents(func, arrays or {}, extents or {})
    fixed = expect(relax.Function, func.bind_symbolic_vars(known)) if known else func
    if arrays is not None:
        fitted = {param.name: _fitted(param, arrays[param.name]) for param in fixed.params}
        return Arguments(fitted, (), known)
    pairs = list(zip(fixed.params, uses_of_parameters(fixed), strict=True))
    made = {param.name: made_array(param, use, seed + number) for number, (param, use) in enumerate(pairs)}
    words = tuple(words_for_use(param, use, fixed_extents(param)) for param, use in pairs)
    return Arguments(made, words, known)


def _require_tensor(param: relax.Var) -> None:
    ty = param.ty
    if not isinstance(ty, relax.TensorType) or not isinstance(ty.shape, relax.ShapeExpr) or ty.dtype is None:
        raise InputError(
            f"parameter {param.name!r} is of type {ty}; only tensors of known rank can be given or made"
        )


def _by_name(names: Sequence[str], given: Given) -> dict[str, np.ndarray]:
    if not isinstance(given, Mapping):
        arrays = list(given)
        if len(arrays) != len(names):
            raise InputError(f"{len(arrays)} inputs for {len(names)} parameters: {', '.join(names)}")
        return dict(zip(names, map(np.asarray, arrays), strict=True))
    unknown = [name for name in given if name not in names]
    missing = [name for name in names if name not in given]
    if unknown or missing:
        parts = [f"no parameter is called {', '.join(map(repr, unknown))}"] if unknown else []
        parts += [f"there is no input for {', '.join(map(repr, missing))}"] if missing else []
        raise InputError(f"{'; '.join(parts)}; the parameters are {', '.join(map(repr, names))}")
    return {name: np.asarray(given[name]) for name in names}


def _extents(
    func: relax.Function, arrays: Mapping[str, np.ndarray], said: Mapping[str, int]
) -> dict[str, int]:
    """The value of each symbolic extent, from the arrays and from the user."""
    known: dict[str, int] = {}
    for param in func.params:
        wanted = list(expect(relax.ShapeExpr, tensor_type(param).shape).values)
        array = arrays.get(param.name)
        if array is None:
            continue
        if array.ndim != len(wanted):
            raise InputError(
                f"input {param.name!r} has shape {array.shape}; the parameter has {len(wanted)} axes: "
                f"{tensor_type(param).shape}"
            )
        for extent, count in zip(wanted, array.shape, strict=True):
            if isinstance(extent, relax.Var) and known.setdefault(extent.name, count) != count:
                raise InputError(
                    f"input {param.name!r} has shape {array.shape}, where {extent.name} is {count}; "
                    f"another input says that {extent.name} is {known[extent.name]}"
                )
    names = list(dict.fromkeys(var.name for param in func.params for var in shape_vars_of(param.ty)))
    unknown = [name for name in said if name not in names]
    if unknown:
        what = f"they are {', '.join(map(repr, names))}" if names else "there is none"
        raise InputError(f"no symbolic extent is called {', '.join(map(repr, unknown))}; {what}")
    return _agreed(names, known, said)


def _agreed(names: Sequence[str], known: Mapping[str, int], said: Mapping[str, int]) -> dict[str, int]:
    for name, count in said.items():
        if known.get(name, count) != count:
            raise InputError(
                f"the inputs have {name} = {known[name]}, but the option says {count}; remove one of the two"
            )
    missing = [name for name in names if name not in known and name not in said]
    if missing:
        raise InputError(
            f"the extents {', '.join(map(repr, missing))} are symbolic, and their values are unknown; pass "
            f"inputs, or extents={{{missing[0]!r}: 8}} (--extent {missing[0]}=8 on the command line)"
        )
    return {name: {**known, **said}[name] for name in names}


def _fitted(param: relax.Var, array: np.ndarray) -> np.ndarray:
    """The array, after checking that its shape and dtype match the parameter."""
    dtype, shape = array_type(str(tensor_type(param).dtype)), fixed_extents(param)
    if array.shape != tuple(shape):
        raise InputError(f"input {param.name!r} has shape {array.shape}; the parameter has {tuple(shape)}")
    if array.dtype.kind == "V" and dtype.itemsize == array.dtype.itemsize:
        array = array.view(dtype)  # .npz files store bfloat16 as raw bytes
    if array.dtype != dtype:
        raise InputError(
            f"input {param.name!r} is of type {array.dtype}; the parameter takes {tensor_type(param).dtype}: "
            "convert it"
        )
    return array
