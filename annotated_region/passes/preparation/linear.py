"""A common view of convolutions and matrix products with a constant weight, as linear ops per channel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tvm import relax

from annotated_region.passes.preparation.editor import Editor
from annotated_region.passes.preparation.tensors import dtype_of, product_of, static_shape
from annotated_region.targets.op_view import OpView
from annotated_region.tvm_adapter.types import set_type

__all__ = ["CONVOLUTIONS", "LINEAR_OPS", "Linear", "linear_of"]

CONVOLUTIONS = tuple(f"relax.nn.conv{rank}d" for rank in (1, 2, 3))
TRANSPOSED = tuple(f"{name}_transpose" for name in CONVOLUTIONS)
LINEAR_OPS = (*CONVOLUTIONS, *TRANSPOSED, "relax.matmul")


@dataclass(frozen=True, slots=True)
class Linear:
    """An op that is linear in its constant second argument, the weight, with one slice per output channel.

    Attributes
    ----------
    view
        The convolution or matrix product.
    weight_axis
        The axis of the weight along which the output channels lie.
    out_axis
        The axis of the result along which the output channels lie.
    channels
        The number of output channels.
    """

    view: OpView
    weight_axis: int
    out_axis: int
    channels: int

    @property
    def bias_shape(self) -> tuple[int, ...]:
        """The shape in which a bias is added: (1, C, 1, 1) to a convolution, (C,) to a matrix product."""
        if self.view.name == "relax.matmul":
            return (self.channels,)
        return tuple(
            self.channels if axis == self.out_axis else 1 for axis in range(self.view.out_tensor.ndim)
        )

    def per_channel(self, factors: np.ndarray) -> np.ndarray | None:
        """`factors`, of the rank of the result, as a vector over the channels; None if not possible."""
        lengths = [length for axis, length in enumerate(factors.shape) if axis != self.out_axis]
        if any(length != 1 for length in lengths):
            return None
        return np.broadcast_to(factors.reshape(-1), (self.channels,))

    def scaled(self, scale: np.ndarray, editor: Editor, of: relax.Expr | None = None) -> relax.Call | None:
        """The same operation with its weight multiplied by a scalar or a factor per channel.

        Parameters
        ----------
        scale
            The factors, as a vector.
        editor
            Resolves the weight.
        of
            A replacement for the first argument, if given.

        Returns
        -------
        relax.Call | None
            None if a scaled weight overflows in its dtype.
        """
        weight = editor.constant(self.view.args[1])
        assert weight is not None
        shape = [1] * weight.ndim
        shape[self.weight_axis] = -1
        product = product_of(weight, scale.reshape(shape))
        if product is None:
            return None
        data = self.view.args[0] if of is None else of
        span = editor.span_of(self.view)
        call = relax.Call(self.view.call.op, [data, product], self.view.call.attrs, None, span)
        set_type(call, self.view.out_type)  # inferring the type of a convolution takes 3 ms
        return call


def linear_of(view: OpView, editor: Editor) -> Linear | None:
    """The call as a linear operation; None unless it is one, has a single dtype and a constant weight."""
    if view.name not in LINEAR_OPS or not editor.is_constant(view.args[1]):
        return None
    if len({dtype_of(type_) for type_ in (*view.arg_types, view.out_type)}) != 1:
        return None
    return _matrix_product(view) if view.name == "relax.matmul" else _convolution(view)


def _matrix_product(view: OpView) -> Linear | None:
    weight = static_shape(view.arg_types[1]) or ()
    if len(weight) < 2:
        return None
    return Linear(view, len(weight) - 1, view.out_tensor.ndim - 1, weight[-1])


def _convolution(view: OpView) -> Linear | None:
    kernel, layout = view.attrs["kernel_layout"], view.attrs["out_layout"] or view.attrs["data_layout"]
    if not (kernel.isalpha() and layout.isalpha()):
        return None  # blocked layouts split the channels over two axes
    if view.name in TRANSPOSED and view.attrs["groups"] != 1:
        return None  # the weight holds only the channels of one group
    weight = static_shape(view.arg_types[1]) or ()
    axis = kernel.index("O")
    return Linear(view, axis, layout.index("C"), weight[axis])
