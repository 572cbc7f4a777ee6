"""Archives of ``torch.export``: anything but data is rejected before PyTorch reads it."""

from __future__ import annotations

import io
import json
import os
import pickle
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

import annotated_region as ar
from annotated_region.command_line.models import read_model
from annotated_region.functions.marking import bindings_in
from annotated_region.importing.torch_programs.archive import plain_archive
from annotated_region.importing.torch_programs.reader import module_from_archive
from annotated_region.origins import origin_of

TENSOR = {
    "path_name": "weight_0",
    "is_param": True,
    "use_pickle": False,
    "tensor_meta": {"sizes": [{"as_int": 2}]},
}
SPEC = json.dumps([1, {"type": "builtins.tuple", "context": "null", "children_spec": []}])
GUARD = "__import__('os').system('touch canary')"


def program() -> dict[str, object]:
    node = {
        "target": "torch.ops.aten.add.Tensor",
        "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "x"}}, "kind": 1}],
        "outputs": [{"as_tensor": {"name": "y"}}],
        "metadata": {
            "stack_trace": "File m.py",
            "torch_fn": "x",
            "custom": "{}",
            "source_fn_stack": "os.system",
        },
    }
    size = {
        "as_expr": {"expr_str": "Add(Integer(2), Symbol('s7', positive=True, integer=True))", "hint": None}
    }
    return {
        "graph_module": {
            "graph": {"nodes": [node], "tensor_values": {"x": {"sizes": [size]}}},
            "module_call_graph": [{"fqn": "", "signature": {"in_spec": SPEC, "out_spec": SPEC}}],
            "treespec_namedtuple_fields": {},
        },
        "range_constraints": {"s7": {"min_val": 2, "max_val": 8}},
        "guards_code": [GUARD],
    }


def members() -> dict[str, bytes]:
    return {
        "archive_format": b"pt2",
        "archive_version": b"0",
        "data/weights/weight_0": b"12345678",
        "data/weights/model_weights_config.json": json.dumps({"config": {"w": TENSOR}}).encode(),
        "data/constants/model_constants_config.json": b'{"config": {}}',
        "data/sample_inputs/model.pt": pickle.dumps(os.getcwd),
        "models/model.json": json.dumps(program()).encode(),
    }


