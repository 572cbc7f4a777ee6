"""Plants faults in regions of fifteen models, and counts the regions and ops that `check` finds.

    PYTHONPATH=tests python tests/checking/planted_faults.py [--faults 20] [--seed 0] [--target dnnl] [mixer]

``--kinds exchanged`` plants faults of these kinds alone; those of int8 (step, clipped) go into quantized
models. With ``--right int8`` no faults are planted, and alarms are counted.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence

from kits.checking import faulty_backend
from kits.checking.fault_models import MODELS
from kits.checking.faults import FAULTS, FLOAT_FAULTS
from kits.checking.planting import (
    FOUND,
    PRECISIONS,
    RIGHT,
    Tally,
    campaign,
    checked_without_fault,
    counted,
)


def main() -> int:
    """Print a table; the result is how many faults were not found as they should be."""
    targets = (faulty_backend.NAME, "dnnl", "onnxruntime")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=20, help="a model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", choices=targets, default=faulty_backend.NAME)
    parser.add_argument("--kinds", nargs="+", choices=FAULTS, default=FLOAT_FAULTS)
    parser.add_argument("--right", choices=PRECISIONS, help="no faults: whether there is an alarm")
    parser.add_argument("models", nargs="*", default=MODELS)
    options = parser.parse_args()
    if options.right:
        return _alarms(options.models, options.target, options.right)
    outcomes: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    with campaign():
        for name in options.models:
            begin = time.monotonic()
            tally = counted(name, options.target, options.faults, options.seed, kinds=options.kinds)
            outcomes += tally.outcomes
            kinds += tally.kinds
            print(f"| {name} | {tally} | {time.monotonic() - begin:.0f} s |", flush=True)
    print(f"| all | {Tally(outcomes, kinds)} |")
    return outcomes.total() - outcomes[FOUND] - outcomes[RIGHT]


def _alarms(models: Sequence[str], target: str, precision: str) -> int:
    alarms = 0
    for name in models:
        report = checked_without_fault(name, target, precision)
        print(f"{name} {target} {precision}: {report}", flush=True)
        alarms += not report.ok
    return alarms


if __name__ == "__main__":
    raise SystemExit(main())
