"""Origins of imported modules: which bindings belong to a node, and what nodes are called."""

import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper
from tvm import relax

import annotated_region as ar
from annotated_region.functions.marking import bindings_in
from annotated_region.importing.origins import NodeResults, OnnxOrigins, with_origins
from annotated_region.importing.torch_programs.node_origins import node_origin
from annotated_region.origins import LONGEST_ORIGIN, bounded, origin_of
from annotated_region.testing.registry import claim_ops, temporary_registrations


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        claim_ops("numbers", "relax.nn.conv2d", "relax.nn.relu", "relax.add", "relax.matmul", "relax.reshape")
        yield


def told(mod):
    """By the name of a binding, where it comes from."""
    return {each.var.name: origin_of(each.var, each.value) for each in bindings_in(mod["main"].body)}


def test_what_lies_between_two_results_belongs_to_the_later_node():
    x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    builder, results = relax.BlockBuilder(), NodeResults()
    with builder.function("main", [x]):
        with builder.dataflow():
            inner = builder.emit(relax.op.exp(x))
            first = builder.emit(relax.op.negative(inner))
            results.note(first, "first")
            results.note(first, "a node that hands it on")
            # An importer may hand out a call, which is bound where something reads it.
            second = builder.normalize(relax.op.add(first, relax.op.abs(x)))
            results.note(second, "second")
            both = builder.emit(relax.op.split(second, 3, axis=1))
            parts = relax.Tuple([builder.emit(both[index]) for index in range(3)])
            results.note(parts, "split")
            builder.emit(relax.op.tanh(x))
            out = builder.emit_output(relax.op.nn.relu(parts[0]))
            results.note(out, "relu")
        builder.emit_func_output(out)
    mod = builder.get()
    marked = with_origins(mod, results)
    assert told(marked) == {
        "lv": "first",
        "lv1": "first",
        "lv2": "second",
        "lv3": "second",
        "lv4": "split",
        "lv5": "split",
        "lv6": "split",
        "lv7": "split",
        "lv8": "relu",
        "gv": "relu",
    }
    assert told(mod)["lv"] == "lv"


def model_of(*nodes):
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    graph = helper.make_graph(
        list(nodes), "model", [value], [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_onnx_nodes_are_called_by_their_names_if_these_tell_them_apart():
    branch = helper.make_graph([helper.make_node("Neg", ["x"], ["n"], name="twice")], "branch", [], [])
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="/act/Relu"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Exp", ["b"], ["c"], name="twice"),
        helper.make_node("If", ["c"], ["d"], name="if", then_branch=branch, else_branch=branch),
        helper.make_node("Sink", ["d"], []),
    ]
    origins = OnnxOrigins(model_of(*nodes))
    assert [origins.origin_of(node) for node in nodes] == ["/act/Relu", "Relu:b", "Exp:c", "if", "Sink:"]


def test_the_names_that_a_converter_of_onnx_gives_to_nodes_are_not_theirs():
    origins = OnnxOrigins(model_of(helper.make_node("Relu", ["x"], ["a"], name="own")))
    assert origins.origin_of(helper.make_node("Relu", ["x"], ["a"], name="n0")) == "own"


def test_resnet_by_the_light_model_keeps_the_names_of_its_nodes():
    model = onnx.load(Path(onnx.__file__).parent / "backend/test/data/light/light_resnet50.onnx")
    for node in list(model.graph.node)[::2]:
        node.ClearField("name")
    kind_of = {node.name or f"{node.op_type}:{node.output[0]}": node.op_type for node in model.graph.node}
    mod = ar.from_onnx(model)
    ops = ar.explain(mod, ["numbers"]).functions[0].ops
    assert {(op.op, kind_of[op.origin]) for op in ops} == {
        ("relax.nn.conv2d", "Conv"),
        ("relax.add", "BatchNormalization"),
        ("relax.add", "Sum"),
        ("relax.nn.relu", "Relu"),
        ("relax.nn.max_pool2d", "MaxPool"),
        ("relax.nn.avg_pool2d", "AveragePool"),
        ("relax.reshape", "Reshape"),
        ("relax.matmul", "Gemm"),
        ("relax.add", "Gemm"),
        ("relax.nn.softmax", "Softmax"),
        # The weights of the shipped file are filled in by nodes, and some of them only when it runs.
        ("relax.broadcast_to", "ConstantOfShape"),
        ("relax.multiply", "BatchNormalization"),
        ("relax.permute_dims", "Gemm"),
    }
    keys = [op.key for op in ops]
    assert len(set(keys)) == len(keys)
    for moved in [op for op in ops if op.placed == "numbers"][::40]:
        after = ar.explain(mod, ["numbers"], pins={moved.key: "host"}).functions[0].ops
        places = zip(ops, after, strict=True)
        assert [old.key for old, new in places if old.placed != new.placed] == [moved.key]


def test_names_survive_the_confined_process_and_text():
    model = model_of(
        helper.make_node("Exp", ["x"], ["a"], name="/a/Exp\x1b[31m"),
        helper.make_node("Softplus", ["a"], ["b"], name="long/" * 1000),
        helper.make_node("Identity", ["b"], ["c"], name="/c/Identity"),
        helper.make_node("Relu", ["c"], ["y"]),
    )
    model.graph.output[0].name = "y"
    mod = ar.from_onnx(model, isolated=True)
    names = list(dict.fromkeys(told(mod).values()))
    assert names == [r"/a/Exp\x1b[31m", bounded("long/" * 1000), "Relu:y"]
    text = ar.passes.WriteOrigins()(mod).script(show_meta=True)
    assert told(ar.passes.ReadOrigins()(tvm.script.from_source(text))) == told(mod)
    tvm.ir.assert_structural_equal(mod, ar.from_onnx(model))


def test_both_branches_and_the_choice_have_origins():
    def branch(op, name):
        result = helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3])
        node = helper.make_node(op, ["x"], [name], name=f"/{name}/{op}")
        return helper.make_graph([node], name, [], [result])

    flag = helper.make_tensor_value_info("flag", TensorProto.BOOL, [])
    choice = helper.make_node(
        "If", ["flag"], ["y"], name="/If", then_branch=branch("Exp", "yes"), else_branch=branch("Neg", "no")
    )
    model = model_of(choice, helper.make_node("Relu", ["y"], ["z"], name="/Relu"))
    model.graph.input.append(flag)
    model.graph.output[0].name = "z"
    found = {
        each.value.op.name if isinstance(each.value, relax.Call) else "If": origin_of(each.var, each.value)
        for each in bindings_in(ar.from_onnx(model)["main"].body)
        if isinstance(each.value, relax.Call | relax.If)
    }
    assert found == {
        "relax.exp": "/yes/Exp",
        "relax.negative": "/no/Neg",
        "If": "/If",
        "relax.nn.relu": "/Relu",
    }


