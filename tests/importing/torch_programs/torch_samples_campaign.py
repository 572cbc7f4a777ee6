"""PyTorch's own samples of its ops: exported, imported, partitioned, built, run and compared with PyTorch.

    PYTHONPATH=.:tests python tests/importing/torch_programs/torch_samples_campaign.py \\
        --target onnxruntime --dtype int64

Each case runs in a child of its own, so that a crash or a hang is counted as one. Results go to
``<state>/<target>.jsonl``, a line a case; what stands there is not run again unless ``--again`` asks for its
kind. "No region" are also samples that PyTorch cannot export. The order of equal values (``topk``, ``sort``)
and random numbers are no promise of PyTorch: such differences are to be read, not mended. PyTorch's table
needs the package `expecttest`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial

from kits.importing.case_campaign import Case, options_of, run_cases
from kits.importing.torch_samples import DTYPES, torch_samples


def main() -> int:
    """Run what is asked for, and print the counts."""
    parser = options_of(__doc__, "build/torch_samples")
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    parser.add_argument("--samples", type=int, default=2, help="how many of each op")
    parser.add_argument("--symbolic", action="store_true", help="with extents that may be others")
    options = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1", TVM_NUM_THREADS="1")
    return run_cases(options, _cases(options.dtype, options.samples, options.target, options.symbolic))


def _cases(dtype: str, count: int, target: str, symbolic: bool) -> Iterator[Case]:
    for sample in torch_samples(dtype, count):
        form = " (symbolic)" if symbolic else ""
        yield sample.name + form, partial(sample.checked, target, symbolic=symbolic)


if __name__ == "__main__":
    sys.exit(main())
