"""The models that faults are planted in: prepared, with their regions and the right value of each op."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import onnx
import tvm
from tvm import relax

import annotated_region as ar
from kits.checking.faults import Fault, fits, spoiling
from kits.checking.op_kernels import Array, computed
from kits.family_models import FAMILIES, family_model, inputs_of
from kits.zoo.registry import onnx_network
from kits.zoo.signature import arrays

__all__ = ["MODELS", "FaultModel", "Place", "fault_model", "prepared_model"]

ZOO = (
    *("gpt2_decode", "t5", "swin", "detr", "mamba_closed"),
    *("unet", "efficientnet", "mixer", "graph_attention"),
)
MODELS = (*FAMILIES, *ZOO)
UNCLAIMED = ("relax.nn.softmax", "relax.nn.avg_pool2d", "relax.mean", "relax.call_tir")
"""What no target gets, so that models have several regions."""
FAULTY = "faulty"  # the target that computes op by op, and can exchange operands of any shapes
FILL = 1e4  # magnitudes from here on are what masks are filled with
MOST_TRIES = 400
PAIRS = 0.7  # of the scales: a seventh of all faults need two ops
SHOWN = 1e-3  # of the largest magnitude, that a fault has to change a result of its region by


@dataclass(frozen=True, slots=True)
class Place:
    """A region: its ops, and those whose values leave it."""

    ops: tuple[str, ...]
    results: tuple[str, ...]


@dataclass(frozen=True)
class FaultModel:
    """A model that faults are planted in.

    Attributes
    ----------
    name, target
        Which, and where its regions run.
    mod, inputs
        The prepared module, and what ``main`` is called with.
    claimed
        The ops that the target may have.
    calls
        Of ``main``, by the names of their bindings.
    """

    name: str
    target: str
    mod: tvm.IRModule
    inputs: Sequence[Array]
    claimed: tuple[str, ...]
    calls: Mapping[str, relax.Call]

    @property
    def bans(self) -> dict[str, list[str]]:
        """For `annotated_region.check`: what the target must not have."""
        present = {str(call.op.name) for call in self.calls.values()}
        return {op: [self.target] for op in UNCLAIMED if op in present and op != "relax.call_tir"}

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """The regions."""
        (report,) = ar.explain(self.mod, [self.target], prepare=False, bans=self.bans).functions
        return tuple(
            Place(
                tuple(op for op in region.ops if op in self.calls),
                tuple(name.partition("[")[0] for name in region.outputs),
            )
            for region in report.regions
        )

    @cached_property
    def values(self) -> dict[str, Any]:
        """The right value of each op."""
        return computed(self.mod["main"], self.inputs)[1]

    def kinds(self, asked: Sequence[str]) -> tuple[str, ...]:
        """Those of some kinds of faults that have a place."""
        return tuple(kind for kind in asked if any(self._ops_for(kind, place) for place in self.places))

    def random_fault(self, random: np.random.Generator, kinds: Sequence[str]) -> Fault:
        """A fault of one of some kinds that makes sense where it is, and shows.

        The kind is drawn first, so that kinds that few ops can have are as many as others.
        """
        for _try in range(MOST_TRIES):
            fault = self._drawn(random, str(random.choice(kinds)))
            if self.shows(fault):
                return fault
        raise AssertionError(f"no fault of {', '.join(kinds)} shows in {self.name}")

    def _ops_for(self, kind: str, place: Place) -> list[str]:
        is_exact = self.target != FAULTY
        return [op for op in place.ops if fits(kind, self.calls[op], is_exact)]

    def _drawn(self, random: np.random.Generator, kind: str) -> Fault:
        places = [place for place in self.places if self._ops_for(kind, place)]
        place = places[random.integers(len(places))]
        op = str(random.choice(self._ops_for(kind, place)))
        needs = None
        if kind == "scale" and len(place.ops) > 1 and random.random() < PAIRS:
            needs = str(random.choice([each for each in place.ops if each != op]))
        return Fault(kind, op, needs, self._largest(kind, op))

    def _largest(self, kind: str, op: str) -> float:
        """The largest magnitude of the value of an op; of what is clipped, that of its operand."""
        value = self.values[op]
        if kind == "clipped":
            scale, zero = (np.asarray(each.value.numpy()) for each in self.calls[op].args[1:3])
            value = (value.astype("float32") - zero.astype("float32").max()) * scale.max()
        return float(np.abs(value.astype("float32")).max(initial=0.0))

    def shows(self, fault: Fault) -> bool:
        """Whether it changes a result of its region."""
        wrong = computed(self.mod["main"], self.inputs, spoiling(fault))[1]
        return any(
            _differ(one, other)
            for name in self.place_of(fault).results
            for one, other in zip(_arrays(self.values[name]), _arrays(wrong[name]), strict=True)
        )

    def place_of(self, fault: Fault) -> Place:
        """The region that the fault is in."""
        return next(place for place in self.places if fault.op in place.ops)


def _arrays(value: Any) -> list[Array]:
    return [each for part in value for each in _arrays(part)] if isinstance(value, tuple) else [value]


def _differ(right: Array, wrong: Array) -> bool:
    one, other = right.astype("float64"), wrong.astype("float64")
    largest = float(np.abs(one[np.abs(one) < FILL]).max(initial=0.0)) or 1.0
    return not np.allclose(one, other, rtol=0, atol=SHOWN * largest, equal_nan=True)


def prepared_model(name: str, is_quantized: bool = False) -> tuple[tvm.IRModule, list[Array]]:
    """A model, prepared, and its inputs; all its ops are of int8 if it is quantized."""
    model, inputs = _model(name)
    if is_quantized:
        from kits.quantized_models import quantized_model  # noqa: PLC0415 - needs ONNX Runtime

        model = quantized_model(model, [inputs])
    return ar.passes.PrepareForInference()(ar.from_onnx(model)), list(inputs.values())


def _model(name: str) -> tuple[onnx.ModelProto, Mapping[str, Array]]:
    if name in FAMILIES:
        model = family_model(name, "small")
        return model, inputs_of(model)
    network = onnx_network(name)
    form = network.forms[0]  # the one of fixed extents
    return network.proto(form), arrays(network.inputs, form.calls[0])


def fault_model(name: str, target: str, is_quantized: bool = False) -> FaultModel:
    """A model, ready to be spoiled."""
    mod, inputs = prepared_model(name, is_quantized)
    calls = {
        binding.var.name: binding.value
        for block in mod["main"].body.blocks
        for binding in block.bindings
        if isinstance(binding.value, relax.Call) and isinstance(binding.value.op, tvm.ir.Op)
    }
    ops = {str(call.op.name) for call in calls.values()}
    return FaultModel(name, target, mod, inputs, tuple(sorted(ops - set(UNCLAIMED))), calls)
