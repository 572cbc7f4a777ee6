"""Whether the parts of a profile add up to the whole, for the fifteen models.

    PYTHONPATH=.:tests python benchmarks/profiles.py

Each run profiles the same executable of target ``dnnl`` once more. A row says the whole in milliseconds, and
for each run the sum of the parts over it. The last line counts the runs within a twentieth, which is also
what the exit code tells. On two idle cores all fifteen with three runs each take two and a half minutes;
models that would begin after `--seconds` are left out, and said to be.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from kits.family_models import FAMILIES, family_model, inputs_of

import annotated_region as ar
from annotated_region.testing.light_models import LIGHT_MODELS, input_of, light_model

MODELS = (*LIGHT_MODELS, *FAMILIES)
CLOSE = 0.05


def main() -> int:
    """Print a table; the result is how many runs are not within a twentieth, or were left out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=330, help="no model begins later than this")
    options = parser.parse_args()
    begin = time.monotonic()
    shares: list[float] = []
    print("| model | whole | sum of the parts over the whole, run by run |\n|---|---|---|", flush=True)
    for name in options.models:
        if time.monotonic() - begin > options.seconds:
            print(f"| {name} | left out, no time | |", flush=True)
            continue
        found, total = _shares(name, options.runs)
        shares += found
        told = ", ".join(f"{share:.3f}" for share in found)
        print(f"| {name} | {1e3 * total:.2f} ms | {told} |", flush=True)
    close = sum(abs(share - 1) <= CLOSE for share in shares)
    furthest = max((abs(share - 1) for share in shares), default=0.0)
    asked: int = len(options.models) * options.runs
    seconds = time.monotonic() - begin
    print(f"within {CLOSE:.0%}: {close} of {asked}; furthest off {furthest:.1%}; {seconds:.0f} s")
    return asked - close


def _shares(name: str, runs: int) -> tuple[list[float], float]:
    """The sum of the parts over the whole, run by run, and the whole of the last run."""
    is_light = name in LIGHT_MODELS
    model = light_model(name) if is_light else family_model(name)
    inputs: dict[str, np.ndarray] = input_of(model) if is_light else dict(inputs_of(model))
    executable = ar.build(ar.partition(ar.from_onnx(model), ["dnnl"]))
    profiles = [ar.profile(executable, list(inputs.values())) for _ in range(runs)]
    return [profile.sum / profile.total for profile in profiles], profiles[-1].total


if __name__ == "__main__":
    raise SystemExit(main())
