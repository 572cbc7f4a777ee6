"""Modules that tests of PartitionGraph share."""

# Assignments in TVMScript are bindings, not Python variables:

from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

__all__ = ["Before", "Symbolic"]


@I.ir_module
class Before:
    @R.function
    def main(x: R.Tensor((2, 4), "float32"), y: R.Tensor((2, 4), "float32")):
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.add(a, y)
            c = R.tanh(b)
            d = R.multiply(c, a)
            R.output(b, d)
        return (b, d)


@I.ir_module
class Symbolic:
    @R.function
    def main(
        x: R.Tensor(("n", 4), "float32"),
        h: R.Tensor(("n // 2", 4), "float32"),
        k: R.Tensor(("m",), "float32"),
    ):
        n = T.int64()
        m = T.int64()
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.nn.relu(h)
            c = R.reshape(a, R.shape([n * 4]))
            d = R.full(R.shape([n * m]), R.const(1.5, "float32"), "float32")
            e = R.arange(0, n * m, 2, "float32")
            f = R.strided_slice(a, (0,), (0,), (n // 2,), assume_inbound=True)
            R.output(a, b, c, d, e, f)
        return (a, b, c, d, e, f, k)
