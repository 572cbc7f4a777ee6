"""Products, and numbers, of other types than float32: the types and numbers of PyTorch."""

from importlib import import_module
from typing import Any

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import needs_onednn
from tvm import relax

import annotated_region as ar
from annotated_region.importing.torch_programs.product_types import of_operand_type

torch: Any = pytest.importorskip("torch", reason="exports programs of PyTorch")
# PyTorch warns of its own use of its own code.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


class Products(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 4)
        self.convolution = torch.nn.Conv2d(3, 8, 3)
        self.transposed = torch.nn.ConvTranspose2d(8, 2, 2)
        self.line = torch.nn.Conv1d(3, 4, 3)

    def forward(self, x, image, a, b):
        wide = self.convolution(image)
        heads = torch.nn.functional.scaled_dot_product_attention(a[None], b[None], b[None])
        sums = torch.baddbmm(a, a, b), torch.addmm(a[0], a[0], b[0], beta=0.5, alpha=2), a @ b
        return self.linear(x) + 1, self.transposed(wide), self.line(image[:, :, 0]), heads, *sums


def exported(dtype):
    torch.manual_seed(0)
    shapes = [(2, 8), (1, 3, 6, 6), (2, 4, 4), (2, 4, 4)]
    given = tuple(torch.randn(shape).to(dtype) for shape in shapes)
    model = Products().to(dtype).eval()
    return torch.export.export(model, given), model(*given), given


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_results_have_the_types_of_pytorch(dtype):
    program, expected, _ = exported(getattr(torch, dtype))
    types = ar.from_exported_program(program)["main"].ret_ty.fields
    assert [str(each.dtype) for each in types] == [
        str(each.dtype).removeprefix("torch.") for each in expected
    ]


@needs_onednn
def test_numbers_of_float16_are_those_of_pytorch():
    program, expected, given = exported(torch.float16)
    module = ar.partition(ar.from_exported_program(program), ["dnnl"])
    machine = relax.VirtualMachine(ar.build(module).jit(), tvm.cpu())
    found = machine["main"](*(tvm.runtime.tensor(each.numpy()) for each in given))
    for left, right in zip(found, expected, strict=True):
        error = np.abs(left.numpy().astype("float32") - right.detach().numpy().astype("float32")).max()
        assert error <= 2e-3 * np.abs(right.detach().numpy()).max()


class Further(torch.nn.Module):
    def forward(self, x, y, image, kernels):
        if not x.is_floating_point():
            return x @ y, x[None].bmm(y[None])
        linear, conv2d = torch.nn.functional.linear, torch.nn.functional.conv2d
        return x @ y, conv2d(image, kernels), linear(x, y.T, y[0])


@pytest.mark.parametrize("dtype", ["float64", "int64", "int32", "int8", "uint8"])
def test_products_are_as_large_and_as_precise_as_those_of_pytorch(dtype):
    """In float32, int8 does not wrap around, and larger types are rounded."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(3, 4), (4, 5), (1, 2, 4, 4), (3, 2, 3, 3)]
    kind = getattr(torch, dtype)
    most = min(np.iinfo(dtype).max, 1 << 30) if not kind.is_floating_point else 1 << 30
    given = tuple(torch.randint(most // 2, most, shape, generator=generator).to(kind) for shape in shapes)
    module = ar.from_exported_program(torch.export.export(Further(), given))
    machine = relax.VirtualMachine(ar.build(module).jit(), tvm.cpu())
    found = machine["main"](*(tvm.runtime.tensor(each.numpy()) for each in given))
    for left, right in zip(found, Further()(*given), strict=True):
        assert left.dtype == dtype
        np.testing.assert_allclose(left.numpy(), right.numpy(), rtol=1e-14 if kind.is_floating_point else 0)


@pytest.mark.parametrize(("left", "right", "out_dtype"), [
    ("float32", "float32", "float32"), ("int8", "int8", "int32"), ("uint8", "int8", "float32"),
])  # fmt: skip
def test_other_types_stay(left, right, out_dtype):
    x, y = (relax.Var("x", relax.TensorType((2, 2), dtype)) for dtype in (left, right))
    call = relax.op.matmul(x, y, out_dtype=out_dtype)
    assert of_operand_type(call) is call
    assert of_operand_type(x) is x


class Numbers(torch.nn.Module):
    """Numbers that float16 does not hold, beside tensors; bfloat16 holds all but the least, and 0.3.

    Infinity and 0 are beside tensors in the extremes so far, and 1 in the logarithm.
    """

    def forward(self, x):
        is_absent = (x < 1).to(x.dtype)
        least = torch.finfo(torch.float32).min
        return (
            torch.softmax(x + is_absent * -1e9, -1),
            torch.softmax(x + is_absent * least, -1),
            torch.softmax(torch.where(x < 1, -1e9, x), -1),
            x * 1e4 / 1e6,
            x * 1e4 * 1e-7,
            x - 1e9,
            1e9 - x,
            1e6 / (x + 100),
            1e-8**x,
            x * torch.tensor(-1e9),
            x * torch.tensor([0.5], dtype=x.dtype),
            x // 0.3,
            *(torch.div(x, 0.3, rounding_mode=each) for each in ("floor", "trunc")),
            x % 0.3,
            torch.log1p(x / 1024) * 1024,
            torch.expm1(x / -1024) * 1024,
            x.flip(1).cummax(1)[0],
            x.cummin(1)[0],
            x.logcumsumexp(1),
        )


@pytest.mark.parametrize("target", ["", pytest.param("dnnl", marks=needs_onednn)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_numbers_that_a_type_does_not_hold_are_read_as_in_pytorch(dtype, target):
    """Rounded to the type they are infinite, 0 or a little more; 0 times an infinite one is NaN."""
    tolerance = {"float16": 2e-3, "bfloat16": 1.6e-2}[dtype]
    x = (torch.arange(12.0).reshape(2, 6) * 0.3).to(getattr(torch, dtype))
    module = ar.from_exported_program(torch.export.export(Numbers(), (x,)))
    built = ar.build(ar.partition(module, [target]) if target else module)
    array_of = import_module("kits.torch_halves").array_of
    found = relax.VirtualMachine(built.jit(), tvm.cpu())["main"](tvm.runtime.tensor(array_of(x)))
    for left, right in zip(found, Numbers()(x), strict=True):
        assert left.dtype == dtype
        np.testing.assert_allclose(
            left.numpy().astype("float32"), right.float().numpy(), tolerance, tolerance / 16
        )
