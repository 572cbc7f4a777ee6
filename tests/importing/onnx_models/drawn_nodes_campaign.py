"""Models of one ONNX operator, or of a few, by lot, against ONNX Runtime without its optimizer.

    PYTHONPATH=.:tests python tests/importing/onnx_models/drawn_nodes_campaign.py \\
        --target onnxruntime --each 100
    PYTHONPATH=.:tests python tests/importing/onnx_models/drawn_nodes_campaign.py \\
        --target dnnl --seed 0 --chains 1000

Attributes, types, shapes, versions and operands are drawn: constants or inputs, axes from both ends, bounds
beyond the ends, batches of any size. With ``--chains`` two or three operators are joined, with computed
shapes and named extents. "No region" are also models that ONNX Runtime refuses, and chains whose results hang
on roundings. Each case runs in a child of its own. Results go to ``<state>/<target>.jsonl``, a line a case;
what stands there is not run again unless ``--again`` asks for its kind.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial

from kits.importing.case_campaign import Case, options_of, run_cases
from kits.importing.drawn_nodes.cases import FAMILIES, drawn_case, drawn_chain
from kits.importing.node_checks import Kind, Outcome, checked


def main() -> int:
    """Run what is asked for, and print the counts."""
    parser = options_of(__doc__, "build/drawn_nodes")
    parser.add_argument("--seed", type=int, default=0, help="of the first model of each operator")
    parser.add_argument("--each", type=int, default=20, help="how many models of each operator")
    parser.add_argument("--chains", type=int, default=0, help="how many models of joined operators, instead")
    options = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1", TVM_NUM_THREADS="1")
    if options.chains:
        return run_cases(options, _chains(options.seed, options.chains, options.target))
    return run_cases(options, _cases(options.seed, options.each, options.target))


def _cases(first: int, count: int, target: str) -> Iterator[Case]:
    for seed in range(first, first + count):
        for family in FAMILIES:
            yield f"{family} {seed}", partial(_checked, family, seed, target)


def _chains(first: int, count: int, target: str) -> Iterator[Case]:
    for seed in range(first, first + count):
        yield f"chain {seed}", partial(_checked_chain, seed, target)


def _checked_chain(seed: int, target: str) -> Outcome:
    case = drawn_chain(seed)
    return Outcome(Kind.NO_REGION) if case is None else checked(case, target)


def _checked(family: str, seed: int, target: str) -> Outcome:
    case = drawn_case(family, seed)
    return Outcome(Kind.NO_REGION) if case is None else checked(case, target)


if __name__ == "__main__":
    sys.exit(main())
