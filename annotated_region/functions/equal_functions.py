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

__all__ = ["EqualFunctions", "FunctionContents"]

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


class FunctionContents:
    """Structural hashes of functions, and samples of their constants, each computed once.

    Parameters
    ----------
    before
        The contents of another module; entries that are used again before `forget` is called are kept.
    """

    def __init__(self, before: FunctionContents | None = None) -> None:
        self._before = before
        self._hashes: ExprMap[int] = ExprMap()
        self._samples: ExprMap[tuple[bytes, ...]] = ExprMap()
        self._of_constant: ExprMap[bytes] = ExprMap()
        self._whole = ExprSet()

    def forget(self) -> None:
        """Drop the entries that were not used again."""
        self._before = None

    def hash_of(self, func: relax.Function) -> int:
        """The structural hash of a function, without the content of constants."""
        known = self._hashes.get(func)
        if known is None:
            known = self._before._hashes.get(func) if self._before is not None else None
            known = int(tvm_ffi.structural_hash(func, skip_tensor_content=True)) if known is None else known
            self._hashes[func] = known
        return known

    def samples_of(self, func: relax.Function, constants: Constants) -> tuple[bytes, ...]:
        """Samples of the constants of a function."""
        known = self._samples.get(func)
        if known is None:
            known = self._before._samples.get(func) if self._before is not None else None
            known = tuple(map(self._sample, constants)) if known is None else known
            self._samples[func] = known
        return known

    def agree(self, left: Constant, right: Constant) -> bool:
        """Whether two constants of equal samples are equal."""
        is_sampled_whole = left in self._whole
        return (
            bool(left.same_as(right)) or is_sampled_whole or np.array_equal(_bytes_of(left), _bytes_of(right))
        )

    def _sample(self, constant: Constant) -> bytes:
        known = self._of_constant.get(constant)
        if known is None:
            content = _bytes_of(constant)
            step = 1 + content.size // _SAMPLES
            known = self._of_constant[constant] = content[::step].tobytes()
            if step == 1:
                self._whole.add(constant)
        return known


class EqualFunctions:
    """A set of functions up to equality, each with its global variable.

    Parameters
    ----------
    contents
        The known contents of functions of another module.
    """

    def __init__(self, contents: FunctionContents | None = None) -> None:
        self._structures: dict[int, _Structure] = {}
        self._contents = FunctionContents() if contents is None else contents

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
        structure = self._structures.get(key := self._contents.hash_of(func))
        if structure is None:
            self._structures[key] = _Structure(entry)
            return otherwise
        if structure.first is not None:
            self._file(structure.first, structure)
            structure.first = None
        return self._file(entry, structure).name

    def _file(self, entry: _KnownFunction, structure: _Structure) -> _KnownFunction:
        """The first entry equal to this one, which is added if there is none."""
        alike = structure.by_content.setdefault(self._contents.samples_of(entry.func, entry.constants), [])
        for known in alike:
            if self._equal(known, entry):
                return known
        alike.append(entry)
        return entry

    def _equal(self, left: _KnownFunction, right: _KnownFunction) -> bool:
        """Whether two functions with equal samples are equal."""
        return bool(tvm_ffi.structural_equal(left.func, right.func, skip_tensor_content=True)) and all(
            self._contents.agree(a, b) for a, b in zip(left.constants, right.constants, strict=True)
        )


def _bytes_of(constant: Constant) -> np.ndarray:
    """The content as bytes, so that NaN equals itself."""
    return np.ascontiguousarray(constant.value.numpy()).view(np.uint8).reshape(-1)
