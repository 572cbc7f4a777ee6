"""Plants faults at random in regions of models, and looks at what `check` makes of them.

A fault is one of `faults.FAULTS` at a random op, or one that shows only where another op is in the same
region. The target `faulty` computes op by op and spoils values; in `dnnl` the generated code is wrong. Where
a fault would change no result of its region (a scale in front of a norm), another one is drawn. Before its
faults each model is checked without one: an alarm there is counted, too.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
import tvm
import tvm_ffi

import annotated_region as ar
from annotated_region.checking import reference
from annotated_region.checking.check_report import CheckReport
from annotated_region.checking.host_support import require_host_builds
from annotated_region.compilation.executable import LinkedExecutable
from annotated_region.testing.registry import temporary_registrations
from kits.checking import faulty_backend
from kits.checking.fault_models import FaultModel, fault_model, prepared_model
from kits.checking.faults import FLOAT_FAULTS, INT8_FAULTS, Fault
from kits.checking.faulty_dnnl import NODE_FAULTS, planted, planting
from kits.checking.faulty_functions import spoiled

__all__ = ["FOUND", "PRECISIONS", "RIGHT", "Tally", "campaign", "checked", "checked_without_fault", "counted"]

FOUND, RIGHT = "found", "right without a fault"
PRECISIONS = ("fp32", "bf16", "int8")
_BUILT: dict[int, list[tuple[tvm.IRModule, LinkedExecutable]]] = {}


@dataclass(frozen=True)
class Tally:
    """How many faults had which outcome, and were of which kind."""

    outcomes: Counter[str]
    kinds: Counter[str]

    def __str__(self) -> str:
        counts = {**self.outcomes, **self.kinds}
        return ", ".join(f"{what}: {count}" for what, count in counts.items())


@contextmanager
def campaign() -> Iterator[None]:
    """Inside the block both targets can be spoiled, and equal programs are built for the host once."""
    host = patch.object(reference, "require_host_builds", _built_once)
    with temporary_registrations(), planting(), host:
        yield


def _built_once(mod: tvm.IRModule) -> LinkedExecutable:
    """As `require_host_builds`; the module of a model is the same whatever fault is planted."""
    known = _BUILT.setdefault(int(tvm_ffi.structural_hash(mod)), [])
    for other, executable in known:
        if tvm_ffi.structural_equal(mod, other):
            return executable
    known.append((mod, require_host_builds(mod)))
    return known[-1][1]


def checked(model: FaultModel, fault: Fault | None) -> CheckReport:
    """What `check` makes of a model, with a fault or without one."""
    options: dict[str, dict[str, object]] = {}
    wrong: AbstractContextManager[None] = nullcontext()
    if model.target == faulty_backend.NAME:
        faulty_backend.register(model.claimed, fault)
    elif fault is not None and model.target == "dnnl" and fault.kind in NODE_FAULTS:
        options = {model.target: planted(fault)}
    elif fault is not None:
        wrong = spoiled(model.target, fault)
    with wrong:
        return ar.check(
            model.mod, [model.target], inputs=model.inputs, prepare=False, bans=model.bans, options=options
        )


def checked_without_fault(name: str, target: str, precision: str) -> CheckReport:
    """What `check` makes of a model in one of `PRECISIONS`."""
    mod, inputs = prepared_model(name, precision == "int8")
    options = {"dnnl": {"precision": precision}} if target == "dnnl" and precision != "int8" else {}
    return ar.check(mod, [target], inputs=inputs, prepare=False, options=options)


def outcome(model: FaultModel, fault: Fault) -> str:
    """What `check` makes of a fault."""
    report, place = checked(model, fault), model.place_of(fault)
    bad = [region for region in report.regions if not region.ok]
    if [tuple(op.name for op in region.ops if op.name in model.calls) for region in bad] != [place.ops]:
        return f"{len(bad)} regions, or another one" if bad else "missed"
    wanted = {fault.op} | ({fault.needs} if fault.needs else set())
    if report.culprit is None:
        return "no ops"
    found = {op.name for op in report.culprit.ops}
    if found != wanted:
        return f"other ops ({', '.join(sorted(found))})"
    most = 2 * math.log2(max(len(place.ops), 2)) + 4
    if fault.needs is None and report.culprit.builds > most:
        return f"too many builds ({report.culprit.builds} for {len(place.ops)} ops)"
    return FOUND


def counted(
    name: str,
    target: str,
    faults: int,
    seed: int,
    tell: Callable[[str], None] = print,
    kinds: Sequence[str] = FLOAT_FAULTS,
) -> Tally:
    """The outcomes of a model; it is of int8 where the faults are those of int8."""
    if target == faulty_backend.NAME:
        faulty_backend.register(())
    model = fault_model(name, target, is_quantized=set(kinds) <= set(INT8_FAULTS))
    report = checked(model, None)
    tally = Tally(Counter([RIGHT if report.ok else "alarm without a fault"]), Counter())
    if not report.ok:
        tell(str(report))
    possible = model.kinds(kinds)
    random = np.random.default_rng([seed, *map(ord, name + target)])
    for _number in range(faults if possible else 0):
        begin = time.monotonic()
        fault = model.random_fault(random, possible)
        result = outcome(model, fault)
        tell(f"{name} {target} {fault}: {result} ({time.monotonic() - begin:.1f} s)")
        tally.outcomes[result.partition(" (")[0]] += 1
        tally.kinds[fault.kind] += 1
    return tally
