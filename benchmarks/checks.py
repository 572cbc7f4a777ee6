"""What a check takes: its time, and its peak memory over that of the program that it checks.

    PYTHONPATH=.:tests python benchmarks/checks.py

For each model two processes build the same things, the host's program and that of target ``dnnl``. One runs
both, one after the other; the other one is `check`, without bisection. Both figures of memory are largest
resident sets from there on, less what the process had before it read the model (Linux alone tells them).
Times are those of a cache without the model's code, and of a cache that has it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import tvm
from kits.family_models import FAMILIES, family_model, inputs_of
from kits.zoo.registry import onnx_network
from kits.zoo.signature import arrays
from tvm import relax

import annotated_region as ar
from annotated_region.checking.program import CheckedProgram
from annotated_region.checking.reference import built_reference
from annotated_region.costs.model import HOST
from annotated_region.passes.pipeline import placed_module
from annotated_region.testing.light_models import LIGHT_MODELS, input_of, light_model

MODELS = ("resnet50", "bert", "gpt2_decode")
ROADS = ("check", "run")
TARGET = "dnnl"


def main() -> int:
    """Print a table; a process with ``--road`` is one that is measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--road", choices=ROADS)
    options = parser.parse_args()
    if options.road:
        print(json.dumps(_measure(options.models[0], options.road)))
        return 0
    print("| model | check, empty cache | full cache | peak of a check | of a run | ratio |")
    print("|---|---|---|---|---|---|")
    for name in options.models:
        with tempfile.TemporaryDirectory() as cache:
            first, second, plain = (_measured(name, road, cache) for road in ("check", "check", "run"))
        megabytes = second["megabytes"], plain["megabytes"]
        print(
            f"| {name} | {first['seconds']:.1f} s | {second['seconds']:.1f} s "
            f"| {megabytes[0]:.0f} MB | {megabytes[1]:.0f} MB | {megabytes[0] / megabytes[1]:.2f} |",
            flush=True,
        )
    return 0


def _measured(name: str, road: str, cache: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, __file__, name, "--road", road],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": cache},
    )
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _measure(name: str, road: str) -> dict[str, float]:
    before = _kilobytes("VmRSS")
    model, inputs = _model(name)
    mod = ar.from_onnx(model)
    del model
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    begin = time.perf_counter()
    if road == "check":
        report = ar.check(mod, [TARGET], inputs=inputs, bisect=False)
        assert report.ok, str(report)
    else:
        _run(mod, list(inputs.values()))
    seconds = time.perf_counter() - begin
    return {"seconds": seconds, "megabytes": (_kilobytes("VmHWM") - before) / 1024}


def _run(mod: tvm.IRModule, inputs: list[np.ndarray]) -> None:
    """The host's program once, then that of the target."""
    placed, session = placed_module(mod, [TARGET])
    program = CheckedProgram.of(mod, placed, session)
    tensors = [tvm.runtime.tensor(array) for array in inputs]
    host = relax.VirtualMachine(built_reference(program.on_host(), HOST), tvm.cpu())
    target = relax.VirtualMachine(ar.build(program.on_targets()), tvm.cpu())
    host["main"](*tensors)
    target["main"](*tensors)


def _model(name: str) -> tuple[onnx.ModelProto, Mapping[str, np.ndarray]]:
    if name in LIGHT_MODELS:
        model = light_model(name)
        return model, input_of(model)
    if name in FAMILIES:
        model = family_model(name)
        return model, inputs_of(model)
    network = onnx_network(name)
    form = network.forms[0]
    return network.proto(form), arrays(network.inputs, form.calls[0])


def _kilobytes(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


if __name__ == "__main__":
    raise SystemExit(main())
