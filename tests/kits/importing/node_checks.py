"""Runs one small model on a target, such as a case of the onnx package, and says what became of it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
import onnx.parser
import tvm
from tvm import relax

import annotated_region as ar
from annotated_region.backends.openvino.installation import require_library
from annotated_region.host_targets import UNOPTIMIZED
from kits.host_machines import linked_machine
from kits.importing.node_cases import NodeCase

__all__ = ["Call", "Kind", "Outcome", "checked", "checked_module", "difference", "warm_up"]

_TOLERANCES = {"float64": 1e-7, "float32": 2e-5}
"""Of the largest result, and of each one by itself."""

_ROUNDINGS = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
"""Of types whose sums are rounded at each step: half the distance of 1 from the next number.

Expected and found results are rounded once each, and the errors of n steps, which are independent, add up to
sqrt(n) roundings; no sum has more steps than the longest axis. The bound stops at four roundings. Attention
over 18 keys in float16 is 4.1 roundings from the float64 answer on the host, 0.8 in regions, and the expected
result 1.6.
"""

_UNDEFINED = "is called with inputs of extents for which its model is not defined"
"""What a module says to calls that do not have the extents that its model relies on."""


Call: TypeAlias = "tuple[tuple[Any, ...], tuple[Any, ...]]"
"""Arguments and expected results: arrays, lists of arrays, None for what is not there."""


class Kind(Enum):
    """What became of a case."""

    RIGHT = "right"
    NO_REGION = "no region"
    REFUSED = "refused by the importer"
    UNBUILT = "refused later"
    RAW = "raw error"
    WRONG = "wrong"
    CRASH = "crash"
    HANG = "hang"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case.

    Attributes
    ----------
    kind
        In one word.
    text
        The error, or the first difference.
    regions
        How many regions the target has.
    host
        The ops that stay on the host; of the host itself, none.
    """

    kind: Kind
    text: str = ""
    regions: int = 0
    host: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """As JSON can say it."""
        return asdict(self) | {"kind": self.kind.value}


def warm_up(target: str) -> None:
    """Load what each case needs, so that its child need not; nothing is run, so that no thread begins.

    OpenVINO is only loaded: its core begins threads with the first question, and a child has none of them.
    """
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[2, 2] x) => (float[2, 2] y) { y = Relu(x) }'
    if target == "openvino":
        require_library()
    targets = [] if target == "openvino" else targets_of(target)
    ar.build(ar.partition(ar.from_onnx(onnx.parser.parse_model(text)), targets))


def targets_of(target: str) -> list[str]:
    """As `partition` takes them; the host is none."""
    return [] if target == "host" else [target]


def checked(case: NodeCase, target: str) -> Outcome:
    """The case imported, partitioned for a target (or for the host alone), built, run and compared.

    An error that is none of the project's is not caught: it is what the tests and the campaign look for.
    """
    return checked_module(lambda: ar.from_onnx(case.model), case.calls, target)


def checked_module(importing: Callable[[], tvm.IRModule], calls: Sequence[Call], target: str) -> Outcome:
    """As `checked`, of a module that `importing` makes, with pairs of arguments and expected results."""
    warnings.simplefilter("ignore")
    try:
        mod = importing()
    except ar.AnnotatedRegionError as error:
        return Outcome(Kind.REFUSED, str(error))
    phase, regions = "partition", 0
    host: tuple[str, ...] = ()
    try:
        partitioned = ar.partition(mod, targets_of(target))
        regions, host = _regions(partitioned), () if target == "host" else tuple(_host_ops(partitioned))
        if target != "host" and not regions:
            return Outcome(Kind.NO_REGION, host=host)
        phase = "build"
        machine = linked_machine(ar.build(partitioned, UNOPTIMIZED))
        phase = "run"
        text = _first_difference(machine, calls)
    except ar.AnnotatedRegionError as error:
        return Outcome(Kind.UNBUILT, f"{phase}: {_told(error)}", regions, host)
    except ValueError as error:
        if _UNDEFINED not in str(error):
            raise
        return Outcome(Kind.UNBUILT, f"{phase}: {_told(error)}", regions, host)
    return Outcome(Kind.WRONG if text else Kind.RIGHT, text, regions, host)


