"""A module with two equal regions, where relu, add and multiply are claimed."""

from __future__ import annotations

from tvm.script import ir as I
from tvm.script import relax as R

__all__ = ["EqualRegions"]


@I.ir_module
class EqualRegions:
    """Two equal regions that share a function, and one of its own, around ops that stay on the host."""

    @R.function
    def main(x: R.Tensor((4, 8), "float32")) -> R.Tensor((4, 8), "float32"):
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.add(a, x)
            c = R.nn.softmax(b)
            d = R.nn.relu(c)
            e = R.add(d, c)
            f = R.nn.softmax(e)
            g = R.multiply(f, x)
            R.output(g)
        return g
