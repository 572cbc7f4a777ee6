"""The rules of ONNX Runtime: it claims every op that is emitted as operators with CPU kernels."""

from __future__ import annotations

from annotated_region.backends.onnx_emitter import Dialect, converted_ops, trial
from annotated_region.backends.onnxruntime.kernels import ALL, KERNELS, RESTRICTIONS, WIDE_TRUTH, WIDER
from annotated_region.targets.op_view import OpView
from annotated_region.targets.rules import register_rule

__all__ = ["DIALECT", "TARGET", "register_rules"]

TARGET = "onnxruntime"

DIALECT = Dialect(
    target=TARGET,
    opset=20,
    dtypes=ALL,
    kernels=KERNELS,
    restrictions=RESTRICTIONS,
    wider=WIDER,
    wide_truth=WIDE_TRUTH,
    reads_empty_rows=frozenset(("InstanceNormalization",)),
    fails_without_pixels=frozenset(("ConvTranspose",)),
)
"""The ONNX dialect that ONNX Runtime 1.17 and later support on CPUs."""


def _rule(op: OpView) -> bool | str:
    return trial(op, DIALECT) or True


def register_rules() -> None:
    """Register a rule for every op with a converter."""
    for name in converted_ops():
        register_rule(TARGET, name)(_rule)