def zipped(files: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as archive:
        for path, data in files.items():
            archive.writestr(f"model/{path}", data)
    return content.getvalue()


def test_what_would_run_is_left_out():
    with zipfile.ZipFile(io.BytesIO(plain_archive(zipped(members()), "m.pt2").content)) as archive:
        assert archive.read("model/data/sample_inputs/model.pt") == b""
        assert archive.read("model/data/weights/weight_0") == b"12345678"
        read = json.loads(archive.read("model/models/model.json"))
    assert read["guards_code"] == []
    assert plain_archive(zipped(members()), "m.pt2").guards == (GUARD,)
    assert read["graph_module"]["graph"]["nodes"][0]["metadata"] == {"stack_trace": "File m.py"}


def changed(old: str, new: str) -> Callable[[], bytes]:
    def make() -> bytes:
        files = members()
        text = files["models/model.json"].decode()
        assert old in text
        files["models/model.json"] = text.replace(old, new).encode()
        return zipped(files)

    return make


def added(path: str, data: bytes = b"") -> Callable[[], bytes]:
    return lambda: zipped(members() | {path: data})


def pickled_weight() -> bytes:
    config = {"config": {"w": TENSOR | {"use_pickle": True}}}
    return added("data/weights/model_weights_config.json", json.dumps(config).encode())()


def weight_elsewhere() -> bytes:
    config = {"config": {"w": TENSOR | {"path_name": "../../models/model.json"}}}
    return added("data/weights/model_weights_config.json", json.dumps(config).encode())()


def object_constant() -> bytes:
    config = {"config": {"w": TENSOR | {"path_name": "custom_obj_0"}}}
    return added("data/constants/model_constants_config.json", json.dumps(config).encode())()


def spec(**changes: object) -> str:
    return json.dumps(
        json.dumps([1, {"type": "builtins.tuple", "context": "null", "children_spec": [], **changes}])
    )


def nested() -> bytes:
    return added("models/model.json", b'{"a": ' * 200 + b"1" + b"}" * 200)()


HOSTILE = {
    "compiled libraries": (added("data/aotinductor/model/a.so"), "'data/aotinductor/model/a.so' is neither"),
    "two graphs": (added("models/other.json", b"{}"), "it has 2 graphs"),
    "weights of older archives": (added("data/weights/model.pt"), "'data/weights/model.pt' is neither"),
    "opaque objects": (added("data/constants/opaque_obj_0"), "is neither a graph nor a raw tensor"),
    "pickled weights": (pickled_weight, "the tensor in 'data/weights/weight_0' is not raw data"),
    "weights elsewhere": (weight_elsewhere, "is not raw data"),
    "objects as constants": (
        object_constant,
        "the tensor in 'data/constants/custom_obj_0' is not raw data",
    ),
    "compressed": (lambda: zipped(members(), zipfile.ZIP_DEFLATED), "is compressed or occurs twice"),
    "another function": (
        changed("torch.ops.aten.add.Tensor", "torch.hub.load"),
        "'torch.hub.load' is not an ATen operator",
    ),
    "a function of Python": (
        changed("torch.ops.aten.add.Tensor", "_operator.call"),
        "'_operator.call' is no",
    ),
    "a call in an extent": (changed("Integer(2)", "open(2)"), "the extent"),
    "an attribute in an extent": (changed("Integer(2)", "s7.__class__"), "the extent"),
    "a text in an extent": (changed("Integer(2)", "Symbol('os')"), "the extent"),
    "a power in an extent": (changed("Integer(2)", "9**9**9"), "the extent"),
    "a range of no symbol": (changed('{"s7": {"min', '{"exit()": {"min'), r"the extent 'exit\(\)'"),
    "an object as an argument": (
        changed("as_tensor", "as_custom_obj"),
        "an argument of the kind 'as_custom_obj'",
    ),
    "a graph as an argument": (changed("as_tensor", "as_graph"), "an argument of the kind 'as_graph'"),
    "a container that imports": (
        changed(json.dumps(SPEC), spec(type="collections.defaultdict")),
        "a structure of type 'collections.defaultdict'",
    ),
    "keys that import": (
        changed(json.dumps(SPEC), spec(context='[{"__enum__": true, "fqn": "os:path"}]')),
        "a structure with keys that are not strings",
    ),
    "named tuples": (
        changed('"treespec_namedtuple_fields": {}', '"treespec_namedtuple_fields": {"a": []}'),
        "named",
    ),
    "a target that is no text": (changed('"torch.ops.aten.add.Tensor"', "7"), "'target' has an unknown form"),
    "nesting": (nested, "more than 64 nested lists"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_more_than_data_is_refused(name):
    make, why = HOSTILE[name]
    with pytest.raises(ar.ModelError, match=why) as caught:
        plain_archive(make(), "m.pt2")
    assert str(caught.value).startswith("m.pt2 is not read, because PyTorch might execute code in it: ")


@pytest.mark.parametrize(
    "content",
    [b"", b"PK", zipped({}), zipped(members())[:-40], zipped({"models/model.json": b"{}"}),
     added("models/model.json", b"{")(), added("models/model.json", b"\xff")()],
)  # fmt: skip
def test_what_is_no_archive_is_said_to_be_none(content):
    with pytest.raises(ar.ModelError, match=r"^m\.pt2 is (not a torch.export archive|not read)"):
        plain_archive(content, "m.pt2")


def test_without_pytorch_the_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ar.ModelError, match=r"m\.pt2 needs the package torch: pip install torch"):
        module_from_archive(zipped(members()), "m.pt2", "", {})


# -- with PyTorch ---------------------------------------------------------------------------------


pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's own, of which each release has others


@pytest.fixture(name="pytorch")
def _pytorch():
    return pytest.importorskip("torch", reason="PyTorch is not installed (extra `torch`)")


@pytest.fixture
def saved(pytorch, tmp_path):
    """A program with weights, a constant, dictionaries and an extent that is any."""

    module = pytorch.nn.Module

    class Network(module):
        def __init__(self):
            super().__init__()
            self.dense = pytorch.nn.Linear(8, 4)
            self.register_buffer("shift", pytorch.arange(4.0))

        def forward(self, x):
            y = pytorch.relu(self.dense(x)) + self.shift
            return {"y": y, "both": (y * 2, x[1:] + pytorch.tensor([0.5]))}

    pytorch.manual_seed(0)
    batch = pytorch.export.Dim("batch", min=3, max=64)
    example = pytorch.linspace(-1, 1, 24).reshape(3, 8)
    program = pytorch.export.export(Network().eval(), (example,), dynamic_shapes={"x": {0: batch}})
    pytorch.export.save(program, tmp_path / "m.pt2")
    return tmp_path / "m.pt2"


def test_a_program_computes_what_pytorch_does(pytorch, saved):
    x = np.random.default_rng(0).standard_normal((5, 8)).astype("float32")
    expected = pytorch.export.load(saved).module()(pytorch.from_numpy(x))
    machine = relax.VirtualMachine(tvm.compile(read_model(saved), "llvm"), tvm.cpu())
    found = [each.numpy() for each in machine["main"](tvm.runtime.tensor(x))]
    wanted = [expected["y"], *expected["both"]]
    assert len(found) == len(wanted)
    for left, right in zip(found, wanted, strict=True):
        assert np.abs(left - right.numpy(force=True)).max() <= 1e-6


def test_a_program_keeps_the_names_of_its_modules(pytorch, saved):
    network = pytorch.export.load(saved)
    stacks = [node.meta.get("nn_module_stack") for node in network.graph.nodes]
    paths = {list(stack.values())[-1][0] for stack in stacks if stack}
    bindings = bindings_in(read_model(saved)["main"].body)
    origins = [origin_of(each.var, each.value) for each in bindings if isinstance(each.value, relax.Call)]
    assert all("(test_torch_archives.py:" in origin for origin in origins)
    assert {origin.partition(" (")[0] for origin in origins} == {path or "Network" for path in paths}


class Canary:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_a_pickle_in_the_place_of_example_inputs_does_not_run(pytorch, saved, tmp_path):
    """It runs where PyTorch loads the file: ``weights_only`` is given up when it fails."""
    content = io.BytesIO()
    pytorch.save((Canary(tmp_path / "canary"),), content)
    with zipfile.ZipFile(saved) as archive:
        files = {info.filename.partition("/")[2]: archive.read(info) for info in archive.infolist()}
    files["data/sample_inputs/model.pt"] = content.getvalue()
    (tmp_path / "hostile.pt2").write_bytes(zipped(files))
    read_model(tmp_path / "hostile.pt2")
    assert not (tmp_path / "canary").exists()
