"""``import tvm`` alone finds the code generators, in a process that imports nothing else."""

import configparser
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def in_process(tmp_path):
    """Runs a program where the package is on the path, and its entry points are those of setup.cfg."""
    metadata = configparser.ConfigParser()
    metadata.read(ROOT / "setup.cfg")
    information = tmp_path / "annotated_region-0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: annotated-region\nVersion: 0\n")
    declared = metadata["options.entry_points"]["tvm.backends"]
    (information / "entry_points.txt").write_text(f"[tvm.backends]\n{declared.strip()}\n")

    def run(program, **variables):
        path = os.pathsep.join([str(tmp_path), str(ROOT)])
        environment = os.environ | {"PYTHONPATH": path} | variables
        script = tmp_path / "program.py"  # TVMScript reads its own source
        script.write_text(program)
        return subprocess.run(
            [sys.executable, script], env=environment, capture_output=True, text=True, check=True
        ).stdout.split()

    return run


FOUND = """
import sys, tvm
for target in ("dnnl", "onnxruntime", "openvino", "tensorrt"):
    print(tvm.get_global_func(f"relax.ext.{target}", allow_missing=True) is not None)
print("annotated_region" in sys.modules)
"""


def test_importing_tvm_finds_the_generators_and_imports_nothing_more(in_process):
    assert in_process(FOUND) == ["True", "True", "True", "True", "False"]


def test_tvm_can_be_told_not_to_load_them(in_process):
    assert in_process(FOUND, TVM_DEVICE_BACKEND_AUTOLOAD="0") == ["False", "False", "False", "False", "False"]


GENERATES = """
import tvm
from tvm import relax
from tvm.script import ir as I, relax as R

@I.ir_module
class Module:
    @R.function
    def region(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        R.func_attr({"Codegen": "dnnl", "global_symbol": "region"})
        with R.dataflow():
            y = R.nn.relu(x)
            R.output(y)
        return y

    @R.function
    def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        cls = Module
        with R.dataflow():
            y = cls.region(x)
            R.output(y)
        return y

made = relax.transform.RunCodegen()(Module)
print(len(made.attrs["external_mods"]), "region" in made.attrs["external_mods"][0].inspect_source())
"""


def test_tvm_generates_code_without_an_import_of_the_package(in_process):
    assert in_process(GENERATES) == ["1", "True"]


BOTH = """
import tvm
import annotated_region as ar
import annotated_region_tvm
from annotated_region.targets.rules import rules_of
print("relax.nn.conv2d" in rules_of("tensorrt"))
print(*annotated_region_tvm.REGISTERED)
"""


def test_the_package_does_not_take_its_own_generators_for_those_of_tvm(in_process):
    assert in_process(BOTH) == ["True", "dnnl", "onnxruntime", "openvino", "tensorrt"]
