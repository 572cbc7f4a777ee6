"""Finds equal functions, constants included, without comparing all pairs.

The structural hash skips the contents of constants, which would dominate its time; functions with equal hash
are then distinguished by samples of their constants, and only those that agree in both are compared in full.
A network whose blocks differ only in weights therefore takes linear time, where the structural hash alone
would make it quadratic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

from annotated_region.expr_map import ExprMap, ExprSet
from annotated_region.tvm_adapter.nodes import Constant

__all__ = ["EqualFunctions"]

Constants = Sequence[Constant]

_SAMPLES = 1024


@dataclass(slots=True)
class _Structure:
    """The functions with one structural hash; `by_content` is filled when there is a second one."""

    first: _KnownFunction | None
    by_content: dict[tuple[bytes, ...], list[_KnownFunction]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _KnownFunction:
    func: relax.Function
    constants: Constants
    name: tvm.ir.GlobalVar


class EqualFunctions:
    """A set of functions up to equality, each with its global variable."""

    def __init__(self) -> None:
        self._structures: dict[int, _Structure] = {}
        self._samples: ExprMap[bytes] = ExprMap()
        self._whole = ExprSet()

    def name_of(
        self, func: relax.Function, constants: Constants, otherwise: tvm.ir.GlobalVar
    ) -> tvm.ir.GlobalVar:
        """The global variable of an equal function; if there is none, `func` is added as `otherwise`.

        Parameters
        ----------
        func
            The function.
        constants
            Its tensor constants, in the order of their uses.
        otherwise
            The global variable for `func` if it is new.
        """
        entry = _KnownFunction(func, constants, otherwise)
        structure = self._structures.get(key := _structural_hash(func))
        if structure is None:
            self._structures[key] = _Structure(entry)
            return otherwise
        if structure.first is not None:
            self._file(structure.first, structure)
            structure.first = None
        return self._file(entry, structure).name

    def _file(self, entry: _KnownFunction, structure: _Structure) -> _KnownFunction:
        """The first entry equal to this one, which is added if there is none."""
        alike = structure.by_content.setdefault(tuple(map(self._sample, entry.constants)), [])
        for known in alike:
            if self._equal(known, entry):
                return known
        alike.append(entry)
        return entry

    def _sample(self, constant: Constant) -> bytes:
        known = self._samples.get(constant)
        if known is None:
            content = _bytes_of(constant)
            step = 1 + content.size // _SAMPLES
            known = self._samples[constant] = content[::step].tobytes()
            if step == 1:
                self._whole.add(constant)
        return known

    def _equal(self, left: _KnownFunction, right: _KnownFunction) -> bool:
        """Whether two functions with equal samples are equal."""
        return bool(tvm_ffi.structural_equal(left.func, right.func, skip_tensor_content=True)) and all(
            a.same_as(b) or a in self._whole or np.array_equal(_bytes_of(a), _bytes_of(b))
            for a, b in zip(left.constants, right.constants, strict=True)
        )


def _structural_hash(func: relax.Function) -> int:
    return int(tvm_ffi.structural_hash(func, skip_tensor_content=True))


def _bytes_of(constant: Constant) -> np.ndarray:
    """The content as bytes, so that NaN equals itself."""
    return np.ascontiguousarray(constant.value.numpy()).view(np.uint8).reshape(-1)
