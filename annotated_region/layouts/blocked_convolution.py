"""Lowers ``conv2d`` with blocked channels, which TVM can type but not lower.

TVM's legalization rejects layouts such as NCHW8c. It is replaced by a wrapper that delegates to TVM's, except
for data in NCHW<c>c with kernels in OIHW<i>i<o>o and a result in the layout of the data, which this file
lowers.
"""

from __future__ import annotations

import re

import tvm
from tvm import relax, te, topi
from tvm.tirx import Var

from annotated_region.tvm_adapter.nodes import PrimExpr
from annotated_region.tvm_adapter.types import expect, tensor_type

__all__: list[str] = []

CONV2D = "relax.nn.conv2d"
DATA, KERNEL = re.compile(r"NCHW\d+c"), re.compile(r"OIHW\d+i\d+o")


def _conv2d(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
    out_dtype: str,
) -> te.Tensor:
    """The convolution of data (N, C/c, H, W, c) with a kernel (O/o, I/i, KH, KW, i, o)."""
    top, left, bottom, right = padding
    padded = topi.nn.pad(data, [0, 0, top, left, 0], [0, 0, bottom, right, 0])
    batch, _, height, width, block = padded.shape
    out_blocks, in_blocks, rows, columns, in_block, out_block = kernel.shape
    of_group, outputs = in_blocks * in_block, out_blocks * out_block // groups
    extents = (
        tvm.tirx.floordiv(height - (rows - 1) * dilation[0] - 1, strides[0]) + 1,
        tvm.tirx.floordiv(width - (columns - 1) * dilation[1] - 1, strides[1]) + 1,
    )
    axes = [
        te.reduce_axis((0, extent), name)
        for extent, name in ((in_blocks, "rcb"), (rows, "ry"), (columns, "rx"), (in_block, "rc"))
    ]

    def product(n: Var, ob: Var, y: Var, x: Var, o: Var) -> PrimExpr:
        rcb, ry, rx, rc = axes
        first = tvm.tirx.floordiv(ob * out_block + o, outputs) * of_group if groups > 1 else 0
        channel = first + rcb * in_block + rc
        row, column = y * strides[0] + ry * dilation[0], x * strides[1] + rx * dilation[1]
        value = padded[n, tvm.tirx.floordiv(channel, block), row, column, tvm.tirx.floormod(channel, block)]
        factor = kernel[ob, rcb, ry, rx, rc, o]
        return te.sum(value.astype(out_dtype) * factor.astype(out_dtype), axis=axes)

    return te.compute((batch, out_blocks, *extents, out_block), product, name="conv2d_blocked")


_tvms_own = tvm.ir.Op.get(CONV2D).get_attr("FLegalize")


def _legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    attrs = expect(tvm.ir.Attrs, call.attrs)
    blocked = DATA.fullmatch(attrs.data_layout) and KERNEL.fullmatch(attrs.kernel_layout)
    if not blocked or attrs.out_layout != attrs.data_layout:
        own: relax.Expr = _tvms_own(builder, call)
        return own
    return builder.call_te(
        _conv2d,
        *call.args,
        [int(stride) for stride in attrs.strides],
        [int(width) for width in attrs.padding],
        [int(dilation) for dilation in attrs.dilation],
        int(attrs.groups),
        str(tensor_type(call).dtype),
        primfunc_name_hint="conv2d_blocked",
    )


tvm.ir.register_op_attr(CONV2D, "FLegalize", _legalize, level=11)
