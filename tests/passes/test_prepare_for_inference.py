"""The whole preparation: modules of every shape, nets against ONNX Runtime, the light models."""

# TVMScript is no Python that a type checker understands:
# mypy: disable-error-code="valid-type, untyped-decorator, misc, no-untyped-def, index"

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from kits.host_machines import host_machine
from kits.lighter_models import LIGHTER_MODELS
from onnx import TensorProto, helper, numpy_helper
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

import annotated_region as ar
from annotated_region.errors import InvalidModuleError
from annotated_region.passes.prepare_for_inference import PrepareForInference
from annotated_region.testing.light_models import light_module

ONE, TWO, ZERO = (relax.const(number) for number in (1.0, 2.0, 0.0))


def visit(mod: tvm.IRModule, name: str, see: Callable[[relax.Expr], None]) -> None:
    relax.analysis.post_order_visit(mod[name], see)


def histogram(mod: tvm.IRModule, name: str = "main") -> dict[str, int]:
    """How often each op stands in a function; tuples that are taken apart count as well."""
    found: Counter[str] = Counter()

    def see(expr: relax.Expr) -> None:
        if isinstance(expr, relax.Call):
            found[str(getattr(expr.op, "name", "call")).removeprefix("relax.")] += 1
        elif isinstance(expr, relax.TupleGetItem):
            found["TupleGetItem"] += 1

    visit(mod, name, see)
    return dict(found)


def run(mod: tvm.IRModule, *arrays: np.ndarray, name: str = "main") -> np.ndarray:
    machine = host_machine(mod)
    return np.asarray(machine[name](*[tvm.runtime.tensor(array) for array in arrays]).numpy())


# Modules of every shape


