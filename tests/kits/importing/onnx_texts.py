"""ONNX models in ONNX's text form, run beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnxruntime
import tvm
from tvm import relax

import annotated_region as ar
from annotated_region.host_targets import UNOPTIMIZED
from kits.host_machines import linked_machine

HEAD = '<ir_version: 8, opset_import: ["" : 17]> g '


def numbers(*shape: int) -> np.ndarray:
    """Normal numbers, the same in each call."""
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def run(text: str, targets: Sequence[str], *calls: tuple[np.ndarray, ...]) -> relax.VirtualMachine:
    """Each call on one build of the model in `text`, beside ONNX Runtime; returns what ran it."""
    return run_model(onnx.parser.parse_model(HEAD + text), targets, *calls)


def run_model(
    model: onnx.ModelProto, targets: Sequence[str], *calls: tuple[np.ndarray, ...]
) -> relax.VirtualMachine:
    """Each call on one build, beside ONNX Runtime; returns what ran it."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # idle threads that spin slow down what is run next
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    machine = machine_of(model, targets)
    for call in calls:
        found = machine["main"](*map(tvm.runtime.tensor, call)).numpy()
        (expected,) = session.run(None, dict(zip(names, call, strict=True)))
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6)
    return machine


def machine_of(model: onnx.ModelProto, targets: Sequence[str] = ()) -> relax.VirtualMachine:
    """What runs the model, partitioned for targets."""
    return linked_machine(ar.build(ar.partition(ar.from_onnx(model), list(targets)), UNOPTIMIZED))