@pytest.mark.parametrize(
    ("name", "shown"),
    [("plain", "plain"), ("two\nlines", r"two\nlines"), ("\x1b[31m", r"\x1b[31m"), ("Grüße", "Grüße")],
)
def test_names_become_one_line_that_prints(name, shown):
    assert bounded(name) == shown


@pytest.mark.parametrize("name", ["layer/" * 200_000, "\x00" * 5000, "é" * 201, "\U000e0001" * 150])
def test_names_of_any_length_have_a_bound(name):
    assert len(bounded(name)) <= LONGEST_ORIGIN
    assert bounded(name).isprintable()


TRACE = """  File "/home/user/model.py", line 12, in forward
    x = layer(x)
  File "/home/user/blocks.py", line 6, in forward
    return self.query(x)
  File "/usr/lib/python3/site-packages/torch/nn/modules/linear.py", line 134, in forward
    return F.linear(input, self.weight, self.bias)
"""


@pytest.mark.parametrize(
    ("modules", "trace", "origin"),
    [
        (
            {"a": ("", "models.Model"), "b": ("layers.0.query", "Linear")},
            TRACE,
            "layers.0.query (blocks.py:6)",
        ),
        ({"a": ("", "models.Model")}, TRACE, "Model (blocks.py:6)"),
        ({"a": ("", SimpleNamespace)}, None, "SimpleNamespace"),
        ({"a": ("encoder", "Encoder")}, "no trace", "encoder"),
        (None, None, "add_3"),
    ],
)
def test_nodes_of_pytorch_are_called_by_module_and_line(modules, trace, origin):
    node = SimpleNamespace(name="add_3", meta={"nn_module_stack": modules, "stack_trace": trace})
    assert node_origin(node) == origin


def test_an_exported_program_keeps_the_names_of_its_modules():
    torch = pytest.importorskip("torch", reason="exports a program of PyTorch")
    from kits.torch_models import example_inputs, torch_model  # noqa: PLC0415

    inputs = example_inputs("bert")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PyTorch warns of its own use of its own code
        program = torch.export.export(torch_model("bert"), tuple(inputs))
        mod = ar.from_exported_program(program)
    names = [name for name, _ in torch_model("bert").named_modules() if name]
    for name, origin in told(mod).items():
        assert name == "gv" or origin.startswith((*names, "_Bert ("))
        assert name == "gv" or origin.endswith(")")
    report = ar.explain(mod, ["dnnl"], cross_compile=True)
    ops = report.functions[0].ops
    key = next(op.key for op in ops if op.op == "relax.nn.layer_norm")
    moved = ar.explain(mod, ["dnnl"], cross_compile=True, pins={key: "host"}).functions[0].ops
    places = zip(ops, moved, strict=True)
    assert [before.key for before, after in places if before.placed != after.placed] == [key]
    assert np.isfinite([op.bytes for op in ops if op.bytes is not None]).all()
