"""The model families that are promised, in blocks and whole: one region each, and the answer of the original.

Each block is an ONNX model in text; the whole ones have few and narrow layers. TVM imports them as a user's.
"""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from kits.family_models import FAMILIES, family_model
from kits.family_models import inputs_of as family_inputs
from onnx import numpy_helper
from tvm.relax.frontend.onnx import from_onnx

import annotated_region as ar
from annotated_region.backends.onnx_emitter import emit
from annotated_region.backends.onnxruntime.rules import DIALECT as FOR_ONNX_RUNTIME
from annotated_region.backends.tensorrt.rules import DIALECT as FOR_TENSORRT

DIALECTS = [FOR_ONNX_RUNTIME, FOR_TENSORRT]
HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'

BLOCKS = {
    # Embedding, a fused projection that is split, a causal mask, softmax, tanh-GELU by its parts.
    "gpt2": (
        """block (int64[1,6] ids) => (float[1,6,16] y) {
             h = Gather <axis = 0> (table, ids)
             n = LayerNormalization <axis = -1> (h, scale, shift)
             qkv = MatMul (n, fused)
             q, k, v = Split <axis = 2> (qkv, thirds)
             q4 = Reshape (q, heads)
             k4 = Reshape (k, heads)
             v4 = Reshape (v, heads)
             qt = Transpose <perm = [0, 2, 1, 3]> (q4)
             kt = Transpose <perm = [0, 2, 3, 1]> (k4)
             vt = Transpose <perm = [0, 2, 1, 3]> (v4)
             s = MatMul (qt, kt)
             masked = Where (causal, s, far)
             w = Softmax <axis = -1> (masked)
             mixed = MatMul (w, vt)
             back = Transpose <perm = [0, 2, 1, 3]> (mixed)
             flat = Reshape (back, whole)
             r = Add (flat, h)
             c = Pow (r, three)
             inner = Add (r, c)
             t = Tanh (inner)
             g = Mul (r, t)
             y = Add (g, r)
           }""",
        {
            "table": (32, 16), "scale": (16,), "shift": (16,), "fused": (16, 48),
            "thirds": np.array([16, 16, 16]), "heads": np.array([1, 6, 4, 4]), "whole": np.array([1, 6, 16]),
            "causal": np.tri(6, dtype=bool)[None, None], "far": np.float32(-1e9), "three": np.float32(3),
        },
    ),
    # An additive mask made of integers, erf-GELU by its parts, a pooled first token.
    "bert": (
        """block (float[2,5,8] x, int64[2,5] seen) => (float[2,8] y) {
             f = Cast <to = 1> (seen)
             far = Sub (one, f)
             m = Mul (far, big)
             m3 = Unsqueeze (m, axis1)
             xt = Transpose <perm = [0, 2, 1]> (x)
             s = MatMul (x, xt)
             sm = Add (s, m3)
             w = Softmax <axis = -1> (sm)
             a = MatMul (w, x)
             r = Add (a, x)
             n = LayerNormalization <axis = -1> (r, scale, shift)
             h = MatMul (n, up)
             hb = Add (h, bias)
             d = Div (hb, root)
             e = Erf (d)
             e1 = Add (e, one)
             g1 = Mul (hb, e1)
             g = Mul (g1, half)
             o = MatMul (g, down)
             first = Slice (o, zero, axis1, axis1)
             p = Squeeze (first, axis1)
             y = Tanh (p)
           }""",
        {
            "one": np.float32(1), "big": np.float32(-1e4), "axis1": np.array([1]), "zero": np.array([0]),
            "scale": (8,), "shift": (8,), "up": (8, 32), "bias": (32,), "down": (32, 8),
            "root": np.float32(2**0.5), "half": np.float32(0.5),
        },
    ),
    # Root mean square, rotary positions, a gated unit.
    "llama": (
        """block (float[1,4,8] x, float[4,8] cosines, float[4,8] sines) => (float[1,4,8] y) {
             sq = Pow (x, two)
             ms = ReduceMean <axes = [-1], keepdims = 1> (sq)
             me = Add (ms, eps)
             rt = Sqrt (me)
             nx = Div (x, rt)
             n = Mul (nx, scale)
             a = Slice (n, zero, four, last)
             b = Slice (n, four, eight, last)
             mb = Neg (b)
             turned = Concat <axis = -1> (mb, a)
             left = Mul (n, cosines)
             right = Mul (turned, sines)
             q = Add (left, right)
             gate = MatMul (q, w1)
             sg = Sigmoid (gate)
             silu = Mul (gate, sg)
             up = MatMul (q, w2)
             mix = Mul (silu, up)
             dn = MatMul (mix, w3)
             y = Add (dn, x)
           }""",
        {
            "two": np.float32(2), "eps": np.float32(1e-5), "scale": (8,), "zero": np.array([0]),
            "four": np.array([4]), "eight": np.array([8]), "last": np.array([-1]),
            "w1": (8, 16), "w2": (8, 16), "w3": (16, 8),
        },
    ),
    # Patches as a strided convolution, flattened to tokens, with a class token in front.
    "vit": (
        """block (float[1,3,8,8] x) => (float[1,8] y) {
             p = Conv <strides = [4, 4]> (x, kernel, bias)
             f = Reshape (p, flat)
             t = Transpose <perm = [0, 2, 1]> (f)
             c = Concat <axis = 1> (token, t)
             e = Add (c, places)
             n = LayerNormalization <axis = -1> (e, scale, shift)
             first = Gather <axis = 1> (n, zero)
             y = Gemm <transB = 1> (first, head, shift)
           }""",
        {
            "kernel": (8, 3, 4, 4), "bias": (8,), "flat": np.array([1, 8, 4]), "token": (1, 1, 8),
            "places": (1, 5, 8), "scale": (8,), "shift": (8,), "zero": np.int64(0), "head": (8, 8),
        },
    ),
    # A depthwise convolution, a norm over channels that stand last, a scaled residual.
    "convnext": (
        """block (float[1,8,6,6] x) => (float[1,8,6,6] y) {
             d = Conv <group = 8, pads = [3, 3, 3, 3]> (x, deep, shift)
             l = Transpose <perm = [0, 2, 3, 1]> (d)
             n = LayerNormalization <axis = -1> (l, scale, shift)
             u = MatMul (n, up)
             d2 = Div (u, root)
             e = Erf (d2)
             e1 = Add (e, one)
             g = Mul (u, e1)
             w = MatMul (g, down)
             s = Mul (w, gamma)
             b = Transpose <perm = [0, 3, 1, 2]> (s)
             y = Add (b, x)
           }""",
        {
            "deep": (8, 1, 7, 7), "scale": (8,), "shift": (8,), "up": (8, 32), "down": (32, 8), "gamma": (8,),
            "root": np.float32(2**0.5), "one": np.float32(1),
        },
    ),
    # Expansion, a depthwise step, a linear bottleneck, with bounded activations.
    "mobilenet_v2": (
        """block (float[1,4,8,8] x) => (float[1,10] y) {
             a = Conv (x, wide, b16)
             c = Clip (a, low, high)
             d = Conv <group = 16, pads = [1, 1, 1, 1], strides = [2, 2]> (c, deep, b16)
             e = Clip (d, low, high)
             f = Conv (e, narrow)
             p = GlobalAveragePool (f)
             q = Flatten (p)
             y = Gemm <transB = 1> (q, head)
           }""",
        {
            "wide": (16, 4, 1, 1), "b16": (16,), "low": np.float32(0), "high": np.float32(6),
            "deep": (16, 1, 3, 3), "narrow": (4, 16, 1, 1), "head": (10, 4),
        },
    ),
}  # fmt: skip


