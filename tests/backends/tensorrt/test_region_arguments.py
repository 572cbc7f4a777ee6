"""Regions called with views, by every runtime: strides are followed, and nothing beside a view is touched."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import tvm
import tvm_ffi
from kits.backends.relax_kit import module, var
from kits.backends.tensorrt.documented_tensorrt import FakeCuda, FakeTensorrt
from tvm.relax import op

import annotated_region as ar
from annotated_region.backends.onnx_emitter.arguments import check_devices, dense_input, dense_output
from annotated_region.backends.tensorrt import runtime
from annotated_region.errors import ArgumentError

SHAPE = (4, 6)
UNTOUCHED = 77.0


def _plain(memory):
    return memory[:4, :6]


# Each takes memory of 16 x 16 numbers to a view of SHAPE.
VIEWS = {
    "dense": lambda memory: memory.reshape(-1)[:24].reshape(SHAPE),
    "dense, behind an offset": lambda memory: memory.reshape(-1)[9:33].reshape(SHAPE),
    "rows of a larger matrix": _plain,
    "backwards": lambda memory: _plain(memory)[::-1],
    "backwards in both axes": lambda memory: _plain(memory)[::-1, ::-1],
    "dense memory backwards": lambda memory: memory.reshape(-1)[:24].reshape(SHAPE)[::-1],
    "every other column": lambda memory: memory[:4, :12:2],
    "every third row backwards": lambda memory: memory[10::-3, :6],
    "transposed": lambda memory: memory[:6, :4].T,
}


def _onnxruntime(_patch):
    return ["onnxruntime"], {}


def _tensorrt(patch):
    device = FakeCuda()
    patch.setattr(runtime, "unavailable", lambda: None)
    patch.setattr(runtime, "require_library", lambda: FakeTensorrt(device))
    patch.setattr(runtime, "load_cuda", lambda: device)
    return ["tensorrt"], {"cache": False}


def _fallback(patch):
    patch.setattr(runtime, "unavailable", lambda: "it is missing")
    return ["tensorrt"], {"fallback": "tvm"}


ENGINES = {"onnxruntime": _onnxruntime, "tensorrt": _tensorrt, "tensorrt's fallback": _fallback}


@pytest.fixture(scope="module", params=ENGINES.values(), ids=ENGINES)
def region(request):
    """The function of a region with two inputs and two results, as a caller of the library finds it."""
    x, y = var("x", SHAPE), var("y", SHAPE)
    mod = module([x, y], lambda builder: (op.subtract(x, y), op.maximum(x, y)))
    with pytest.MonkeyPatch.context() as patch:
        targets, options = request.param(patch)
        partitioned = ar.partition(mod, targets, prepare=False, cross_compile=True)
        library = ar.build(partitioned, options={targets[0]: options}).jit()
        yield library.get_function(f"{targets[0]}_main_0", query_imports=True)


def memory_of(seed):
    return np.random.default_rng(seed).standard_normal((16, 16)).astype("float32")


@pytest.mark.filterwarnings("ignore:target 'tensorrt' cannot run here")
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_outputs_are_written_where_they_lie_and_nothing_beside_them(region, view):
    x, y = (memory_of(seed)[:4, :6].copy() for seed in (1, 2))
    found = [np.full((16, 16), UNTOUCHED, "float32") for _ in range(2)]
    region(*map(tvm_ffi.from_dlpack, (x, y, view(found[0]), view(found[1]))))
    for memory, expected in zip(found, (x - y, np.maximum(x, y)), strict=True):
        whole = np.full((16, 16), UNTOUCHED, "float32")
        view(whole)[...] = expected
        np.testing.assert_array_equal(memory, whole)


@pytest.mark.filterwarnings("ignore:target 'tensorrt' cannot run here")
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_inputs_are_read_where_they_lie_and_stay_as_they_are(region, view):
    memories = [memory_of(seed) for seed in (1, 2)]
    x, y = map(view, memories)
    first, second = (np.empty(SHAPE, "float32") for _ in range(2))
    region(*map(tvm_ffi.from_dlpack, (x, y, first, second)))
    np.testing.assert_array_equal(first, x - y)
    np.testing.assert_array_equal(second, np.maximum(x, y))
    for seed, memory in zip((1, 2), memories, strict=True):
        np.testing.assert_array_equal(memory, memory_of(seed))


@pytest.mark.filterwarnings("ignore:target 'tensorrt' cannot run here")
def test_an_output_whose_elements_share_memory_is_refused(region):
    arrays = [np.zeros(SHAPE, "float32") for _ in range(3)]
    shared = np.lib.stride_tricks.as_strided(np.zeros(6, "float32"), SHAPE, (0, 4))
    with pytest.raises(ArgumentError, match=r"strides \(0, 1\) has overlapping elements"):
        region(*map(tvm_ffi.from_dlpack, (*arrays, shared)))


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float64", "int8", "int64", "bool", "float8_e4m3fn"]
)
def test_views_of_every_type_are_copied_bit_by_bit(dtype):
    width = tvm.DataType(dtype).bits // 8
    bits = np.random.default_rng(3).integers(0, 2, (6, 4 * width), np.uint8)
    view = tvm.runtime.tensor(bits)._create_view((6, 4), dtype, 0)
    reversed_rows = SimpleNamespace(
        shape=(6, 4), strides=(-4, 1), dtype=dtype, device=view.device, is_contiguous=lambda: False,
        data_ptr=lambda: view.data_ptr() + 5 * 4 * width,
    )  # fmt: skip
    dense = dense_input("r", reversed_rows)
    assert (str(dense.dtype), dense.is_contiguous()) == (dtype, True)
    np.testing.assert_array_equal(dense._create_view((6, 4 * width), "uint8", 0).numpy(), bits[::-1])


def test_what_has_no_element_is_as_good_as_dense():
    empty = tvm_ffi.from_dlpack(np.zeros((4, 0), "float32")[:, ::2])
    assert dense_input("r", empty).shape == (4, 0)
    value, bring_back = dense_output("r", empty)
    bring_back()
    assert value.shape == (4, 0)


def elsewhere(kind, dense):
    return SimpleNamespace(
        device=SimpleNamespace(type=kind, index=0), data_ptr=lambda: 0, is_contiguous=lambda: dense,
        strides=(9, 2), shape=SHAPE, dtype="float32",
    )  # fmt: skip


def test_a_device_out_of_reach_is_named():
    check_devices("r", [(3, 4), elsewhere("cuda", True)], ("cpu", "cuda"))
    with pytest.raises(
        ArgumentError, match=r"r: argument 1 is on the device .*cannot access; copy it to cpu"
    ):
        check_devices("r", [(3, 4), elsewhere("vulkan", True)], ("cpu",))


def test_views_on_another_device_are_refused():
    with pytest.raises(ArgumentError, match=r"a view with the strides \(9, 2\) on the device"):
        dense_input("r", elsewhere("cuda", False))
    with pytest.raises(ArgumentError, match=r"a view with the strides \(9, 2\) on the device"):
        dense_output("r", elsewhere("cuda", False))
