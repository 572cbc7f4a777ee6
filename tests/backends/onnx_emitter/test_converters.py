"""Every converter: the emitted model is valid, and ONNX Runtime and OpenVINO compute what TVM computes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from kits.backends.onnx_emitter.onnx_case_kit import Graph, function_of
from kits.backends.onnx_emitter.onnx_place_cases import CASES
from kits.host_machines import host_machine
from tvm import relax

from annotated_region.backends.onnx_emitter import converted_ops, emit, trial
from annotated_region.backends.onnx_emitter.conversions.absent import ABSENT
from annotated_region.backends.onnxruntime.rules import DIALECT
from annotated_region.backends.openvino import installation as openvino
from annotated_region.backends.openvino.compiled import compiled_model
from annotated_region.backends.openvino.kernels import DIALECT as FOR_OPENVINO
from annotated_region.backends.openvino.settings import CompileSettings
from annotated_region.backends.openvino.support import refusal
from annotated_region.targets.op_view import OpView

# Two engines sum in different orders; half precision has eleven bits.
TOLERANCE = {"float16": 2e-2, "float32": 2e-4, "float64": 1e-9}
# The first opset that has the operators of an op.
FIRST_OPSETS = {f"relax.bitwise_{name}": 18 for name in ("and", "or", "xor", "not")}
EXAMPLES = max(2, settings().max_examples // 8)


def computed_by_tvm(function, arguments):
    machine = host_machine(tvm.IRModule({"main": function}))
    result = machine["main"](*(tvm.runtime.tensor(array) for array in arguments))
    return [result.numpy()] if hasattr(result, "numpy") else [part.numpy() for part in result]


def computed_by_onnx_runtime(model, arguments):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.complete().SerializeToString(), options)
    return session.run(None, dict(zip((port.name for port in model.inputs), arguments, strict=True)))


def computed_by_openvino(function, arguments):
    model = emit(function, FOR_OPENVINO)
    compiled = compiled_model("case", model.complete().SerializeToString(), {}, CompileSettings(cache=False))
    named = dict(zip((port.name for port in model.inputs), arguments, strict=True))
    used = [name for port in compiled.inputs for name in port.get_names() & named.keys()]
    request = compiled.create_infer_request()
    request.infer({name: named[name] for name in used})
    return [np.array(request.get_output_tensor(place).data) for place in range(len(model.outputs))]


def agree(found, wanted, dtype):
    assert len(found) == len(wanted)
    tolerance = TOLERANCE.get(dtype, 0)
    for result, expected in zip(found, wanted, strict=True):
        assert result.dtype == expected.dtype
        assert result.shape == expected.shape
        if dtype == "float16" and result.dtype.name in ("int8", "uint8"):
            # Quantized: TVM rounds the quotient to float16 before it rounds it to a whole number.
            np.testing.assert_allclose(result.astype("int32"), expected.astype("int32"), rtol=0, atol=1)
        else:
            np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)


def views_in(function):
    views = []

    def visit(expr):
        if isinstance(expr, relax.Call):
            views.append(OpView.of(expr))

    relax.analysis.post_order_visit(function, visit)
    return views


def test_there_is_a_case_for_every_converter():
    assert set(CASES) == set(converted_ops()) - set(ABSENT)


@pytest.mark.sweep
@pytest.mark.campaign
@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_a_converted_op_computes_what_tvm_computes(name, data):
    case = CASES[name]
    dtype = data.draw(st.sampled_from(case.dtypes), label="dtype")
    graph: Graph = case.draw(data.draw, dtype)
    positions = range(1, len(graph.inputs))
    constants = data.draw(
        st.sets(st.sampled_from(positions)) if positions else st.just(set()), label="constants"
    )
    function = function_of(graph, constants)
    assert name in [view.name for view in views_in(function)]
    assert [trial(view, DIALECT) for view in views_in(function)] == [None] * len(views_in(function))
    arguments = [array for position, array in enumerate(graph.inputs) if position not in constants]
    plain = replace(graph, make=graph.reference or graph.make)
    wanted = computed_by_tvm(function_of(plain, constants), arguments)
    for opset in (DIALECT.opset, max(FIRST_OPSETS.get(name, 17), 17)):
        model = emit(function, replace(DIALECT, opset=opset))
        model.check()
        agree(computed_by_onnx_runtime(model, arguments), wanted, dtype)
    if openvino.unavailable() is None and not any(map(refusal, views_in(function))):
        agree(computed_by_openvino(function, arguments), wanted, dtype)
