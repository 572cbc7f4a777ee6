"""Modules for the tests of extraction: every kind of call there is, and a small network."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax

__all__ = ["every_kind_of_call", "nested_calls", "small_network"]

_SCRIPT = """
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def twice(a: T.Buffer((T.int64(4),), "float32"), b: T.Buffer((T.int64(4),), "float32")):
        for i in range(T.int64(4)):
            with T.sblock("b"):
                v = T.axis.spatial(T.int64(4), i)
                b[v] = a[v] * T.float32(2)

    @T.prim_func(private=True, s_tir=True)
    def again(p: T.Buffer((T.int64(4),), "float32"), q: T.Buffer((T.int64(4),), "float32")):
        for i in range(T.int64(4)):
            with T.sblock("b"):
                v = T.axis.spatial(T.int64(4), i)
                q[v] = p[v] * T.float32(2)

    @T.prim_func(private=True, s_tir=True)
    def in_place(a: T.Buffer((T.int64(4),), "float32")):
        for i in range(T.int64(4)):
            with T.sblock("a"):
                v = T.axis.spatial(T.int64(4), i)
                a[v] = a[v] + T.float32(1)

    @T.prim_func(private=True, s_tir=True)
    def never_called(a: T.Buffer((T.int64(4),), "float32"), b: T.Buffer((T.int64(4),), "float32")):
        for i in range(T.int64(4)):
            with T.sblock("b"):
                v = T.axis.spatial(T.int64(4), i)
                b[v] = a[v] * T.float32(3)

    @R.function(private=True)
    def sub(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Module
        with R.dataflow():
            y = R.call_tir(cls.twice, (x,), out_ty=R.Tensor((4,), "float32"))
            R.output(y)
        return y

    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Module
        s = cls.sub(x)
        t = cls.sub(s)
        if c:
            y = R.call_tir(cls.twice, (t,), out_ty=R.Tensor((4,), "float32"))
        else:
            y = R.call_tir(cls.again, (t,), out_ty=R.Tensor((4,), "float32"))
        z = R.call_tir_inplace(cls.in_place, (y,), inplace_indices=[0], out_ty=[R.Tensor((4,), "float32")])
        return z
"""


_NESTED = """
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def twice(a: T.Buffer((T.int64(4),), "float32"), b: T.Buffer((T.int64(4),), "float32")):
        for i in range(T.int64(4)):
            with T.sblock("b"):
                v = T.axis.spatial(T.int64(4), i)
                b[v] = a[v] * T.float32(2)

    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Module
        @R.function
        def inner(a: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            b = R.call_tir(cls.twice, (a,), out_ty=R.Tensor((4,), "float32"))
            return b

        s = inner(x)
        t = inner(s)
        if c:
            if c:
                u = R.call_tir(cls.twice, (t,), out_ty=R.Tensor((4,), "float32"))
            else:
                v = R.call_tir(cls.twice, (x,), out_ty=R.Tensor((4,), "float32"))
                u = R.call_tir(cls.twice, (v,), out_ty=R.Tensor((4,), "float32"))
            y = u
        else:
            y = R.call_tir(cls.twice, (s,), out_ty=R.Tensor((4,), "float32"))
        return y
"""


def nested_calls() -> tvm.IRModule:
    """Calls in a local function, and in the branches of an `If` that stands in a branch of another."""
    return tvm.script.from_source(_NESTED)


def every_kind_of_call() -> tvm.IRModule:
    """Calls in a function that is called twice, in both branches of an `If`, and in place."""
    return tvm.script.from_source(_SCRIPT)


def small_network() -> tvm.IRModule:
    """Two equal layers of convolution, bias and relu, a split, and a softmax."""
    random = np.random.default_rng(0)
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 4, 6, 6), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for _layer in range(2):
                weight = relax.const(random.standard_normal((4, 4, 3, 3), dtype=np.float32))
                bias = relax.const(random.standard_normal((1, 4, 1, 1), dtype=np.float32))
                convolved = builder.emit(relax.op.nn.conv2d(value, weight, padding=(1, 1)))
                value = builder.emit(relax.op.nn.relu(builder.emit(relax.op.add(convolved, bias))))
            halves = builder.emit(relax.op.split(value, 2, axis=1))
            left, right = (builder.emit(relax.TupleGetItem(halves, index)) for index in range(2))
            result = builder.emit_output(relax.op.nn.softmax(builder.emit(relax.op.multiply(left, right))))
        builder.emit_func_output(result)
    return builder.get()
