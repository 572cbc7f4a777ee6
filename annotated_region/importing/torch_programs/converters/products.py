"""Products of matrices and vectors beside a sum, and of three tensors, which TVM 0.27's importer lacks."""

from __future__ import annotations

from string import ascii_lowercase

from tvm import relax

from annotated_region.importing.torch_programs.converters.arithmetic import times
from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import TorchNode, extents_of_tensor


@converts("addmv.default")
def vector_and_product(node: TorchNode) -> relax.Expr:
    """``beta * vector + alpha * (matrix @ other)``."""
    return _beside(node, node.emit(relax.op.matmul(node.tensor(1), node.tensor(2))))


@converts("addbmm.default")
def matrix_and_products(node: TorchNode) -> relax.Expr:
    """``beta * matrix + alpha * sum(batch @ other, 0)``."""
    products = node.emit(relax.op.matmul(node.tensor(1), node.tensor(2)))
    return _beside(node, node.emit(relax.op.sum(products, 0)))


@converts("_trilinear.default")
def product_of_three(node: TorchNode) -> relax.Expr:
    """The sum of the products of three tensors along some axes, as in ``nn.Bilinear``.

    Each tensor lacks some axes of the product, along which it is repeated.
    """
    tensors = [node.tensor(place) for place in range(3)]
    lacking = [_axes(node, place) for place in range(3, 6)]
    rank = len(extents_of_tensor(tensors[0])) + len(lacking[0])
    names = ["".join(ascii_lowercase[axis] for axis in range(rank) if axis not in each) for each in lacking]
    summed = _axes(node, 6)
    result = "".join(ascii_lowercase[axis] for axis in range(rank) if axis not in summed)
    # The first of two products has all axes that the third tensor or the result needs.
    first = "".join(each for each in ascii_lowercase[:rank] if each in names[0] + names[1])
    kept = "".join(each for each in first if each in names[2] + result)
    part = node.emit(relax.op.einsum((tensors[0], tensors[1]), f"{names[0]},{names[1]}->{kept}"))
    return node.emit(relax.op.einsum((part, tensors[2]), f"{kept},{names[2]}->{result}"))


def _axes(node: TorchNode, place: int) -> list[int]:
    given = node.argument(place)
    assert isinstance(given, list)
    return given


def _beside(node: TorchNode, product: relax.Expr) -> relax.Expr:
    """``beta`` times the first operand plus ``alpha`` times a product; ``beta`` 0 leaves out the operand."""
    beta, alpha = (node.node.kwargs.get(name, 1) for name in ("beta", "alpha"))
    scaled = times(node, node.cast(product, node.dtype), alpha)
    if beta == 0:
        return scaled
    return node.emit(relax.op.add(times(node, node.cast(node.tensor(0), node.dtype), beta), scaled))
