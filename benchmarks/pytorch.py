"""Six families as PyTorch users have them: exported and run on oneDNN, beside PyTorch itself.

    python benchmarks/pytorch.py --models bert convnext --rounds 8

Needs the extra ``torch``. Both get the same inputs and as many threads; the rounds are interleaved,
each begins with untimed runs, and the ratio is the median over rounds. The models are those of
`kits.torch_models` at their usual size; their answers are compared.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

SETTLING = 0.1  # seconds of untimed runs, in which the idle threads of the other side stop spinning
RUNS = 3  # timed runs in a round

Run = Callable[[], object]


def main() -> int:
    """Measure what the command line asks for; the exit status tells whether the answers agreed."""
    options = parsed()
    # These are read when the libraries are loaded, so they come before anything imports them.
    for variable in ("TVM_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[variable] = str(options.threads)
    families = importlib.import_module("kits.family_sizes").FAMILIES
    print(f"{'model':<13} {'ours ms':>9} {'torch ms':>9} {'ratio':>6}  largest difference")
    agreed = [compared(name, options.rounds, options.threads) for name in options.models or families]
    return 0 if all(agreed) else 1


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--models", nargs="+", metavar="NAME", help="some of them; all if left out")
    parser.add_argument("--rounds", type=int, default=8, help="interleaved rounds")
    parser.add_argument("--threads", type=int, default=2, help="threads of both")
    return parser.parse_args()


def compared(name: str, rounds: int, threads: int) -> bool:
    """Print the figures of one model; whether the answers agree."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(threads)
    models = importlib.import_module("kits.torch_models")
    model, inputs = models.torch_model(name), models.example_inputs(name)
    run = offloaded(models.imported(model, inputs), [value.numpy() for value in inputs])
    with torch.inference_mode():
        difference = float(abs(run().numpy() - model(*inputs).numpy()).max())
        pairs = [timed(run, lambda: model(*inputs), number % 2 == 1) for number in range(rounds)]
    ours, theirs = (statistics.median(times) * 1e3 for times in zip(*pairs, strict=True))
    ratio = statistics.median(own / other for own, other in pairs)
    print(f"{name:<13} {ours:>9.2f} {theirs:>9.2f} {ratio:>6.2f}  {difference:.1e}", flush=True)
    return difference < 1e-3


def offloaded(module: Any, arrays: list[Any]) -> Callable[[], Any]:
    """The module on oneDNN, as a function without arguments."""
    tvm = importlib.import_module("tvm")
    region = importlib.import_module("annotated_region")
    library = region.build(region.partition(module, ["dnnl"])).jit()
    machine = tvm.relax.VirtualMachine(library, tvm.cpu())
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    return lambda: machine["main"](*tensors)


def timed(ours: Run, theirs: Run, theirs_first: bool) -> tuple[float, float]:
    """Seconds of a run of each in one round."""
    if theirs_first:
        other, own = seconds(theirs), seconds(ours)
    else:
        own, other = seconds(ours), seconds(theirs)
    return own, other


def seconds(run: Run) -> float:
    """The median of a few runs, after some that are not timed."""
    began = time.perf_counter()
    while time.perf_counter() - began < SETTLING:
        run()
    times = []
    for _ in range(RUNS):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


if __name__ == "__main__":
    raise SystemExit(main())
