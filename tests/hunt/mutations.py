"""Breaks the dnnl backend on purpose, one line at a time, and counts the graphs until the hunt finds it.

    python tests/hunt/mutations.py [--graphs 20000] [name ...]

A graph counts only if the intact backend computes it rightly.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from threading import Thread

from hunt import SILENCE, pump
from kits.dense_graphs.recipe import Recipe
from kits.hunt.checking import Kind, checked
from kits.hunt.engines import Build, build_of
from kits.hunt.table_interpreter import runtime_folder

import annotated_region
from annotated_region.backends.dnnl.runtime_units import RUNTIME

__all__ = ["MUTATIONS", "Mutation", "broken_copy"]

WORKER = Path(__file__).with_name("hunting_worker.py")
PACKAGE = Path(annotated_region.__file__).parent


@dataclass(frozen=True, slots=True)
class Mutation:
    """A line of the runtime, or of the passes in front of it, and what stands in its place.

    Attributes
    ----------
    name
        What is broken.
    file
        Where: a header of the runtime, or a module of the backend.
    old, new
        The text, which stands there once, and the wrong one.
    threads
        How many threads compute.
    """

    name: str
    file: str
    old: str
    new: str
    threads: int = 1


MUTATIONS = (
    Mutation(
        "a stride: a slice steps by one",
        "views.h",
        "strides[axis] *= steps[axis];",
        "strides[axis] *= 1;",
    ),
    Mutation(
        "a begin: a slice that begins at an extent begins at the next element",
        "views.h",
        "place.offset += builder.number(begins[axis]) * strides[axis]",
        "place.offset += (builder.number(begins[axis]) + (begins[axis] < 0 ? 1 : 0)) * strides[axis]",
    ),
    Mutation(
        "order of post-ops: the chain backwards",
        "post_ops.h",
        "for (const PostOpRow& post : node_.post_ops) {\n      if (may_accumulate",
        "for (int at = node_.post_ops.size - 1; at >= 0; --at) {\n"
        "      const PostOpRow& post = node_.post_ops[at];\n      if (may_accumulate",
    ),
    Mutation(
        "a mask's shift: one column too few of the past",
        "attention_blocks.h",
        "(given.causal == Causal::to_lower_right ? std::abs(columns - rows) : 0)",
        "(given.causal == Causal::to_lower_right ? std::max<int64_t>(std::abs(columns - rows) - 1, 0) : 0)",
    ),
    Mutation(
        "a mask's heads: each head has the first one's",
        "attention_blocks.h",
        "offset += head % queries.dims[axis] * mask_strides[axis];",
        "offset += head % queries.dims[axis] * (axis == 1 ? 0 : mask_strides[axis]);",
    ),
    Mutation(
        "one thread's share: the last head is left out where two compute",
        "attention.h",
        "item < work.count * work.blocks(); ++item",
        "item < work.count * work.blocks() - (omp_get_max_threads() > 1 ? 1 : 0); ++item",
        threads=2,
    ),
    Mutation(
        "off by one: a choice leaves out the last of a row",
        "kernels.h",
        "item < size; ++item) to[item] = conditions[item]",
        "item + 1 < size; ++item) to[item] = conditions[item]",
    ),
    Mutation(
        "an axis: softmax over the last one",
        "softmax.h",
        "axis = static_cast<int>(given.axis);",
        "axis = static_cast<int>(builder.dims(node.output).size()) - 1;",
    ),
    Mutation(
        "one thread's share: of a sum, the last number but for the first thread",
        "reduction.h",
        "last = size * (part + 1) / parts;",
        "last = size * (part + 1) / parts - (part > 0 ? 1 : 0);",
        threads=2,
    ),
    Mutation(
        "overwriting in place: what is read twice, too",
        "tensors.h",
        "return readers == 1;",
        "return readers >= 1;",
    ),
    Mutation(
        "overwriting in place: what is read later, too",
        "tensors.h",
        "if (last_use_[other] > node_) return false;",
        "",
    ),
    Mutation(
        "overwriting in place: what is an output, too",
        "tensors.h",
        "for (int tensor : graph_.outputs) last_use_[tensor] = graph_.nodes.size;",
        "",
    ),
    Mutation(
        "lifetimes: a part does not keep the whole alive",
        "memory_plan.h",
        "Buffer& buffer = list_[resolve(place).buffer];",
        "Buffer& buffer = list_[place.buffer];",
    ),
    Mutation(
        "the key of plans: any plan serves any shape",
        "region.h",
        "if (!serves(*known->second, known->first, key)) continue;",
        "if (known->first.size() != key.size()) continue;",
    ),
    Mutation(
        "an epsilon: none in layer norm",
        "primitives.h",
        "epsilon, flags, Builder::attributes()",
        "0.0f, flags, Builder::attributes()",
    ),
    Mutation(
        "broadcast: a choice does not repeat along the first axis",
        "rows.h",
        "if (in[axis] == 1) strides[axis] = 0;",
        "if (in[axis] == 1 && axis > 0) strides[axis] = 0;",
    ),
    Mutation(
        "padding: behind instead of before",
        "primitives.h",
        "before = dims_of(given.before), after = dims_of(given.after)",
        "before = dims_of(given.after), after = dims_of(given.before)",
    ),
    Mutation(
        "a scale: twice, where bytes become floats",
        "quantization.h",
        "- zero) * scale;",
        "- zero) * scale * scale;",
    ),
    Mutation(
        "an axis of a reduction: four axes in their order, not in that of memory",
        "reduction.h",
        "return strides[a] > strides[b];",
        "return dims.size() == 4 ? a < b : strides[a] > strides[b];",
    ),
    Mutation(
        "a rotary position: each number has the cosine of the next one",
        "rotation.h",
        "rotate_run(from.data, cosines.data, sines.data, to, half)",
        "rotate_run(from.data, cosines.data + (half > 1 ? 1 : 0), sines.data, to, half)",
    ),
    Mutation(
        "a remainder: of the nearest multiple",
        "float_pairs.h",
        "return std::fmod(left, right);",
        "return std::remainder(left, right);",
    ),
    Mutation(
        "a packed digit: its place is worth 255",
        "packed_digits.h",
        "const __m512 place = _mm512_set1_ps(256.0f);",
        "const __m512 place = _mm512_set1_ps(255.0f);",
    ),
    Mutation(
        "a packed number: neighbours are exchanged",
        "packed_weights.h",
        "(at[vector] << (kKept - item * kBits)) >> kKept",
        "(at[vector] << (kKept - (item ^ 1) * kBits)) >> kKept",
    ),
    Mutation(
        "a tail: the last column of all but the first tile of a packed weight",
        "packed_rows.h",
        "weight.columns - index * kTileColumns)) {}",
        "weight.columns - index * kTileColumns) - (index > 0 ? 1 : 0)) {}",
    ),
    Mutation(
        "a part of a joined product: all begin at its first column",
        "rewriting/joining.py",
        "part = Begins((*(0,) * (rank - 1), begin), (1,) * rank)",
        "part = Begins((0,) * rank, (1,) * rank)",
    ),
    Mutation(
        "two linear functions: the inner shift is not scaled",
        "rewriting/linear.py",
        "shift = outer.alpha * first.beta",
        "shift = first.beta",
    ),
)
"""What is broken, one at a time."""


def broken_copy(mutation: Mutation, folder: Path) -> dict[str, str]:
    """Make a copy in `folder` with the wrong line; the environment in which the copy is what runs."""
    if mutation.file.endswith(".h"):
        place = folder / "runtime"
        shutil.copytree(runtime_folder(), place)
        _break(mutation, place / mutation.file)
        return {"AR_HUNT_RUNTIME": str(place)}
    shutil.copytree(PACKAGE, folder / PACKAGE.name)
    _break(mutation, folder / RUNTIME.parent.relative_to(PACKAGE.parent) / mutation.file)
    others = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([str(folder), *([others] if others else [])])}


def _break(mutation: Mutation, file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert text.count(mutation.old) == 1, f"{mutation.name}: its line stands {text.count(mutation.old)} times"
    file.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")


def found(mutation: Mutation, graphs: int, intact: Build) -> tuple[int, str, str] | None:
    """After how many graphs the hunt finds it, how, and the graph; None if it does not."""
    with tempfile.TemporaryDirectory() as folder:
        broken = broken_copy(mutation, Path(folder))
        threads = str(mutation.threads)
        environment = {
            **os.environ,
            **broken,
            "OMP_NUM_THREADS": threads,
            "TVM_NUM_THREADS": threads,
        }
        command = [sys.executable, str(WORKER), "dnnl", "0", str(graphs), "--keep"]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        try:
            return _first_found(process, intact)
        finally:
            process.kill()
            process.wait()


def _first_found(process: subprocess.Popen[str], intact: Build) -> tuple[int, str, str] | None:
    """What a process tells; a broken runtime may hang, too, such as where an error in memory is handled."""
    seed = 0
    for line in _said(process):
        told = json.loads(line)
        seed = told.get("seed", seed)
        if "failed" not in told:
            continue
        if not checked(Recipe.from_json(told["recipe"]), intact).kind.is_failure:
            return seed + 1, told["kind"], told["text"]
    if process.poll() is None:
        return seed + 1, Kind.HANG.value, ""
    return None if process.returncode == 0 else (seed + 1, Kind.CRASH.value, "")


def _said(process: subprocess.Popen[str]) -> Iterator[str]:
    """The lines of a process until it ends, or says nothing for too long."""
    lines: Queue[str | None] = Queue()
    Thread(target=pump, args=(process, lines), daemon=True).start()
    with suppress(Empty):
        while (line := lines.get(timeout=SILENCE)) is not None:
            yield line
        process.wait()


def main() -> int:
    """Print a table; the result is the number of breakages that are not found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=20000)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    intact = build_of("dnnl")
    missed = 0
    print("| what is broken | file | graphs until found | as |\n|---|---|---|---|")
    for mutation in MUTATIONS:
        if options.names and not any(name in mutation.name for name in options.names):
            continue
        begin = time.monotonic()
        result = found(mutation, options.graphs, intact)
        missed += result is None
        graphs, kind = (str(result[0]), result[1]) if result else ("not found", "")
        print(f"| {mutation.name} | `{mutation.file}` | {graphs} | {kind} |", flush=True)
        print(f"{time.monotonic() - begin:.0f} s {result and result[2]}", file=sys.stderr, flush=True)
    return missed


if __name__ == "__main__":
    raise SystemExit(main())
