"""Large generated graphs, built fast: chains, residual blocks, inception-like blocks, random layers.

Ops of two kinds occur: those that a target is meant to claim (``relax.add``, ``relax.multiply``,
``relax.nn.relu``, ``relax.concat``) and ``relax.tanh``, which represents unclaimed ops.
"""

from __future__ import annotations

import random

import numpy as np
import tvm
from tvm import relax

from annotated_region.expr_map import ExprSet

__all__ = ["CLAIMED", "chain", "inception", "layered", "residual"]

CLAIMED = ("relax.add", "relax.multiply", "relax.nn.relu", "relax.concat")
GAP = "relax.tanh"
SHAPE = (4, 4)


class _Builder:
    """Binds calls of known types in sequence, without the checks of a block builder."""

    def __init__(self, parameters: int = 1) -> None:
        self.type = relax.TensorType(SHAPE, "float32")
        self.parameters = [relax.Var(f"x{index}", self.type) for index in range(parameters)]
        self.bindings: list[relax.Binding] = []
        self.used = ExprSet()

    def __len__(self) -> int:
        return len(self.bindings)

    def call(self, op: str, *operands: relax.Expr, ty: tvm.ir.Type | None = None) -> relax.Var:
        """Bind a call; its result has the common type of the graph, unless `ty` is given."""
        for operand in operands:
            self.used.add(operand)
        return self.bind(relax.Call(tvm.ir.Op.get(op), list(operands), ret_ty=ty or self.type))

    def bind(self, value: relax.Expr) -> relax.Var:
        """Bind any value."""
        var = relax.DataflowVar(f"lv{len(self.bindings)}", value.ty)
        self.bindings.append(relax.VarBinding(var, value))
        return var

    def weighted(self, op: str, value: relax.Expr) -> relax.Var:
        """An op with a distinct constant, like the weights of a layer."""
        weight = np.full(SHAPE, 1.0 + 1e-6 * len(self), "float32")
        return self.call(op, value, relax.const(weight))

    def module(self) -> tvm.IRModule:
        """The module; all unused values are added up to the result."""
        loose = [b.var for b in self.bindings if b.var not in self.used]
        total = loose[0]
        for value in loose[1:]:
            total = self.call(GAP, self.call("relax.add", total, value))
        out = relax.Var("out", self.type)
        self.bindings.append(relax.VarBinding(out, total))
        body = relax.SeqExpr([relax.DataflowBlock(self.bindings)], out)
        func = relax.Function(self.parameters, body, self.type).with_attr("global_symbol", "main")
        return relax.transform.Normalize()(tvm.IRModule({"main": func}))


def chain(size: int, gap_every: int = 0) -> tvm.IRModule:
    """A chain of `size` ops, of which every `gap_every`-th is not claimed."""
    builder = _Builder()
    value: relax.Expr = builder.parameters[0]
    for index in range(size):
        is_gap = gap_every and index % gap_every == gap_every - 1
        value = builder.call(GAP, value) if is_gap else builder.weighted("relax.add", value)
    return builder.module()


def residual(size: int) -> tvm.IRModule:
    """Blocks of six ops with a shortcut around four of them, each layer with a constant."""
    builder = _Builder()
    value: relax.Expr = builder.parameters[0]
    while len(builder) < size:
        inner: relax.Expr = value
        for _layer in range(2):
            inner = builder.call("relax.nn.relu", builder.weighted("relax.multiply", inner))
        value = builder.call("relax.nn.relu", builder.call("relax.add", inner, value))
    return builder.module()


def inception(size: int, width: int = 8) -> tvm.IRModule:
    """Blocks of `width` branches that meet in a sum, one op in nine not claimed."""
    builder = _Builder()
    value: relax.Expr = builder.parameters[0]
    while len(builder) < size:
        branches = []
        for branch in range(width):
            inner = builder.call("relax.nn.relu", builder.weighted("relax.multiply", value))
            branches.append(builder.call(GAP, inner) if branch == 0 else inner)
        value = branches[0]
        for other in branches[1:]:
            value = builder.call("relax.add", value, other)
    return builder.module()


def layered(width: int, depth: int, seed: int, share: float = 0.6) -> tvm.IRModule:
    """`depth` layers of `width` ops, each on two values of earlier layers, a `share` of them claimed."""
    generator = random.Random(f"{width}x{depth} {seed}")
    builder = _Builder(2)
    known: list[relax.Expr] = list(builder.parameters)

    def pick() -> relax.Expr:
        """A value of the two preceding layers with probability 0.8, otherwise any value."""
        return generator.choice(known[-2 * width :] if generator.random() < 0.8 else known)

    for _layer in range(depth):
        layer = []
        for _op in range(width):
            claimed = generator.random() < share
            layer.append(builder.call("relax.add", pick(), pick()) if claimed else builder.call(GAP, pick()))
        known += layer
    return builder.module()
