"""How exact calibrated int8 is: `ar.passes.Quantize` beside ONNX Runtime's own quantizer, on the same inputs.

    python benchmarks/quantization.py --models resnet50 bert --inputs 16 --json result.json

Both see the same seeded inputs; the error is that of other inputs: the root of the mean square of what the
answers are off from those of float32, as a share of these. ONNX Runtime quantizes per channel, in the
format QDQ, with MinMax and with Entropy, of networks for images all ops but the probabilities at the end,
of BERT the products. All ops would be many times as far off: probabilities of 1e-3 and masked scores of
-3e38 would be rounded. Times are not measured here, see `inference.py`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kits.family_models import FAMILIES, family_model, inputs_of
from kits.quantized_models import IMAGE_OPS, TEXT_OPS, quantized_model
from kits.quantizing.small_networks import answers, arrays_for, error_of, onnxruntime_answers

import annotated_region as ar
from annotated_region.testing.light_models import light_model

TARGETS = ("dnnl", "onnxruntime")
Inputs = list[dict[str, np.ndarray]]


def main() -> int:
    """Measure what the command line asks for; fails if an error of ours is the larger one."""
    options = parsed()
    rows = [row for name in options.models for row in rows_of(name, options)]
    print(table(rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    return int(any(row["ours"] > row["theirs"] for row in rows))


def rows_of(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each method and target."""
    model, inputs = model_and_inputs(name, options.size)
    calibration, tried = inputs(range(options.inputs)), inputs(range(1000, 1000 + options.tried))
    exact = onnxruntime_answers(model, tried)
    rows = []
    for method in options.ranges:
        ops = TEXT_OPS if name == "bert" else IMAGE_OPS
        theirs = quantized_model(model, calibration, ranges=method, ops=ops)
        error = error_of(onnxruntime_answers(theirs, tried), exact)
        quantize = ar.passes.Quantize(calibration, ranges=method, target="dnnl")
        mod, report = quantize.with_report(ar.from_onnx(model))
        for target in TARGETS:
            (function,) = ar.explain(mod, [target]).functions
            rows.append(
                {
                    "model": name,
                    "ranges": method,
                    "target": target,
                    "ours": error_of(answers(mod, tried, target), exact),
                    "theirs": error,
                    "regions": len(function.regions),
                    "host ops": sum(op.placed == "host" for op in function.ops),
                    "products in int8": report.share,
                    "multiplications in int8": report.share_of_work,
                }
            )
            print(rows[-1], file=sys.stderr, flush=True)
    return rows


def model_and_inputs(name: str, size: str) -> tuple[onnx.ModelProto, Callable[[range], Inputs]]:
    """A model, and what makes inputs of seeds."""
    if name in FAMILIES:
        family = family_model(name, size)
        return family, lambda seeds: [inputs_of(family, seed=seed) for seed in seeds]
    light = light_model(name)
    return light, lambda seeds: arrays_for(light, seeds)


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows in Markdown."""
    head = (
        "| model | ranges | target | ours | ONNX Runtime's | ratio | regions | host ops | products in int8 |"
    )
    lines = [head, "|---" * 9 + "|"]
    for row in rows:
        cells = (
            *(row["model"], row["ranges"], row["target"], f"{row['ours']:.4f}", f"{row['theirs']:.4f}"),
            *(f"{row['ours'] / row['theirs']:.2f}", row["regions"], row["host ops"]),
            f"{row['products in int8']:.0f} %",
        )
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--models", nargs="+", default=["resnet50", "mobilenet_v2", "bert"], metavar="NAME")
    parser.add_argument("--size", default="base", choices=("base", "small"), help="of models that have sizes")
    parser.add_argument("--ranges", nargs="+", default=["minmax", "entropy"], metavar="METHOD")
    parser.add_argument("--inputs", type=int, default=16, help="inputs that both are calibrated with")
    parser.add_argument("--tried", type=int, default=16, help="other inputs, whose answers are compared")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
