"""Pairs of operators in float32, for any number of images, against ONNX Runtime without its optimizer.

    PYTHONPATH=.:tests python tests/importing/onnx_models/float_pairs_campaign.py --target openvino

A case is an operator in front and the extents of an image; what is in front is a result as well, or not. The
operators behind are in groups, each of which is a model: they stand beside each other, with inputs of their
own. Each case runs in a child of its own, with one image, three, and one. Results go to
``<state>/<target>.jsonl``, a line a case; what stands there is not run again unless ``--again`` asks for its
kind.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np
import tvm
from kits.importing.case_campaign import Case, built_for, options_of, run_cases
from kits.importing.float_pairs import EXTENTS, GROUPS, IN_FRONT, calls_of, pairs_model
from kits.importing.node_checks import Kind, Outcome

from annotated_region.errors import AnnotatedRegionError
from annotated_region.host_targets import UNOPTIMIZED

SMALL = 1e-3
"""Of an element, or of 1; where a quotient is large its divisor is small, and has a large error."""
LARGE = 100.0
PART = 0.02
"""Of the elements of what is quantized, which may be a quantum away."""


def main() -> int:
    """Run what is asked for, and print the counts."""
    options = options_of(__doc__, "build/float_pairs").parse_args()
    os.environ.update(OMP_NUM_THREADS="1", TVM_NUM_THREADS="1")
    return run_cases(options, _cases(options.target))


def _cases(target: str) -> Iterator[Case]:
    for extents, front, leaves in product(EXTENTS, IN_FRONT, (False, True)):
        name = f"{extents} {front}{' both' if leaves else ''}"
        yield name, partial(_checked, front, extents, leaves, target)


def _checked(front: str, extents: str, leaves: bool, target: str) -> Outcome:
    wrong: list[str] = []
    for group in GROUPS:
        model, labels = pairs_model(front, group, extents, leaves)
        if not labels:
            continue
        try:
            _, machine = built_for(model, target, UNOPTIMIZED)
        except AnnotatedRegionError as error:
            return Outcome(Kind.UNBUILT, f"{group}: {error}")
        for images, inputs, right in calls_of(model):
            result = machine["main"](*map(tvm.runtime.tensor, inputs.values()))
            found = [result] if len(right) == 1 else list(result)
            for label, left, other in zip(labels, found, right, strict=True):
                if text := _difference(left.numpy(), other, group == "quantized"):
                    wrong.append(f"{label}, {images} images: {text}")
    return Outcome(Kind.WRONG, "; ".join(wrong)) if wrong else Outcome(Kind.RIGHT)


def _difference(found: np.ndarray, right: np.ndarray, is_quantized: bool) -> str:
    """What is wrong about a result; nothing if it is right."""
    if found.shape != right.shape or found.dtype != right.dtype:
        return f"{found.dtype}{found.shape} for {right.dtype}{right.shape}"
    size = np.abs(right)
    with np.errstate(invalid="ignore"):
        is_close = np.abs(found - right) <= SMALL * np.maximum(size, 1) * np.where(size > LARGE, size, 1)
    off = ~is_close & (found != right)
    if off.mean() <= (PART if is_quantized else 0):
        return ""
    return f"{off.mean():.0%}"


if __name__ == "__main__":
    sys.exit(main())