def difference(found: Any, wanted: Any, length: int) -> str:
    """What is wrong about a result of operands with axes of up to `length`; nothing if it is right."""
    if isinstance(wanted, list):
        if len(found) != len(wanted):
            return f"{len(found)} tensors for {len(wanted)}"
        return next(filter(None, (difference(*pair, length) for pair in zip(found, wanted, strict=True))), "")
    if not hasattr(found, "numpy"):
        return f"a {type(found).__name__} for a tensor"
    array = found.numpy()
    if array.dtype != wanted.dtype or array.shape != wanted.shape:
        return f"{array.dtype} {array.shape} for {wanted.dtype} {wanted.shape}"
    tolerances = _tolerances(str(wanted.dtype), length)
    if tolerances is None:
        return "" if np.array_equal(array, wanted) else _largest(array, wanted)
    left, right = array.astype("float64"), wanted.astype("float64")
    scale = np.abs(right[np.isfinite(right)]).max(initial=0.0)
    # Some expected results are written down by hand, with four digits.
    is_written = array.dtype == "float32" and np.array_equal(wanted, np.round(right, 4).astype("float32"))
    least = 1.1e-4 if is_written and right.size else 0.0
    relative, absolute = tolerances[0], max(tolerances[1] * min(scale, 1.0), least)
    return "" if np.allclose(left, right, relative, absolute, equal_nan=True) else _largest(left, right)


def _tolerances(dtype: str, length: int) -> tuple[float, float] | None:
    """Of each result by itself, and of the largest one; None where results are exact."""
    if dtype in _ROUNDINGS:
        return 2 * _ROUNDINGS[dtype], min(math.sqrt(length), 4.0) * _ROUNDINGS[dtype]
    return (_TOLERANCES[dtype], _TOLERANCES[dtype]) if dtype in _TOLERANCES else None


def _first_difference(machine: relax.VirtualMachine, calls: Sequence[Call]) -> str:
    for given, wanted in calls:
        length = max((extent for each in _arrays(given) for extent in each.shape), default=1)
        result = machine["main"](*map(_handed, given))
        found = [result] if len(wanted) == 1 else list(result)
        if len(found) != len(wanted):
            return f"{len(found)} results for {len(wanted)}"
        for place, pair in enumerate(zip(found, wanted, strict=True)):
            if text := difference(*pair, length):
                return f"result {place}: {text}"
    return ""


def _arrays(values: Iterable[Any]) -> Iterator[np.ndarray]:
    for value in values:
        if isinstance(value, list):
            yield from _arrays(value)
        elif value is not None:
            yield value


def _handed(value: Any) -> Any:
    if value is None:
        raise ar.InputError("an optional input is left out, and a module takes all of its parameters")
    if isinstance(value, list):
        return [_handed(each) for each in value]
    return tvm.runtime.tensor(np.ascontiguousarray(value).reshape(value.shape))


def _largest(found: np.ndarray, wanted: np.ndarray) -> str:
    if found.size == 0:
        return "nothing to compare"
    with np.errstate(all="ignore"):
        apart = np.asarray(np.abs(found.astype("float64") - wanted.astype("float64")))
    apart[found == wanted] = 0
    apart[np.isnan(apart)] = np.inf
    if found.dtype.kind in "fV":
        apart[np.isnan(found.astype("float64")) & np.isnan(wanted.astype("float64"))] = 0
    at = np.unravel_index(int(apart.argmax()), apart.shape)
    place = tuple(int(axis) for axis in at)
    return f"{found[at]} for {wanted[at]} at {place}; {int((apart > 0).sum())} of {apart.size} differ"


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[-2000:]}"


def _regions(mod: tvm.IRModule) -> int:
    functions = (func for _, func in mod.functions_items() if isinstance(func, relax.Function))
    return sum(1 for func in functions if func.attrs and "Codegen" in func.attrs)


def _host_ops(mod: tvm.IRModule) -> Iterator[str]:
    body = mod["main"].body
    blocks: Sequence[Any] = body.blocks if isinstance(body, relax.SeqExpr) else ()
    for block in blocks:
        for binding in block.bindings:
            value = binding.value
            if isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.Op):
                yield value.op.name.removeprefix("relax.")