def test_branches_ordinary_blocks_and_private_functions_are_prepared() -> None:
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def start(x: R.Tensor((1, 4), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((1, 4), "float32"):
            cls = Before
            y = R.multiply(x, R.const(1.0, "float32"))
            if c:
                a = R.add(y, R.const(0.0, "float32"))
                b = R.reshape(a, R.shape([1, 4]))
                z = R.nn.relu(b)
            else:
                a2 = R.multiply(R.const(2.0, "float32"), y)
                z = R.multiply(a2, R.const(3.0, "float32"))
            _ = R.print(z, format="{}")
            return cls.helper(z)

        @R.function(private=True)
        def helper(x: R.Tensor((1, 4), "float32")) -> R.Tensor((1, 4), "float32"):
            with R.dataflow():
                y = R.divide(x, R.const(1.0, "float32"))
                z = R.tanh(y)
                R.output(z)
            return z

    @I.ir_module
    class Expected:
        @R.function(pure=False)
        def start(x: R.Tensor((1, 4), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((1, 4), "float32"):
            cls = Expected
            if c:  # noqa: SIM108 - TVMScript has no conditional expression
                z = R.nn.relu(x)
            else:
                z = R.multiply(x, R.const(6.0, "float32"))
            _ = R.print(z, format="{}")
            return cls.helper(z)

        @R.function(private=True)
        def helper(x: R.Tensor((1, 4), "float32")) -> R.Tensor((1, 4), "float32"):
            with R.dataflow():
                z = R.tanh(x)
                R.output(z)
            return z

    tvm.ir.assert_structural_equal(
        PrepareForInference()(Before), relax.transform.CanonicalizeBindings()(Expected)
    )


@I.ir_module
class Mixed:
    """Functions of four owners that would all change if they were free."""

    @R.function
    def free(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Mixed
        with R.dataflow():
            y = R.add(x, R.const(0.0, "float32"))
            a = cls.external(y)
            b = cls.primitive(a)
            z = R.call_tir(cls.kernel, (b,), out_ty=R.Tensor((4,), "float32"))
            R.output(z)
        return z

    @R.function
    def external(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        R.func_attr({"Codegen": "dnnl"})
        with R.dataflow():
            y = R.add(x, R.const(0.0, "float32"))
            dead = R.tanh(x)  # noqa: F841
            R.output(y)
        return y

    @R.function(private=True)
    def primitive(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        R.func_attr({"Primitive": True})
        with R.dataflow():
            y = R.add(x, R.const(0.0, "float32"))
            R.output(y)
        return y

    @T.prim_func(private=True)
    def kernel(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        for i in range(4):
            y[i] = x[i]


def test_functions_that_somebody_owns_are_left_alone() -> None:
    prepared = PrepareForInference()(Mixed)
    for name in ("external", "primitive", "kernel"):
        assert prepared[name].same_as(Mixed[name])
    assert "add" not in histogram(prepared, "free")


def test_a_module_of_private_functions_keeps_them() -> None:
    @I.ir_module
    class Private:
        @R.function(private=True)
        def f(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            return R.tanh(x)

    assert [name.name_hint for name in PrepareForInference()(Private).get_global_vars()] == ["f"]


def test_a_local_function_stays_and_its_reads_count() -> None:
    @I.ir_module
    class Closure:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")) -> R.Tensor(
            (4, 4), "float32"
        ):
            @R.function
            def inner(y: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
                return R.add(y, R.const(0.0, "float32"))

            u = R.multiply(x, R.const(1.0, "float32"))
            return inner(u)

    assert histogram(PrepareForInference()(Closure)).get("add") == 1


def test_annotations_of_the_user_still_describe_the_same_regions() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            inside = builder.emit(ar.compiler_begin(x, "dnnl"))
            same = builder.emit(relax.op.add(inside, ZERO))
            outside = builder.emit(ar.compiler_end(same, "dnnl"))
            filled = builder.emit(relax.op.zeros((4,), "float32"))
            ended = builder.emit(ar.compiler_end(filled, "dnnl"))
            result = builder.emit_output(relax.op.subtract(outside, ended))
        builder.emit_func_output(result)
    mod = builder.get()
    prepared = PrepareForInference()(mod)
    tvm.ir.assert_structural_equal(prepared, mod)
    assert len(ar.AnnotatedRegionSet(prepared["main"])) == 2


def test_a_module_that_is_not_well_formed_is_refused() -> None:
    free = relax.Var("free", relax.TensorType((4,), "float32"))
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    value = relax.Var("value", relax.TensorType((4,), "float32"))
    binding = relax.VarBinding(value, relax.BlockBuilder().normalize(relax.op.add(x, free)))
    body = relax.SeqExpr([relax.BindingBlock([binding])], value)
    function = relax.Function([x], body, value.ty).with_attr("global_symbol", "main")
    with pytest.raises(InvalidModuleError, match="not well formed"):
        PrepareForInference()(tvm.IRModule({"main": function}))


# A pass among passes


@I.ir_module
class Small:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            y = R.add(x, R.const(0.0, "float32"))
            z = R.tanh(y)
            R.output(z)
        return z


def test_it_runs_in_a_sequential_and_under_instruments() -> None:
    @tvm.instrument.pass_instrument
    class Names:
        def __init__(self) -> None:
            self.names: list[str] = []

        def run_before_pass(self, mod: tvm.IRModule, info: tvm.ir.transform.PassInfo) -> None:
            self.names.append(str(info.name))

    names = Names()
    with tvm.transform.PassContext(instruments=[names]):
        result = tvm.transform.Sequential([PrepareForInference(), relax.transform.LegalizeOps()])(Small)
    assert names.names[:2] == ["sequential", "PrepareForInference"]
    assert "DeadCodeElimination" in names.names
    assert histogram(result) == {"call_tir": 1}


def test_a_pass_context_can_switch_it_off() -> None:
    with tvm.transform.PassContext(disabled_pass=["PrepareForInference"]):
        assert tvm.transform.Sequential([PrepareForInference()])(Small).same_as(Small)


def test_what_numpy_leaves_tvm_folds_on_request() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            softened = relax.op.nn.leakyrelu(relax.op.ones((4,), "float32"))
            result = builder.emit_output(relax.op.add(x, softened))
        builder.emit_func_output(result)
    mod = builder.get()
    assert histogram(PrepareForInference()(mod)) == {"nn.leakyrelu": 1, "add": 1}
    assert histogram(PrepareForInference(fold_with_tvm=True)(mod)) == {"add": 1}


# Nets from ONNX


class Net:
    """Builds an ONNX model node by node, its weights seeded."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(0)

    def weight(self, *shape: int, low: float = -1.0) -> str:
        name = f"w{len(self.weights)}"
        values = self.random.uniform(low, 1.0, shape).astype(np.float32)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def add(self, op: str, *inputs: str, **attrs: object) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attrs))
        return name

    def conv(self, x: str, channels_in: int, channels_out: int, kernel: int = 3, **attrs: object) -> str:
        weight = self.weight(channels_out, channels_in, kernel, kernel)
        return self.add("Conv", x, weight, self.weight(channels_out), **attrs)

    def norm(self, x: str, channels: int) -> str:
        parameters = [self.weight(channels) for _ in range(3)]
        return self.add("BatchNormalization", x, *parameters, self.weight(channels, low=0.1), epsilon=1e-3)

    def model(self, output: str, *shape: int) -> onnx.ModelProto:
        result = helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)
        image = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)
        graph = helper.make_graph(self.nodes, "net", [image], [result], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def residual_net() -> onnx.ModelProto:
    net = Net(1, 3, 8, 8)
    x = net.add("Relu", net.norm(net.conv("x", 3, 4, pads=[1, 1, 1, 1]), 4))
    left = net.norm(net.conv(x, 4, 4, pads=[1, 1, 1, 1]), 4)
    right = net.norm(net.conv(x, 4, 4, kernel=1), 4)
    x = net.add("Relu", net.add("Sum", left, right, x))
    x = net.add("Dropout", net.add("GlobalAveragePool", x))
    x = net.add("Flatten", x)
    x = net.add("Gemm", x, net.weight(5, 4), net.weight(5), transB=1, alpha=0.5, beta=2.0)
    return net.model(net.add("Softmax", x, axis=-1), 1, 5)


def dense_net() -> onnx.ModelProto:
    net = Net(2, 4, 6, 6)
    x = "x"
    for channels in (4, 6):
        pre = net.add("Relu", net.add("Mul", net.norm(x, channels), net.weight(channels, 1, 1)))
        x = net.add("Concat", x, net.conv(pre, channels, 2, pads=[1, 1, 1, 1]), axis=1)
    return net.model(net.add("Max", net.norm(x, 8), x, net.weight(1)), 2, 8, 6, 6)


def padded_net() -> onnx.ModelProto:
    net = Net(1, 4, 7, 7)
    x = net.conv("x", 2, 6, group=2, strides=[2, 2], auto_pad="SAME_UPPER")
    x = net.add("LRN", net.add("Relu", x), size=3, alpha=0.1)
    x = net.add("AveragePool", x, kernel_shape=[2, 2], pads=[0, 0, 1, 1])
    x = net.add("Mean", x, net.add("Neg", x))
    return net.model(net.add("Clip", net.norm(net.conv(x, 6, 4, kernel=1), 4)), 1, 4, 4, 4)


NETS = {
    "residual": (residual_net, {"batch_norm", "stack", "sum", "TupleGetItem", "permute_dims", "multiply"}),
    "dense": (dense_net, {"batch_norm", "stack", "max", "TupleGetItem"}),
    "padded": (padded_net, {"batch_norm", "nn.pad", "stack", "TupleGetItem"}),
}


@pytest.mark.parametrize("name", NETS)
def test_a_net_computes_what_it_computed(name: str) -> None:
    build, gone = NETS[name]
    model = build()
    mod = from_onnx(model)
    prepared = PrepareForInference()(mod)
    assert not set(histogram(prepared)) & (gone | {"nn.batch_norm", "nn.dropout", "broadcast_to"})
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    image = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    (expected,) = session.run(None, {"x": image})
    for module in (prepared, mod):
        np.testing.assert_allclose(run(module, image), expected, rtol=1e-4, atol=1e-5)


# The light models; the end-to-end test prepares the two largest, too, whose ops alexnet has

LRN = {"multiply": 4, "expand_dims": 2, "nn.avg_pool3d": 2, "squeeze": 2, "power": 2, "divide": 2}

HISTOGRAMS: dict[str, dict[str, int]] = {
    "alexnet": {**LRN, "nn.conv2d": 5, "add": 10, "nn.relu": 7, "nn.max_pool2d": 3}
    | {"reshape": 1, "matmul": 3, "nn.softmax": 1},
    "densenet121": {"nn.conv2d": 121, "add": 122, "nn.relu": 121, "nn.max_pool2d": 1, "multiply": 62}
    | {"concat": 58, "nn.avg_pool2d": 3, "mean": 1},
    "inception_v1": {**LRN, "nn.conv2d": 57, "add": 60, "nn.relu": 57, "nn.max_pool2d": 13, "concat": 9}
    | {"nn.avg_pool2d": 1, "reshape": 1, "matmul": 1, "nn.softmax": 1},
    "inception_v2": {"nn.conv2d": 69, "add": 70, "nn.relu": 69, "nn.max_pool2d": 5, "nn.avg_pool2d": 8}
    | {"concat": 10, "reshape": 1, "matmul": 1, "nn.softmax": 1},
    "resnet50": {"nn.conv2d": 53, "add": 70, "nn.relu": 49, "nn.max_pool2d": 1, "nn.avg_pool2d": 1}
    | {"reshape": 1, "matmul": 1, "nn.softmax": 1},
    "shufflenet": {"nn.conv2d": 49, "add": 63, "nn.relu": 33, "nn.max_pool2d": 1, "nn.avg_pool2d": 4}
    | {"concat": 3, "reshape": 33, "permute_dims": 16, "matmul": 1, "nn.softmax": 1},
    "squeezenet": {"nn.conv2d": 26, "add": 26, "nn.relu": 26, "nn.max_pool2d": 3, "concat": 8}
    | {"mean": 1, "reshape": 2, "nn.softmax": 1},
}


@pytest.mark.parametrize("name", LIGHTER_MODELS)
def test_a_light_model_holds_what_it_needs_and_no_more(name: str) -> None:
    prepared = PrepareForInference()(light_module(name))
    assert histogram(prepared) == HISTOGRAMS[name]
    assert_normal_form(prepared["main"])


def assert_normal_form(function: relax.Function) -> None:
    """One dataflow block of calls, no constant bound to a name; each layer's bias in its one shape."""
    (block,) = function.body.blocks
    values = {binding.var: binding.value for binding in block.bindings}
    for value in values.values():
        assert isinstance(value, relax.Call), value
        assert any(isinstance(argument, relax.Var | relax.Tuple) for argument in value.args)
        if value.op.name in ("relax.add", "relax.multiply"):
            left, right = value.args
            assert not isinstance(left, tvm.ir.GenericConst)
            layer = values.get(left)
            if isinstance(right, tvm.ir.GenericConst) and isinstance(layer, relax.Call):
                assert tuple(right.value.shape) == bias_shape(layer) or layer.op.name not in LAYERS


LAYERS = ("relax.nn.conv2d", "relax.matmul")


def bias_shape(layer: relax.Call) -> tuple[int, ...]:
    channels = [int(extent) for extent in layer.ty.shape][1]
    return (1, channels, 1, 1) if layer.op.name == "relax.nn.conv2d" else (channels,)


def fingerprint(name: str) -> str:
    """The text of a prepared model and a checksum of its constants."""
    mod = PrepareForInference()(light_module(name))
    checksums: list[int] = []

    def see(expr: relax.Expr) -> None:
        if isinstance(expr, tvm.ir.GenericConst):
            checksums.append(zlib.crc32(expr.value.numpy().tobytes()))

    visit(mod, "main", see)
    return f"{zlib.crc32(mod.script().encode())} {checksums}"


def test_every_process_prepares_alike() -> None:
    name = "shufflenet"
    program = f"from tests.passes.test_prepare_for_inference import fingerprint; print(fingerprint({name!r}))"
    environment = {**os.environ, "PYTHONHASHSEED": "123", "PYTHONPATH": os.pathsep.join(sys.path)}
    other = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert other.stdout.strip() == fingerprint(name)
