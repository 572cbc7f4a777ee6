"""Whether the parts of a profile add up to the whole, for the fifteen models.

    python benchmarks/profiles.py --models resnet50 bert --runs 3

Each run profiles the same executable of target ``dnnl`` once more. A row says the whole in milliseconds, and
for each run the sum of the parts over it.
"""

from __future__ import annotations

import argparse

import numpy as np
from kits.family_models import FAMILIES, family_model, inputs_of

import annotated_region as ar
from annotated_region.testing.light_models import LIGHT_MODELS, input_of, light_model

MODELS = (*LIGHT_MODELS, *FAMILIES)
CLOSE = 0.05


def main() -> int:
    """Print a table; the result is how many runs are not within a twentieth."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    apart = 0
    for name in options.models:
        shares, total = _shares(name, options.runs)
        apart += sum(abs(share - 1) > CLOSE for share in shares)
        told = ", ".join(f"{share:.3f}" for share in shares)
        print(f"| {name} | {1e3 * total:.2f} ms | {told} |", flush=True)
    return apart


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
