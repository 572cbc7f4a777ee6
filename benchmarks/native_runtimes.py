"""The runtimes of regions in Python and in C++, side by side: the time of a call, and of the first one.

    python benchmarks/native_runtimes.py --targets onnxruntime openvino --models squeezenet mlp

Both read the same library, in one process. Calls take turns, in an order that changes; medians, quartiles and
the ratio of the medians are printed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import onnx
import tvm
from kits.backends.without_python import without_python
from small_models import SMALL_MODELS, small_model
from tvm import relax

import annotated_region as ar
from annotated_region.testing.light_models import input_of, light_model

Call = Callable[[], object]


def model_of(name: str) -> onnx.ModelProto:
    """A small model or a light one by its name."""
    return small_model(name) if name in SMALL_MODELS else light_model(name)


def prepared(target: str, model: onnx.ModelProto) -> tuple[Call, float]:
    """A call of the built model, and the seconds that the first one took, in which regions are opened."""
    machine = relax.VirtualMachine(ar.build(ar.partition(ar.from_onnx(model), [target])), tvm.cpu())
    arrays = [tvm.runtime.tensor(array) for array in input_of(model).values()]
    start = time.perf_counter()
    machine["main"](*arrays)
    return lambda: machine["main"](*arrays), time.perf_counter() - start


def timed(calls: dict[str, Call], rounds: int) -> dict[str, list[float]]:
    """Seconds of each call in each round."""
    order = list(calls)
    found: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds):
        for name in order if number % 2 else reversed(order):
            start = time.perf_counter()
            calls[name]()
            found[name].append(time.perf_counter() - start)
    return found


def compared(target: str, name: str, rounds: int) -> str:
    """A row of the table."""
    model = model_of(name)
    calls: dict[str, Call] = {}
    opened: dict[str, float] = {}
    calls["Python"], opened["Python"] = prepared(target, model)
    with without_python(target):
        calls["C++"], opened["C++"] = prepared(target, model)
    quarters = {
        key: np.quantile(times, (0.25, 0.5, 0.75)) * 1e6 for key, times in timed(calls, rounds).items()
    }
    cells = [f"{middle:.0f} ({low:.0f} to {high:.0f})" for low, middle, high in quarters.values()]
    ratio = quarters["C++"][1] / quarters["Python"][1]
    firsts = [f"{seconds * 1e3:.0f}" for seconds in opened.values()]
    return f"| {target} | {name} | {' | '.join(cells)} | {ratio:.2f} | {' | '.join(firsts)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", nargs="+", default=["onnxruntime", "openvino"])
    parser.add_argument("--models", nargs="+", default=["mlp", "digits", "squeezenet", "resnet50"])
    parser.add_argument("--rounds", type=int, default=301)
    options = parser.parse_args()
    print(
        "| target | model | Python, us (quartiles) | C++, us (quartiles) | ratio | first call, ms | in C++ |"
    )
    print("|---|---|---|---|---|---|---|")
    for target in options.targets:
        for name in options.models:
            print(compared(target, name, options.rounds), flush=True)


if __name__ == "__main__":
    main()
