"""`MeanVarianceNormalization`, whose variance is the mean of squared distances from the mean.

TVM's importer subtracts the squared mean from the mean of squares: the difference is wrong in most digits
where the mean is large, and NaN where rounding makes it negative. It divides by 0 where all numbers are
equal, and takes no type but float32.
"""

from __future__ import annotations

from tvm import relax

from annotated_region.importing.onnx_models.converters.node import FLOATS, OnnxNode, dtype_of, rank_of
from annotated_region.importing.onnx_models.converters.registry import converts

__all__: list[str] = []

_LEAST = 1e-9
"""What ONNX adds to each deviation."""


@converts("", "MeanVarianceNormalization", (1, 1), "axes")
def _normalized(node: OnnxNode) -> relax.Expr:
    data = node.tensor(0, FLOATS)
    axes = list(node.integers("axes")) or [0, 2, 3]
    rank = rank_of(data)
    node.require(all(-rank <= axis < rank for axis in axes), f"has the axes {axes}, and {rank} axes")
    mean = node.emit(relax.op.mean(data, axes, keepdims=True))
    centred = node.emit(relax.op.subtract(data, mean))
    squares = node.emit(relax.op.multiply(centred, centred))
    deviation = node.emit(relax.op.sqrt(node.emit(relax.op.mean(squares, axes, keepdims=True))))
    least = relax.const(_LEAST, dtype_of(data))
    return relax.op.divide(centred, node.emit(relax.op.add(deviation, least)))
