"""Fifteen models side by side: annotated-region on oneDNN, ONNX Runtime, OpenVINO, TVM alone.

    python benchmarks/inference.py --models resnet50 bert --rounds 20 --tvm --bf16 --json result.json

The models are the nine light ones and those of `kits.family_models` at their usual size;
by name also those of `kits.diffusion_models` (``vae_decoder``, ``unet_block``).
All engines get the same weights, the same inputs and the same number of threads. The rounds are interleaved,
so a busy machine slows all of them alike; read the ratios to ONNX Runtime, and to the better of it and
OpenVINO (``pip install annotated-region[bench]``), not the milliseconds. In each round an engine first runs
for a tenth of a second without being timed, while the idle threads of the one before it, which spin for a
while in hope of work, go to sleep. Answers are compared with ONNX Runtime's. With ``--int8`` all engines get
the models as ONNX Runtime's quantizer makes them (QDQ: unsigned activations, weights by channel); with
``--int8 dynamic`` products of bytes whose scales are measured in each call. With
``--engines openvino annotated-region-openvino`` only these run: the whole model in OpenVINO, and as its
regions.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
from pathlib import Path
from typing import Any


def main() -> int:
    """Measure what the command line asks for; the exit status tells whether all went well and agreed."""
    options = parsed()
    # These are read when the libraries are loaded, so they come before anything imports them.
    for variable in ("TVM_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[variable] = str(options.threads)
    side_by_side = importlib.import_module("side_by_side")
    if unknown := set(options.engines) - set(side_by_side.ENGINES):
        raise SystemExit(f"unknown engines {sorted(unknown)}; known: {', '.join(side_by_side.ENGINES)}")
    report: dict[str, Any] = {"environment": side_by_side.environment(options.threads), "models": []}
    for name in options.models or side_by_side.MODELS:
        tvm_rounds = options.tvm_rounds if options.tvm else 0
        setting = side_by_side.setting_of(name, options.threads, options.target, options.int8)
        result = side_by_side.measured(
            name, setting, options.rounds, tvm_rounds, options.bf16, options.engines
        )
        report["models"].append(result)
    print(side_by_side.table(report))
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0 if side_by_side.all_well(report) else 1


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--models", nargs="+", metavar="NAME", help="some of them; all if left out")
    parser.add_argument("--rounds", type=int, default=20, help="interleaved rounds of the fast engines")
    parser.add_argument("--threads", type=int, default=2, help="threads of every engine")
    parser.add_argument("--target", default="llvm", help="TVM's target for what it compiles itself")
    parser.add_argument("--bf16", action="store_true", help="measure bfloat16 as well, each way")
    parser.add_argument(
        "--int8",
        nargs="?",
        const="static",
        default="",
        choices=("static", "dynamic"),
        help="measure the quantized models instead",
    )
    parser.add_argument(
        "--engines", nargs="+", default=(), metavar="ENGINE", help="some of them; an unknown name lists all"
    )
    parser.add_argument("--tvm", action="store_true", help="measure TVM alone as well; it is slow")
    parser.add_argument("--tvm-rounds", type=int, default=3, help="rounds of TVM alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
