"""All tests of nodes that the onnx package brings: imported, partitioned, built, run and compared.

    PYTHONPATH=.:tests python tests/importing/onnx_models/node_tests_campaign.py \\
        --target host --state build/node_tests

Each case runs in a child of its own, so that a crash or a hang is counted as one. The expected results are
those of the onnx package. Results go to ``<state>/<target>.jsonl``, a line a case; what stands there is not
run again unless ``--again`` asks for its kind. ``--form constants`` passes all inputs but the first as
initializers, which is how models hold axes, scales and weights; ``--form symbolic`` passes lists so, and
gives the batch of the others a name. The result is 0 if nothing is wrong, crashes, hangs or ends in an error
that is none of the project's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial

from kits.importing.case_campaign import Case, options_of, run_cases
from kits.importing.node_cases import FORMS, KINDS, in_form, node_cases
from kits.importing.node_checks import checked


def main() -> int:
    """Run what is asked for, and print the counts."""
    parser = options_of(__doc__, "build/node_tests")
    parser.add_argument("--kind", choices=KINDS, default="node", help="which of the package's tests")
    parser.add_argument("--form", choices=FORMS, default="inputs")
    options = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1", TVM_NUM_THREADS="1")
    return run_cases(options, _cases(options.kind, options.form, options.target))


def _cases(kind: str, form: str, target: str) -> Iterator[Case]:
    for case in node_cases(kind):
        formed = in_form(case, form)
        if formed is not None:
            name = case.name if form == "inputs" else f"{case.name} ({form})"
            yield name, partial(checked, formed, target)


if __name__ == "__main__":
    sys.exit(main())
