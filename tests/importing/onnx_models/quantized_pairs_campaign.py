"""A quantization between each pair of operators, against ONNX Runtime without its optimizer.

    PYTHONPATH=.:tests python tests/importing/onnx_models/quantized_pairs_campaign.py --target openvino

38 operators are in front of the quantization, 35 behind its inverse; bytes are int8 or uint8, with and
without a zero point: 5 320 models. A result is wrong if a tenth of its elements is: an element by itself may
be a quantum away, where float32 rounds its quotient otherwise, and an element of the result hangs on it. Each
case runs in a child of its own. Results go to ``<state>/<target>.jsonl``, a line a case; what stands there is
not run again unless ``--again`` asks for its kind.
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
from kits.importing.node_checks import Kind, Outcome
from kits.importing.quantized_pairs import BEHIND, IN_FRONT, TYPES, pair_model
from kits.onnx_nodes import by_onnx_runtime

from annotated_region.errors import AnnotatedRegionError

SMALL = 1e-3
PART = 0.1
"""Of the elements of a result, which may be more than `SMALL` of the largest away."""


def main() -> int:
    """Run what is asked for, and print the counts."""
    options = options_of(__doc__, "build/quantized_pairs").parse_args()
    os.environ.update(OMP_NUM_THREADS="1", TVM_NUM_THREADS="1")
    return run_cases(options, _cases(options.target))


def _cases(target: str) -> Iterator[Case]:
    for front, behind, type_name in product(IN_FRONT, BEHIND, TYPES):
        yield f"{front} {behind} {type_name}", partial(_checked, front, behind, type_name, target)


def _checked(front: str, behind: str, type_name: str, target: str) -> Outcome:
    model, inputs = pair_model(front, behind, type_name)
    (right,) = by_onnx_runtime(model, inputs)
    try:
        _, machine = built_for(model, target)
    except AnnotatedRegionError as error:
        return Outcome(Kind.UNBUILT, str(error))
    order = [each.name for each in model.graph.input]
    found = machine["main"](*(tvm.runtime.tensor(inputs[name]) for name in order)).numpy()
    off = np.abs(found - right) > SMALL * max(float(np.abs(right).max()), 1.0)
    if off.mean() > PART:
        return Outcome(Kind.WRONG, f"{off.mean():.0%} of the elements are wrong")
    return Outcome(Kind.RIGHT)


if __name__ == "__main__":
    sys.exit(main())
