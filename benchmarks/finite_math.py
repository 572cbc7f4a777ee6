"""What exact clips and GELU cost on oneDNN: times without the option finite_math and with it.

    python benchmarks/finite_math.py [--rounds 30] [name ...]

Both builds of a graph take turns in one process; the median of the ratios of neighbouring calls is printed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tvm
from kits.family_models import family_model, inputs_of
from tvm import relax
from tvm.relax import op
from tvm.relax.frontend.onnx import from_onnx

import annotated_region as ar

Graph = tuple[tvm.IRModule, Sequence[np.ndarray]]


def main() -> None:
    """Measure the graphs that are named, else all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(GRAPHS), metavar="name")
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args()
    for name in given.names:
        module, inputs = GRAPHS[name]()
        exact, fast = (_call(module, inputs, finite_math=finite) for finite in (False, True))
        ratio, least = _measured(exact, fast, given.rounds)
        print(f"{name:24} {least * 1e3:9.3f} ms exact, {ratio:.3f} of the time with finite_math", flush=True)


def _call(module: tvm.IRModule, inputs: Sequence[np.ndarray], *, finite_math: bool) -> Callable[[], object]:
    """One build, called twice so that its plan is there."""
    library = ar.build(ar.partition(module, ["dnnl"]), options={"dnnl": {"finite_math": finite_math}}).jit()
    machine = relax.VirtualMachine(library, tvm.cpu())
    tensors = [tvm.runtime.tensor(array) for array in inputs]
    for _ in range(2):
        machine["main"](*tensors)
    return lambda: machine["main"](*tensors)


def _measured(exact: Callable[[], object], fast: Callable[[], object], rounds: int) -> tuple[float, float]:
    """The median ratio of the times, and the least time of the first in seconds."""
    times = [(_seconds(exact), _seconds(fast)) for _ in range(rounds)]
    return statistics.median(one / other for one, other in times), min(one for one, _ in times)


def _seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


# --- graphs


def _model(name: str) -> Graph:
    model = family_model(name)
    return from_onnx(model, keep_params_in_input=False), list(inputs_of(model).values())


def _single(shape: Sequence[int], make: Callable[[relax.Expr], relax.Expr]) -> Graph:
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(make(x))
        builder.emit_func_output(result)
    return builder.finalize(), [np.random.default_rng(1).standard_normal(shape).astype("float32")]


def _weight(*shape: int) -> relax.Expr:
    values = np.random.default_rng(2).standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
    return relax.const(values.astype("float32"))


def _depthwise(x: relax.Expr) -> relax.Expr:
    return op.clip(op.nn.conv2d(x, _weight(192, 1, 3, 3), padding=1, groups=192), 0, 6)


GRAPHS: Mapping[str, Callable[[], Graph]] = {
    "clip": lambda: _single((1, 1 << 20), lambda x: op.clip(x, 0, 6)),
    "pointwise_clip": lambda: _single(
        (1, 96, 28, 28), lambda x: op.clip(op.nn.conv2d(x, _weight(192, 96, 1, 1)), 0, 6)
    ),
    "depthwise_clip": lambda: _single((1, 192, 28, 28), _depthwise),
    "gelu": lambda: _single((1, 1 << 20), op.nn.gelu),
    "feed_forward": lambda: _single(
        (128, 768), lambda x: op.matmul(op.nn.gelu(op.matmul(x, _weight(768, 3072))), _weight(3072, 768))
    ),
    "mobilenet_v2": lambda: _model("mobilenet_v2"),
    "bert": lambda: _model("bert"),
    "convnext": lambda: _model("convnext"),
}

if __name__ == "__main__":
    main()