def model_of(name):
    """The block with its weights: a shape stands for seeded numbers."""
    text, weights = BLOCKS[name]
    model = onnx.parser.parse_model(HEAD + text)
    generator = np.random.default_rng(3)
    for weight, given in weights.items():
        values = (
            generator.uniform(-0.5, 0.5, given).astype("float32")
            if isinstance(given, tuple)
            else np.asarray(given)
        )
        model.graph.initializer.append(numpy_helper.from_array(values, weight))
    onnx.checker.check_model(model, full_check=True)
    return model


def inputs_of(model):
    generator = np.random.default_rng(4)
    found = {}
    for value in model.graph.input:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        is_whole = value.type.tensor_type.elem_type == onnx.TensorProto.INT64
        found[value.name] = (
            generator.integers(0, 2, shape)
            if is_whole
            else generator.standard_normal(shape).astype("float32")
        )
    return found


def assert_one_region_computes_the_same(model, inputs, dialect):
    """All ops in one region, whose ONNX gives the answers of the original on ONNX Runtime."""
    mod = from_onnx(model, keep_params_in_input=False)
    report = ar.explain(mod, [dialect.target], cross_compile=True)
    assert [entry.op for entry in report.functions[0].ops if entry.placed == "host"] == [], str(report)
    part = ar.partition(mod, [dialect.target], cross_compile=True)
    (region,) = [each for each in part.functions.values() if each.attrs and "Codegen" in each.attrs]
    emitted = emit(region, dialect)
    emitted.check()
    session = onnxruntime.InferenceSession(emitted.complete().SerializeToString())
    named = {port.name: inputs[port.name] for port in emitted.inputs}
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)
    np.testing.assert_allclose(session.run(None, named)[0], expected[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.target)
def test_a_block_of_the_family_is_one_region_and_computes_the_same(name, dialect):
    model = model_of(name)
    assert_one_region_computes_the_same(model, inputs_of(model), dialect)


@pytest.mark.sweep
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.target)
def test_a_whole_model_of_the_family_is_one_region_and_computes_the_same(name, dialect):
    model = family_model(name, "small")
    assert_one_region_computes_the_same(model, family_inputs(model), dialect)
