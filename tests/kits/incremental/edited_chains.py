"""Random chains of blocks joined by single values, made of ops that preparation rewrites together."""

from __future__ import annotations

from random import Random

import numpy as np
import tvm
from tvm import relax

import annotated_region as ar
from annotated_region.testing.registry import claim_ops

__all__ = ["UNARY", "chain_of_blocks", "claim_at_random"]

UNARY = ("relax.nn.relu", "relax.tanh", "relax.sigmoid", "relax.exp", "relax.erf", "relax.sqrt")
"""Ops of one operand."""

CLAIMABLE = (
    *("relax.add", "relax.multiply", "relax.subtract", "relax.divide", "relax.matmul", "relax.nn.relu"),
    *("relax.sigmoid", "relax.nn.silu", "relax.nn.gelu", "relax.concat", "relax.split", "relax.permute_dims"),
)
SIZE = 4


def claim_at_random(random: Random) -> list[str]:
    """Two targets that claim some ops each, one of them a composite as well."""
    for target in ("sketch", "pencil"):
        ar.register_backend(target, regions=random.choice(["any", "any", "connected"]))
        claim_ops(target, *random.sample(CLAIMABLE, random.randint(3, len(CLAIMABLE))))
    product = relax.dpl.is_op("relax.matmul")(relax.dpl.wildcard(), relax.dpl.is_const())
    ar.register_pattern("sketch", "sketch.dense", relax.dpl.is_op("relax.add")(product, relax.dpl.wildcard()))
    return random.choice([["sketch"], ["sketch", "pencil"], ["pencil", "sketch"]])


class _Blocks:
    """Emits random ops on square tensors."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.builder = relax.BlockBuilder()

    def emit(self, expr: relax.Expr) -> relax.Var:
        """Bind a value."""
        return self.builder.emit(expr)

    def constant(self, *shape: int) -> relax.Constant:
        """A random constant."""
        seeded = np.random.default_rng(self.random.randrange(1 << 30))
        return relax.const(seeded.uniform(0.5, 1.5, shape).astype("float32"))

    def step(self, value: relax.Var, other: relax.Var) -> relax.Var:
        """One more op, or a few that are one."""
        kind = self.random.choice(
            ["scale", "shift", "unary", "unary", "dense", "view", "gelu", "silu", "join", "split", "twice"]
        )
        op = relax.op
        match kind:
            case "scale":
                return self.emit(op.multiply(value, self.constant(*self.random.choice([(), (SIZE,)]))))
            case "shift":
                return self.emit(op.add(value, self.constant(SIZE)))
            case "unary":
                return self.emit(relax.Call(tvm.ir.Op.get(self.random.choice(UNARY)), [value]))
            case "dense":
                product = self.emit(op.matmul(value, self.constant(SIZE, SIZE)))
                return self.emit(op.add(product, self.constant(SIZE)))
            case "view":
                flat = self.emit(op.reshape(value, (SIZE * SIZE,)))
                return self.emit(op.reshape(flat, (SIZE, SIZE)))
            case "gelu":
                erf = self.emit(op.erf(self.emit(op.multiply(value, relax.const(0.5**0.5, "float32")))))
                shifted = self.emit(op.add(erf, relax.const(1.0, "float32")))
                half = self.emit(op.multiply(value, relax.const(0.5, "float32")))
                return self.emit(op.multiply(half, shifted))
            case "silu":
                return self.emit(op.multiply(value, self.emit(op.sigmoid(value))))
            case "split":
                left, right = self.halves(value)
                return self.emit(op.concat([self.emit(op.nn.relu(right)), left], axis=1))
            case "twice":
                return self.emit(op.permute_dims(self.emit(op.permute_dims(value))))
            case _:
                return self.emit(op.add(value, other))

    def halves(self, value: relax.Var) -> tuple[relax.Var, relax.Var]:
        """The two halves of a tensor."""
        both = self.emit(relax.op.split(value, 2, axis=1))
        return self.emit(relax.TupleGetItem(both, 0)), self.emit(relax.TupleGetItem(both, 1))


def chain_of_blocks(random: Random, blocks: int, size: int) -> tvm.IRModule:
    """Blocks of about `size` ops; a single value connects each to the next, through an unclaimed op."""
    made = _Blocks(random)
    builder = made.builder
    x = relax.Var("x", relax.TensorType((SIZE, SIZE), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value = made.emit(relax.op.nn.relu(x))
            for _block in range(blocks):
                known = [value]
                for _step in range(size):
                    known.append(made.step(known[-1], random.choice(known)))
                name = random.choice(("relax.tanh", "relax.exp", "relax.sqrt", "relax.negative"))
                value = made.emit(relax.Call(tvm.ir.Op.get(name), [known[-1]]))
            result = builder.emit_output(made.emit(relax.op.nn.relu(value)))
        builder.emit_func_output(result)
    return builder.finalize()
