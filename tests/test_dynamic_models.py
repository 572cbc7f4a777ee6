"""Models of any size: a ResNet-50 of any batch, a transformer block of any length."""

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from kits.host_machines import host_machine
from kits.passes.partition_kit import array, same_up_to_order
from onnx import numpy_helper
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

import annotated_region as ar
from annotated_region.backends.dnnl import installation
from annotated_region.testing.light_models import light_model

needs_onednn = pytest.mark.skipif(
    installation.unavailable() is not None, reason=str(installation.unavailable())
)


def externals(mod):
    return [func for func in mod.functions.values() if func.attrs and "Codegen" in func.attrs]


def machine(mod, path):
    ar.build(mod).export_library(str(path))
    return relax.VirtualMachine(tvm.runtime.load_module(str(path)), tvm.cpu())


def array_of(result):
    return (result if hasattr(result, "numpy") else result[0]).numpy()


def resnet_of_any_batch() -> tuple[onnx.ModelProto, tvm.IRModule]:
    """The model, which flattens one image only, changed to flatten as many as there are."""
    model = light_model("resnet50")
    flattening = {node.input[1] for node in model.graph.node if node.op_type == "Reshape"}
    for initializer in model.graph.initializer:
        if initializer.name in flattening:
            shape = numpy_helper.to_array(initializer)
            initializer.CopyFrom(numpy_helper.from_array(np.array([-1, *shape[1:]]), initializer.name))
    shapes = {model.graph.input[0].name: [tvm.tirx.Var("n", "int64"), 3, 224, 224]}
    return model, from_onnx(model, shape_dict=shapes, keep_params_in_input=False)


@needs_onednn
def test_a_resnet_of_any_batch_is_one_region_and_runs(tmp_path):
    model, mod = resnet_of_any_batch()
    part = ar.partition(mod, ["dnnl"])
    (region,) = externals(part)
    assert not isinstance(region.params[0].ty.shape.values[0], tvm.tirx.IntImm)
    images = array(3, 3, 224, 224)
    name = model.graph.input[0].name
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = np.concatenate([session.run(None, {name: images[i : i + 1]})[0] for i in range(3)])
    run = machine(part, tmp_path / "resnet.so")["main"]
    for batch in (1, 3, 2):
        found = array_of(run(tvm.runtime.tensor(images[:batch])))
        np.testing.assert_allclose(found, expected[:batch], rtol=1e-4, atol=1e-5)


def test_inlining_gives_a_resnet_of_any_batch_back():
    _model, mod = resnet_of_any_batch()
    prepared = ar.passes.PrepareForInference()(mod)
    part = ar.partition(prepared, ["dnnl"], prepare=False, cross_compile=True)
    assert externals(part)
    back = ar.passes.InlinePartitions()(part)
    assert same_up_to_order(back["main"], prepared["main"])


WIDTH, HEADS = 32, 4


def transformer_block() -> tvm.IRModule:
    """Attention and a feed-forward layer over a sequence of any length, with residuals and norms."""
    rng = np.random.default_rng(7)
    length = tvm.tirx.Var("s", "int64")
    x = relax.Var("x", relax.TensorType([1, length, WIDTH], "float32"))

    def weight(*shape: int) -> relax.Expr:
        return relax.const((rng.standard_normal(shape) / np.sqrt(shape[0])).astype("float32"))

    builder = relax.BlockBuilder()
    op, emit = relax.op, builder.emit

    def heads(value: relax.Expr) -> relax.Expr:
        split = emit(op.reshape(value, relax.ShapeExpr([1, length, HEADS, WIDTH // HEADS])))
        return emit(op.permute_dims(split, [0, 2, 1, 3]))

    def dense(value: relax.Expr, inputs: int, outputs: int) -> relax.Expr:
        return emit(op.add(emit(op.matmul(value, weight(inputs, outputs))), weight(outputs)))

    def norm(value: relax.Expr) -> relax.Expr:
        return emit(op.nn.layer_norm(value, weight(WIDTH), weight(WIDTH), axes=[-1]))

    with builder.function("main", [x]):
        with builder.dataflow():
            queries, keys, values = (heads(dense(x, WIDTH, WIDTH)) for _ in range(3))
            scores = emit(op.matmul(queries, emit(op.permute_dims(keys, [0, 1, 3, 2]))))
            scaled = emit(op.multiply(scores, relax.const(float(WIDTH // HEADS) ** -0.5, "float32")))
            mixed = emit(op.matmul(emit(op.nn.softmax(scaled, axis=-1)), values))
            joined = emit(op.permute_dims(mixed, [0, 2, 1, 3]))
            flat = emit(op.reshape(joined, relax.ShapeExpr([1, length, WIDTH])))
            first = norm(emit(op.add(x, dense(flat, WIDTH, WIDTH))))
            hidden = emit(op.nn.relu(dense(first, WIDTH, 4 * WIDTH)))
            second = norm(emit(op.add(first, dense(hidden, 4 * WIDTH, WIDTH))))
            result = builder.emit_output(second)
        builder.emit_func_output(result)
    return builder.get()


@needs_onednn
def test_a_transformer_block_of_any_length_partitions_and_runs(tmp_path):
    mod = transformer_block()
    part = ar.partition(mod, ["dnnl"])
    assert externals(part)
    reference = host_machine(mod)["main"]
    run = machine(part, tmp_path / "block.so")["main"]
    for length in (1, 7, 16):
        x = tvm.runtime.tensor(
            np.random.default_rng(length).standard_normal((1, length, WIDTH)).astype("float32")
        )
        np.testing.assert_allclose(array_of(run(x)), array_of(reference(x)), rtol=1e-4, atol=1e-4)
