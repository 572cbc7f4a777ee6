"""The example with a cluster: two workers of dask count what one process counts."""

import subprocess
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import onnx
import pytest
from tvm.relax.frontend.onnx import from_onnx

import annotated_region as ar

EXAMPLE = Path(__file__).parents[2] / "examples" / "zoo_on_dask.py"
MODEL = """<ir_version: 8, opset_import: ["" : 13]>
net (float[2,{width}] x) => (float[2,{width}] y) {{
  r = Relu (x)
  s = Softmax <axis = -1> (r)
  y = Tanh (s)
}}"""


@pytest.mark.skipif(find_spec("distributed") is None, reason="distributed is not installed")
def test_a_zoo_on_a_cluster_is_counted_as_in_one_process(tmp_path):
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
    zoo = [(name, partial(from_onnx, model, keep_params_in_input=False)) for name, model in models.items()]
    found = ar.extract_hashed_functions(zoo)
    *rows, total = finished.stdout.splitlines()
    assert {row.split()[0]: int(row.split()[1]) for row in rows} == {
        f"{key:016x}": function.count for key, function in found.items()
    }
    shared = sum(len(function.counts) > 1 for function in found.values())
    assert shared > 0
    assert total == f"{len(found)} distinct functions, {shared} of them in several models"
