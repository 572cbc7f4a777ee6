"""The compiler computes the runtime's loops over elements with vectors.

It may decline, without a word, what `#pragma omp simd` asks for: softmax along columns took up to nineteen
times as long.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from kits.backends.dnnl.dnnl_harness import needs_onednn

from annotated_region.backends.dnnl.installation import build_options
from annotated_region.backends.dnnl.runtime_units import runtime_text

ASKED = "#pragma omp simd"
CLONES = re.compile(r"__attribute__\(\(target_clones\([^)]*\)\)\)")
VECTORIZED = re.compile(r":(\d+):\d+: optimized: +loop vectorized")


def loops_with_vectors(lines: list[str]) -> dict[int, int]:
    """The first and last line of each loop that is to be computed with vectors; lines count from 1."""
    loops = {}
    for place, line in enumerate(lines, 1):
        if not line.strip().startswith(ASKED):
            continue
        last, depth = place + 1, 0
        while (depth := depth + lines[last - 1].count("{") - lines[last - 1].count("}")) > 0:
            last += 1
        loops[place + 1] = last
    return loops


@needs_onednn
@pytest.mark.skipif(platform.machine() != "x86_64", reason="compiles for x86-64-v3")
@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ tells which loops it vectorizes")
def test_every_loop_that_asks_for_vectors_has_them(tmp_path: Path) -> None:
    """Compiled for AVX2 alone: the compiler does not tell for which of several clones a loop has vectors."""
    text = CLONES.sub("", runtime_text())
    source = tmp_path / "runtime.cc"
    source.write_text(text, encoding="utf-8")
    options = (*build_options().compile_options, "-march=x86-64-v3", "-w", "-fopt-info-vec-optimized")
    command = ["g++", *options, "-c", str(source), "-o", str(tmp_path / "runtime.o")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    vectorized = {int(line) for line in VECTORIZED.findall(done.stderr)}
    lines = text.split("\n")
    loops = loops_with_vectors(lines)
    assert len(loops) >= 50
    scalar = [
        "\n".join(lines[first - 1 : last])
        for first, last in loops.items()
        if vectorized.isdisjoint(range(first, last + 1))
    ]
    assert not scalar, scalar
