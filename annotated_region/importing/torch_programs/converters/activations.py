"""Activations that TVM 0.27's importer converts without all of their factors.

``elu`` has a factor of the result and one of the exponent; ``selu`` is exported as an ``elu`` with the first.
The importer ignores both.
"""

from __future__ import annotations

from tvm import relax

from annotated_region.errors import ModelError
from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import TorchNode, dtype_of_tensor


@converts("elu.default")
def scaled_elu(node: TorchNode) -> relax.Expr | None:
    """``scale * x`` above 0, and ``scale * alpha * (exp(input_scale * x) - 1)`` below."""
    alpha, scale = node.argument(1, "alpha", 1.0), node.argument(2, "scale", 1.0)
    within = node.argument(3, "input_scale", 1.0)
    if scale == 1 and within == 1:
        return None
    data = node.tensor(0)
    one, factor, inner, depth = (
        relax.const(float(str(each)), dtype_of_tensor(data))
        for each in (1.0, scale, within, -float(str(alpha)) * float(str(scale)))
    )
    exponent = data if within == 1 else node.emit(relax.op.multiply(data, inner))
    # 1 - exp(x) is negative above 0, where `relu` makes it 0.
    below = node.emit(relax.op.nn.relu(relax.op.subtract(one, relax.op.exp(exponent))))
    above = node.emit(relax.op.multiply(relax.op.nn.relu(data), factor))
    return node.emit(relax.op.add(node.emit(relax.op.multiply(below, depth)), above))


@converts("rrelu_with_noise_functional.default", "rrelu_with_noise.default")
def leaky_between_bounds(node: TorchNode) -> relax.Expr:
    """A leaky ReLU whose factor is random between two bounds in training, and their mean afterwards."""
    if node.argument(4, "training", False):
        raise ModelError("its factors are random in training; export the model after model.eval()")
    bounds = node.argument(2, "lower", 1 / 8), node.argument(3, "upper", 1 / 3)
    found = node.emit(relax.op.nn.leakyrelu(node.tensor(0), sum(float(str(each)) for each in bounds) / 2))
    return node.emit(relax.Tuple([found])) if "functional" in node.name else found
