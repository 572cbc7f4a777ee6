"""Quantization by itself, exact against numpy and TVM without offload."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from kits.backends.dnnl.dnnl_harness import needs_onednn, offload, run, tvm_alone
from tvm import relax
from tvm.relax import op


@dataclass(frozen=True, slots=True)
class Conversion:
    """Numbers, and how they are quantized."""

    numbers: np.ndarray
    scale: np.ndarray
    zero: np.ndarray
    axis: int

    def quantized(self) -> np.ndarray:
        """Computed by numpy: a tie goes to the even neighbour before the zero point is added."""
        limits = np.iinfo(self.zero.dtype)
        whole = np.rint(self.numbers / self.along(self.scale)) + self.along(self.zero).astype("float32")
        clipped: np.ndarray = np.clip(whole, limits.min, limits.max).astype(self.zero.dtype)
        return clipped

    def back(self) -> np.ndarray:
        """What the elements stand for, computed by numpy."""
        distance = self.quantized().astype("int32") - self.along(self.zero).astype("int32")
        numbers: np.ndarray = distance.astype("float32") * self.along(self.scale)
        return numbers

    def along(self, values: np.ndarray) -> np.ndarray:
        """Values that stand along the axis of the channels."""
        return values.reshape([-1 if each == self.axis else 1 for each in range(self.numbers.ndim)])

    def add_to(self, builder: relax.BlockBuilder, name: str) -> None:
        """A function that quantizes, and dequantizes what that makes."""
        scale, zero = (relax.const(each if each.size > 1 else each[0]) for each in (self.scale, self.zero))
        x = relax.Var("x", relax.TensorType(self.numbers.shape, "float32"))
        with builder.function(name, [x]):
            with builder.dataflow():
                made = builder.emit(op.quantize(x, scale, zero, self.axis, self.zero.dtype.name))
                back = builder.emit(op.dequantize(made, scale, zero, self.axis))
                output = builder.emit_output(relax.Tuple([made, back]))
            builder.emit_func_output(output)


@st.composite
def conversions(draw: st.DrawFn) -> Conversion:
    shape = draw(st.lists(st.integers(1, 7), min_size=1, max_size=5))
    axis = draw(st.integers(0, len(shape) - 1))
    dtype = draw(st.sampled_from(["int8", "uint8"]))
    count = shape[axis] if draw(st.booleans()) else 1
    limits = np.iinfo(dtype)
    zeros = st.lists(st.integers(int(limits.min), int(limits.max)), min_size=count, max_size=count)
    zero = np.array(draw(st.one_of(st.just([0] * count), zeros)), dtype)
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    scale = rng.choice([0.5, 0.25, 0.1, 0.037], count).astype("float32")
    return Conversion((rng.integers(-300, 300, shape) * 0.125).astype("float32"), scale, zero, axis)


@needs_onednn
@settings(max_examples=3, deadline=None)
@given(several=st.lists(conversions(), min_size=15, max_size=15))
def test_quantization_is_exact(several: list[Conversion]) -> None:
    """Many in a module, because compiling one takes longer than running all of them."""
    builder = relax.BlockBuilder()
    for index, each in enumerate(several):
        each.add_to(builder, f"f{index}")
    offloaded, host = offload(builder.finalize()), tvm_alone(builder.finalize())
    for index, each in enumerate(several):
        elements, numbers = offloaded.call(f"f{index}", each.numbers)
        np.testing.assert_array_equal(elements, each.quantized())
        np.testing.assert_array_equal(numbers, each.back())
        for mine, theirs in zip((elements, numbers), run(host, f"f{index}", [each.numbers]), strict=True):
            np.testing.assert_array_equal(mine, theirs)
