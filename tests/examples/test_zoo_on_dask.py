"""The example with a cluster: two workers of dask count what the command line counts."""

import subprocess
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import onnx
import pytest

import annotated_region as ar
from annotated_region.command_line.extract import load

EXAMPLE = Path(__file__).parents[2] / "examples" / "zoo_on_dask.py"
MODEL = """<ir_version: 8, opset_import: ["" : 13]>
net (float[2,1,{width},4] x) => (float[2,1,{width},4] y)
  <float[1,1,1,1] k = {{2}}, float[1] scale = {{3}}, float[1] shift = {{1}},
   float[1] mean = {{0}}, float[1] var = {{4}}> {{
  c = Conv (x, k)
  r = BatchNormalization (c, scale, shift, mean, var)
  s = Softmax <axis = -1> (r)
  y = Tanh (s)
}}"""
"""Preparation makes one convolution of the first two."""


@pytest.mark.skipif(find_spec("distributed") is None, reason="distributed is not installed")
def test_a_zoo_on_a_cluster_is_counted_as_on_the_command_line(tmp_path):
    widths = {"one": 4, "twin": 4, "wide": 6}
    models = {name: onnx.parser.parse_model(MODEL.format(width=width)) for name, width in widths.items()}
    for name, model in models.items():
        onnx.save(model, tmp_path / f"{name}.onnx")
    finished = subprocess.run(
        [sys.executable, str(EXAMPLE), *(str(tmp_path / f"{name}.onnx") for name in models)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    zoo = [(name, partial(load, str(tmp_path / f"{name}.onnx"), True)) for name in models]
    found = ar.extract_hashed_functions(zoo)
    assert "batch_norm" not in "".join(function.name for function in found.values())
    *rows, total = finished.stdout.splitlines()
    assert {row.split()[0]: int(row.split()[1]) for row in rows} == {
        f"{key:016x}": function.count for key, function in found.items()
    }
    shared = sum(len(function.counts) > 1 for function in found.values())
    assert shared > 0
    assert total == f"{len(found)} distinct functions, {shared} of them in several models"
