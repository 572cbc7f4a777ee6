"""`DFT` and `STFT` beside ONNX Runtime, and beside numpy where that has none."""

from collections.abc import Callable, Mapping

import numpy as np
import onnx
import pytest
from kits.importing.onnx_texts import HEAD, machine_of, run
from tvm import runtime

import annotated_region as ar
from annotated_region.errors import ModelError

HEAD_20 = '<ir_version: 9, opset_import: ["" : 20]> g '


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype("float32")


TRANSFORMS: Mapping[str, tuple[tuple[int, ...], str, Callable[..., np.ndarray]]] = {
    "real": ((16, 1), "DFT<axis = 1>(x)", np.fft.fft),
    "one side": ((16, 1), "DFT<axis = 1, onesided = 1>(x)", np.fft.rfft),
    "an odd length": ((15, 1), "DFT<axis = 1, onesided = 1>(x)", np.fft.rfft),
    "complex": ((12, 2), "DFT<axis = 1>(x)", np.fft.fft),
    "inverse": ((12, 2), "DFT<axis = 1, inverse = 1>(x)", np.fft.ifft),
    "padded": ((12, 1), "DFT<axis = 1>(x, twenty)", lambda x, axis: np.fft.fft(x, 20, axis)),
    "cut off": ((32, 1), "DFT<axis = 1>(x, twenty)", lambda x, axis: np.fft.fft(x, 20, axis)),
    "another axis": ((8, 3, 2), "DFT<axis = 1>(x)", np.fft.fft),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_are_those_of_numpy(name: str) -> None:
    """In float64; ONNX Runtime's own are further from it."""
    shape, node, function = TRANSFORMS[name]
    extents = ", ".join(map(str, shape))
    model = onnx.parser.parse_model(
        f"{HEAD} (float[n, {extents}] x) => (float[n, {extents}] y) <int64 twenty = {{20}}> {{ y = {node} }}"
    )
    machine = machine_of(model)
    for batch in (1, 2):
        data = numbers(batch, *shape)
        parts = data.astype("float64")
        values = parts[..., 0] + (1j * parts[..., 1] if shape[-1] == 2 else 0)
        assert_spectrum(machine["main"](runtime.tensor(data)).numpy(), function(values, axis=1))


def assert_spectrum(found: np.ndarray, expected: np.ndarray) -> None:
    parts = np.stack([expected.real, expected.imag], -1)
    assert found.dtype == "float32"
    assert found.shape == parts.shape
    np.testing.assert_allclose(found, parts, rtol=0, atol=5e-7 * np.abs(parts).max())


LENGTHS: Mapping[str, tuple[int, str, Callable[..., np.ndarray]]] = {
    "real": (1, "y = DFT<axis = 1>(x)", np.fft.fft),
    "complex": (2, "y = DFT<axis = 1>(x)", np.fft.fft),
    "one side": (1, "y = DFT<axis = 1, onesided = 1>(x)", np.fft.rfft),
    "inverse": (2, "y = DFT<axis = 1, inverse = 1>(x)", np.fft.ifft),
    "inverse of real numbers": (1, "y = DFT<axis = 1, inverse = 1>(x)", np.fft.ifft),
    "the length as data": (
        1,
        "s = Shape(x) one = Constant<value = int64 {1}>() l = Gather(s, one) y = DFT<axis = 1>(x, l)",
        np.fft.fft,
    ),
    "both axes": (
        2,
        "z = DFT<axis = 2>(x) y = DFT<axis = 1>(z)",
        lambda x, axis: np.fft.fft2(x, axes=(axis, 2)),
    ),
}


@pytest.mark.sweep
@pytest.mark.parametrize("target", ["dnnl", "onnxruntime", ""])
@pytest.mark.parametrize("name", LENGTHS)
def test_transforms_of_any_length_are_those_of_numpy(name: str, target: str) -> None:
    """FNet mixes the tokens of sentences of any length by them."""
    parts, nodes, function = LENGTHS[name]
    text = f"(float[n, l, 3, {parts}] x) => (float[n, m, 3, 2] y) {{ {nodes} }}"
    machine = machine_of(onnx.parser.parse_model(HEAD + text), [target] if target else [])
    for shape in ((2, 16, 3, parts), (1, 7, 3, parts), (1, 1, 3, parts)):
        data = numbers(*shape)
        exact = data.astype("float64")
        values = exact[..., 0] + (1j * exact[..., 1] if parts == 2 else 0)
        assert_spectrum(machine["main"](runtime.tensor(data)).numpy(), function(values, axis=1))


def test_a_call_of_more_places_than_matrices_have_room_for_is_refused() -> None:
    """The matrices have the square of the length: 100 000 places would take 80 GB."""
    text = "(float[n, l, 1] x) => (float[n, m, 2] y) { y = DFT<axis = 1>(x) }"
    machine = machine_of(onnx.parser.parse_model(HEAD + text), ["dnnl"])
    with pytest.raises(ValueError, match=r"min\(l, 8192\) must be l for 'DFT:y', where l is extent 1 of x"):
        machine["main"](runtime.tensor(np.zeros((1, 100_000, 1), "float32")))


def test_spectra_of_float64_are_of_that_type() -> None:
    data = np.random.default_rng(3).standard_normal((2, 16, 1))
    head, given = '<ir_version: 8, opset_import: ["" : 17]> g (double[2, 16, 1] x)', runtime.tensor(data)
    whole = machine_of(onnx.parser.parse_model(f"{head} => (double[2, 16, 2] y) {{ y = DFT(x) }}"))
    frames = machine_of(
        onnx.parser.parse_model(
            f"{head} => (double[2, f, 3, 2] y) <int64 four = {{4}}> {{ y = STFT(x, four, , four) }}"
        )
    )
    for machine, expected in (
        (whole, np.fft.fft(data[..., 0])),
        (frames, np.fft.rfft(data[..., 0].reshape(2, 4, 4))),
    ):
        parts = np.stack([expected.real, expected.imag], -1)
        np.testing.assert_allclose(machine["main"](given).numpy(), parts, rtol=0, atol=1e-13)


@pytest.mark.parametrize("axis", [1, -2])
def test_the_axis_is_an_input_since_operator_set_20(axis: int) -> None:
    text = f"(float[n, 16, 1] x) => (float[n, 16, 2] y) <int64 a = {{{axis}}}> {{ y = DFT(x, , a) }}"
    data = numbers(2, 16, 1)
    machine = machine_of(onnx.parser.parse_model(HEAD_20 + text))
    found = machine["main"](runtime.tensor(data)).numpy()
    assert_spectrum(found, np.fft.fft(data[..., 0].astype("float64")))


EVERY = np.arange(16)
FRAMES = {
    "a window": ("w = HannWindow(width) y = STFT(x, step, w, width)", 0.5 - 0.5 * np.cos(np.pi * EVERY / 8)),
    "no window": ("y = STFT(x, step, , width)", np.ones(16)),
    "a window alone": ("y = STFT(x, step, given)", EVERY / 8),
    "both sides": ("y = STFT<onesided = 0>(x, step, , width)", np.ones(16)),
}


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("name", FRAMES)
def test_frames_of_signals_of_any_length(name: str, rank: int) -> None:
    nodes, window = FRAMES[name]
    given = "float[n, l, 1] x" if rank == 3 else "float[n, l] x"
    text = f"({given}) => (float[n, f, b, 2] y) <int64 step = {{4}}, int64 width = {{16}}> {{ {nodes} }}"
    model = onnx.parser.parse_model(HEAD + text)
    model.graph.initializer.append(onnx.numpy_helper.from_array((EVERY / 8).astype("float32"), "given"))
    machine = machine_of(model, ["onnxruntime"])
    for length in (16, 17, 40):
        data = numbers(2, length)
        frames = np.lib.stride_tricks.sliding_window_view(data.astype("float64"), 16, 1)[:, ::4] * window
        expected = np.fft.fft(frames) if "onesided" in nodes else np.fft.rfft(frames)
        signal = data if rank == 2 else data[..., None]
        assert_spectrum(machine["main"](runtime.tensor(signal)).numpy(), expected)


def test_a_spectrogram_is_one_region() -> None:
    text = """(float[n, l, 1] x) => (float[n, f, 4] y)
        <int64 step = {4}, int64 width = {16}, int64 bands = {4}, int64 rate = {8000},
         float low = {0.0}, float high = {4000.0}, int64[1] parts = {3}, float e = {0.00001}> {
        w = HannWindow(width) s = STFT(x, step, w, width) q = Mul(s, s) p = ReduceSum<keepdims = 0>(q, parts)
        m = MelWeightMatrix(bands, width, rate, low, high) b = MatMul(p, m) c = Max(b, e) y = Log(c)
    }"""
    (function,) = ar.explain(ar.from_onnx(onnx.parser.parse_model(HEAD + text)), ["dnnl"]).functions
    assert len(function.regions) == 1
    assert not [op for op in function.ops if op.placed == "host"]
    run(text, [], (numbers(2, 40, 1),))


DECLINED = {
    "an axis of unknown length, l": ("float[n, l, 1] x", "y = DFT<axis = 1>(x, four)"),
    "names no axis of 4": ("float[n, 8, 4, 1] x", "y = DFT(x)"),
    "inverts a onesided": ("float[n, 8, 2] x", "y = DFT<axis = 1, inverse = 1, onesided = 1>(x)"),
    "a last axis of 1 or 2": ("float[n, 8, 3] x", "y = DFT<axis = 1>(x)"),
    "'frame_length', which is not": ("float[n, l] x, int64 s", "y = STFT(x, s, , s)"),
    "neither a window nor": ("float[n, l] x", "y = STFT(x, four)"),
    "a complex signal": ("float[n, l, 2] x", "y = STFT(x, four, , four)"),
    "the attribute 'axis' of 3": ("float[n, 8, 1] x", "y = DFT<axis = 3>(x)"),
    "onesided transform of complex": ("float[n, 8, 2] x", "y = DFT<axis = 1, onesided = 1>(x)"),
    "a signal of 3 elements for frames of 4": ("float[n, 3] x", "y = STFT(x, four, , four)"),
    "'frame_step' of 4294967296": ("float[n, 8] x", "y = STFT(x, far, , four)"),
    "no matrix, or": ("float[n] x", "y = MelWeightMatrix(four, four, four, below, low)"),
    "not constant or give no matrix": ("int64 x", "y = MelWeightMatrix(four, x, four, low, low)"),
}


@pytest.mark.parametrize("message", DECLINED)
def test_transforms_that_are_declined(message: str) -> None:
    given, nodes = DECLINED[message]
    text = f"""({given}) => (float[a, b] y)
        <int64 four = {{4}}, int64 far = {{4294967296}}, float low = {{0.0}}, float below = {{-1.0}}>
        {{ {nodes} }}"""
    with pytest.raises(ModelError, match=message):
        ar.from_onnx(onnx.parser.parse_model(HEAD + text))
