"""Damages the cache at random between builds, and builds in many processes at once; prints what was noticed.

    PYTHONPATH=tests python tests/compilation/cache_campaign.py --damages 100 --processes 20 --seed 0

Each damage hits one of two entries: of a source that is compiled once, and of a unit that is linked with
it. The next build has to tell it (unless the entry is merely gone), to compile it anew, once, and to give
the right answer. The builds at once are of a region on dnnl, whose runtime is compiled once.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import tvm
from kits.compilation.cache_damage import DAMAGES, Compiler, answer
from tvm import relax
from tvm.relax import op

import annotated_region as ar
from annotated_region.cache import cache_folder


def model() -> tvm.IRModule:
    """A region on dnnl."""
    x = relax.Var("x", relax.TensorType((4, 8), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(
                builder.emit(op.nn.relu(op.matmul(x, relax.const(np.eye(8, dtype="f4")))))
            )
        builder.emit_func_output(out)
    return builder.finalize()


def is_right() -> bool:
    """Whether a library that is built now computes the model."""
    machine = relax.VirtualMachine(ar.build(ar.partition(model(), ["dnnl"], prepare=False)), tvm.cpu())
    data = np.random.default_rng(0).standard_normal((4, 8)).astype("float32")
    return bool(np.array_equal(machine["main"](tvm.runtime.tensor(data)).numpy(), np.maximum(data, 0)))


def damage(count: int, seed: int, place: Path) -> Counter[str]:
    """How often each damage was noticed, and mended with a right answer."""
    chance, found, compiler = random.Random(seed), Counter[str](), Compiler(place)
    ways = {**DAMAGES, "removed": lambda path, _chance: path.unlink()}
    assert answer(place / "before", compiler) == 42
    for number in range(count):
        name = chance.choice(list(ways))
        entry = chance.choice(sorted(cache_folder().glob("object-*")))
        ways[name](entry, chance)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            assert answer(place / str(number), compiler) == 42, (name, entry)
        noticed = [each for each in told if issubclass(each.category, ar.CacheWarning)]
        assert len(noticed) == (name != "removed"), (name, entry, [str(each.message) for each in told])
        assert compiler.runs() == 3 + number, (name, entry)
        found[name] += 1
    return found


def build_at_once(count: int, folder: Path) -> int:
    """How often the compiler made an object while some processes built the same model in an empty cache."""
    folder.mkdir()
    compiler = Compiler(folder)
    environment = {**os.environ, "CXX": str(compiler.path), "XDG_CACHE_HOME": str(folder / "empty")}
    command = [sys.executable, __file__, "--one"]
    processes = [subprocess.Popen(command, env=environment) for _ in range(count)]
    assert [process.wait() for process in processes] == [0] * count
    return compiler.runs()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--damages", type=int, default=100)
    parser.add_argument("--processes", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--one", action="store_true", help="build once and run; for the processes of this one"
    )
    options = parser.parse_args()
    if options.one:
        return 0 if is_right() else 1
    with tempfile.TemporaryDirectory() as name:
        os.environ["XDG_CACHE_HOME"] = str(Path(name, "cache"))
        found = damage(options.damages, options.seed, Path(name))
        print(
            f"{found.total()} damages noticed, mended and computed rightly: {dict(sorted(found.items()))}",
            flush=True,
        )
        made = build_at_once(options.processes, Path(name, "at_once"))
        print(f"{options.processes} builds at once compiled {made} objects: the runtime, two units")
    return 0


if __name__ == "__main__":
    sys.exit(main())
