"""Quantization: numbers to int8 and back, with one scale and zero point, or one for each channel."""

from __future__ import annotations

from annotated_region.backends.dnnl.graph import Kind, TensorId
from annotated_region.backends.dnnl.importer import Convert, Importer
from annotated_region.backends.dnnl.parameters import ChannelScales, Scale
from annotated_region.targets.op_view import OpView

__all__ = ["CONVERTERS"]


def _converted(kind: Kind) -> Convert:
    def convert(importer: Importer, op: OpView) -> TensorId:
        graph, shape = importer.graph, importer.shape(op.call)
        data, dtype = importer.operand(op.args[0]), importer.dtype(op.out_type)
        scale, zero = op.constant(1), op.constant(2)
        assert scale is not None
        assert zero is not None
        if scale.size == 1 and zero.size == 1:
            uniform = Scale(float(scale.flat[0]), int(zero.flat[0]))
            return graph.add(kind, (data,), shape, uniform, dtype=dtype)
        inputs = [data, importer.operand(op.args[1])]
        if zero.any():
            inputs.append(importer.operand(op.args[2]))
        axis = op.attrs["axis"] % len(shape)
        return graph.add(kind, inputs, shape, ChannelScales(axis, 1), dtype=dtype)

    return convert


CONVERTERS: dict[str, Convert] = {
    "relax.quantize": _converted(Kind.QUANTIZE),
    "relax.dequantize": _converted(Kind.DEQUANTIZE),
}
