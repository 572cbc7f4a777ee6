"""Lazy loading: the program's help needs no TVM, and the package loads only what is used."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import annotated_region as ar

FACADE = Path(ar.__file__)
HEAVY = {"tvm", "tvm_ffi", "numpy", "networkx", "onnx", "onnxruntime", "openvino", "rich", "torch"}
TOLD_TO_TVM = (
    "_loading",
    "_version",
    "annotations",
    "arguments",
    "collector",
    "error_classes",
    "errors",
    "op_types",
    "recurrent_loops",
    "registration",
    "supported_versions",
    "tvm_adapter",
)


def said(code):
    """The lines that a fresh process prints."""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout.splitlines()


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["explain", "--help"]])
def test_the_program_answers_without_loading_a_library(words):
    told = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "annotated_region", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = [line.rpartition("|")[2].strip() for line in told.stderr.splitlines()]
    assert "annotated_region.command_line.run" in loaded
    assert HEAVY & {name.partition(".")[0] for name in loaded} == set()
    assert "annotated-region" in told.stdout


AFTER_TVM = """
import sys, tvm, tvm.relax
before = set(sys.modules)
import annotated_region
print(*set(sys.modules) - before, sep="\\n")
"""


def test_the_package_loads_what_tvm_has_to_know_and_no_more():
    loaded = said(AFTER_TVM)
    assert HEAVY & {name.partition(".")[0] for name in loaded} <= {"tvm"}
    rooms = {name.split(".")[1] for name in loaded if name.startswith("annotated_region.")}
    assert rooms == set(TOLD_TO_TVM)


USES = """
import sys
import annotated_region
from tvm.script import from_source
mod = from_source('''
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        with R.dataflow():
            a = R.annotation.compiler_begin(x, compiler="dnnl")
            b = R.nn.softmax(a)
            c = R.annotation.compiler_end(b, compiler="dnnl")
            R.output(c)
        return c
''')
annotated_region.explain(mod, ["dnnl"])
annotated_region.partition(mod, ["dnnl"])
print("networkx" in sys.modules, "onnx" in sys.modules)
graph = annotated_region.AnnotatedRegionSet(mod["main"]).graph()
print(graph.number_of_nodes(), "networkx" in sys.modules)
"""


def test_annotations_parse_after_the_import_alone_and_networkx_is_loaded_by_graphs():
    assert said(USES) == ["False False", "2 True"]


FROM_A_FILE = """
import sys
import onnx
from onnx import TensorProto, helper
import annotated_region
values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy"]
graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", values[:1], values[1:])
opsets = [helper.make_opsetid("", 13)]
mod = annotated_region.from_onnx(helper.make_model(graph, opset_imports=opsets, ir_version=8))
annotated_region.partition(mod, ["dnnl"])
print(*sys.modules, sep="\\n")
"""
NOT_NEEDED = (
    *("networkx", "rich.console"),
    *(f"annotated_region.backends.{name}" for name in ("onnxruntime", "openvino", "tensorrt")),
    *(f"annotated_region.{name}" for name in ("layout_plan", "measuring", "placement", "quantizing")),
)


def test_a_partition_of_a_file_loads_neither_other_targets_nor_other_passes():
    loaded = said(FROM_A_FILE)
    assert "annotated_region.backends.dnnl" in loaded
    assert set(NOT_NEEDED) & set(loaded) == set()


FIRST_QUESTIONS = {
    "import annotated_region as ar; print(*ar.known_targets())": "dnnl onnxruntime openvino tensorrt",
    "from annotated_region.targets.backend import backend_of; print(backend_of('dnnl').name)": "dnnl",
    "from annotated_region.targets.rules import rule_of; print(bool(rule_of('dnnl', 'relax.add')))": "True",
    "from annotated_region.targets.rules import rules_of; print(len(rules_of('tensorrt')) > 0)": "True",
    "from annotated_region.targets.rules import patterns_of; print(len(patterns_of('dnnl')) > 0)": "True",
    "import annotated_region as ar; print(ar.backends.openvino.__name__[-8:])": "openvino",
    "import annotated_region as ar; ar.register_backend('dnnl', max_ops=3); "
    "from annotated_region.targets.backend import backend_of; print(backend_of('dnnl').max_ops)": "3",
    "import annotated_region as ar; ar.register_rule('dnnl', 'relax.add')(lambda op: 'mine'); "
    "from annotated_region.targets.rules import rule_of; print(rule_of('dnnl', 'relax.add')(None))": "mine",
}


@pytest.mark.parametrize(("code", "answer"), FIRST_QUESTIONS.items())
def test_targets_that_come_with_the_package_are_there_when_they_are_asked_for(code, answer):
    assert said(code) == [answer]


REGISTERS = """
import annotated_region as ar

@ar.register_rule("dnnl", "relax.nn.conv2d")
def mine(op):
    return "never"

from annotated_region.targets.backend import backend_of
from annotated_region.targets.rules import rule_of
print(rule_of("dnnl", "relax.nn.conv2d") is mine, backend_of("dnnl").engine_log is not None)
"""
DESCRIBES = """
import annotated_region as ar
from annotated_region.targets.backend import backend_of
ar.register_backend("dnnl", max_ops=3)
print(backend_of("dnnl").max_ops)
"""


@pytest.mark.parametrize(("code", "answer"), [(REGISTERS, "True True"), (DESCRIBES, "3")])
def test_what_a_user_registers_first_wins_over_what_is_loaded_later(code, answer):
    assert said(code) == [answer]


def test_rooms_are_attributes_of_the_package():
    assert said("import annotated_region as ar; print(ar.layouts.__name__)") == ["annotated_region.layouts"]
    assert not hasattr(ar, "no_such_room")


def test_public_names_are_listed_and_a_star_imports_them():
    assert set(ar.__all__) <= set(dir(ar))
    names = {}
    exec("from annotated_region import *", names)
    assert set(ar.__all__) <= set(names)


def test_type_checkers_find_public_names_where_python_finds_them():
    (checked,) = [
        node
        for node in ast.parse(FACADE.read_text()).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    seen = {
        alias.name: node.module
        for node in checked.body
        if isinstance(node, ast.ImportFrom) and node.module != "annotated_region"
        for alias in node.names
    }
    assert seen == ar._MODULE_OF
