"""Tensors of OpenVINO's regions: bound where they lie, views copied, shared memory refused."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
import tvm_ffi
from kits.backends.engine_kit import array

from annotated_region.backends.onnx_emitter.entry import Description
from annotated_region.backends.openvino import runtime
from annotated_region.errors import ArgumentError


class RecordingRequest:
    """Notes where the tensors lie that it is given, and adds one to what comes in."""

    def __init__(self):
        self.tensors = {}

    def set_input_tensor(self, place, tensor):
        self.tensors["in", place] = tensor

    def set_output_tensor(self, place, tensor):
        self.tensors["out", place] = tensor

    def infer(self):
        self.tensors["out", 0].data[...] = self.tensors["in", 0].data + 1


class OneInput:
    """A compiled model of one input and one output."""

    def __init__(self):
        self.request = RecordingRequest()
        self.inputs = [self]

    def get_names(self):
        return {"a", "another name of a"}

    def create_infer_request(self):
        return self.request

    def get_runtime_model(self):
        return self

    def get_ops(self):
        return []


def recording_runner():
    model = OneInput()
    return runtime.RequestRunner(Description("r", ("a",), ("b",), ()), model), model.request


def test_inputs_and_outputs_are_used_where_they_lie():
    runner, request = recording_runner()
    source, target = (tvm.runtime.tensor(array(2, 3)) for _ in range(2))
    runner(source, target)
    places = [request.tensors[key].data.ctypes.data for key in (("in", 0), ("out", 0))]
    assert places == [source.data_ptr(), target.data_ptr()]


def test_views_with_gaps_are_copied_and_nothing_beside_them_is_written():
    runner, request = recording_runner()
    whole, around = np.arange(12, dtype="float32").reshape(3, 4), np.zeros((3, 4), "float32")
    source, target = (tvm_ffi.from_dlpack(each[:, ::2]) for each in (whole, around))
    runner(source, target)
    assert request.tensors["in", 0].data.ctypes.data != source.data_ptr()
    np.testing.assert_array_equal(around[:, ::2], whole[:, ::2] + 1)
    assert not around[:, 1::2].any()


def test_an_output_whose_elements_share_memory_is_refused():
    runner, _ = recording_runner()
    target = tvm_ffi.from_dlpack(np.lib.stride_tricks.as_strided(np.zeros(3, "float32"), (2, 3), (0, 4)))
    with pytest.raises(ArgumentError, match="overlapping elements"):
        runner(tvm.runtime.tensor(array(2, 3)), target)
