"""Proof that preparation terminates: a weight of expressions that every rewrite lowers.

The weight of an expression is a natural number, computed from the weights of its operands by a function that
is monotone in each of them, so lowering the weight of a value never raises the weight of a user. Expressions
are weighed as trees: a value read twice counts twice. Each step of `sweep` gives a variable a value of lower
weight, and adds new variables only as operands of that value, which have lower weight still. The multiset of
all weights therefore decreases in the multiset ordering, which is well-founded: rewriting terminates for any
order of rewrites and any number of sweeps. (A polynomial interpretation: Baader and Nipkow 1998, "Term
Rewriting and All That", section 5.3; multisets: Dershowitz and Manna 1979, "Proving termination with multiset
orderings".)

Weights before and after each kind of rewrite, with ``W`` for the weight of an operand:

| from | to |
|---|---|
| any call on constants: at least 3 | a constant: 0 |
| a function of a spread constant: at least 6 | the constant result, spread: 3 |
| an identity ``f(x)``: ``3 + W`` or more | ``x``: ``W`` |
| ``f(f(x))``: ``6 + W`` | ``f(x)``: ``3 + W`` |
| ``c + x``, with a constant on the left: ``6 + W`` | ``x + c``: ``5 + W`` at most |
| a bias whose shape or sign is not canonical: ``5 + W`` | the canonical bias: ``4 + W`` |
| ``n`` steps of arithmetic with constants: ``4 n + W`` or more | fewer than ``n`` steps |
| ``x + broadcast_to(y)``: ``7 + W`` | ``x + y``: ``6 + W`` at most, as ``y`` may be a constant now |
| ``maximum(x, 0)``: ``4 + W`` | ``relu(x)``: ``3 + W`` |
| ``mean(stack(x1, ..., xn))``: ``4 n + 6 + W`` | ``n - 1`` sums and a quotient: ``4 n + W`` |
| ``take(dequantize(t))``: ``10 + 2 W`` | ``dequantize(take(t))``: ``7 + 2 W`` |
| ``where`` or ``take`` that always selects one operand or row: ``4 + W`` | its broadcast: ``3 + W`` |
| ``dropout(x)``: ``4 + 2 W`` | ``(x, ones_like(x))``: ``3 + 2 W`` |
| ``batch_norm(x)``: ``9 + W`` | ``x * a + b``: ``8 + W`` |
| the parts of an activation or norm: ``7 + 2 W`` or more | the op: ``3 + W`` |
| the same with a remaining factor: ``11 + 2 W`` or more | the op and a product: ``7 + W`` |
| a truncated quotient that is corrected: ``29 + 4 W`` or more | ``floor_divide``: ``3 + W`` |
| ``x[indices]`` with identity indices: ``6 + W`` | ``reshape(x)``: ``3 + W`` |
| ``bitwise_and`` of booleans: ``6 + W`` | ``logical_and``: ``5 + W`` at most |
| ``n`` operations on positions: ``3 n`` or more | operations of lower total weight |
| ``concat`` of ``n`` tensors, some of them empty: ``3 + n + W`` | of the others: fewer |
| ``scatter_nd(x, box, u)``: ``28 + 4 W`` | slices and concatenations along two axes: ``27 + 4 W`` at most |
| ``norm(x) * w``: ``7 + W`` | ``norm(x)`` with a reshaped ``w``: ``6 + W`` |
"""

from __future__ import annotations

from dataclasses import dataclass, field

import tvm_ffi
from tvm import relax

from annotated_region.passes.preparation.affine import ARITHMETIC
from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.linear import linear_of
from annotated_region.passes.preparation.remove_identities import COMMUTATIVE, CONNECTIVES
from annotated_region.passes.preparation.rewrites import RewriteTable
from annotated_region.passes.preparation.tensors import static_shape
from annotated_region.targets.op_view import OpView

__all__ = ["Weights", "checked"]


_CALL = 3  # of most ops; exceeds every surcharge of `_order`, so folding an operand never raises the weight
_OWN = {
    **dict.fromkeys(ARITHMETIC, 4),
    "relax.subtract": 5,
    "relax.maximum": 4,
    "relax.minimum": 4,
    "relax.nn.batch_norm": 9,
    "relax.nn.dropout": 4,
    "relax.take": 4,
    "relax.where": 4,
    "relax.index_tensor": 6,
    "relax.scatter_nd": 28,
    **dict.fromkeys(CONNECTIVES, 6),  # a constant on the left of the logical one counts 2 more
}
_READS = {"relax.take": 2, "relax.nn.dropout": 2, "relax.scatter_nd": 4}  # how often the first operand counts


def checked(table: RewriteTable, editor: Editor) -> RewriteTable:
    """The same rewrites, each asserting that its result weighs less than its operation."""
    weights = Weights()
    editor.when_bound = lambda variable, value: weights.bound(variable, value, editor)
    return {name: [_checked(rewrite, weights) for rewrite in rewrites] for name, rewrites in table.items()}


def _checked(rewrite: Rewrite, weights: Weights) -> Rewrite:
    def apply(view: OpView, editor: Editor) -> relax.Expr | None:
        result = rewrite(view, editor)
        # The editor discards results whose type differs from that of the variable.
        if result is None or not tvm_ffi.structural_equal(editor.normalize(result).ty, editor.target.ty):
            return result
        before, after = (weights.of(value, editor) for value in (view.call, result))
        assert after < before, (
            f"{rewrite} makes {result} of {view.call}, which weighs {before} and not {after}"
        )
        return result

    return apply


@dataclass(slots=True)
class Weights:
    """The weights of the variables of a function, as far as an editor has bound them."""

    _known: dict[relax.Var, int] = field(default_factory=dict)

    def bound(self, variable: relax.Var, value: relax.Expr, editor: Editor) -> None:
        """Record a binding; the operands of `value` must be bound already, or parameters."""
        self._known[variable] = self.of(value, editor)

    def of(self, value: relax.Expr, editor: Editor) -> int:
        """The weight of a value. O(operands); it has as many bits as the longest chain of double reads."""
        origin = editor.origin(value)
        match origin:
            case relax.Var():
                return self._known.get(origin, 0)
            case relax.Tuple():
                return sum(self.of(part, editor) for part in origin.fields)
            case relax.TupleGetItem():
                return self._field(origin, editor)
            case relax.Call():
                return self._call(origin, editor)
        return 0

    def _field(self, value: relax.TupleGetItem, editor: Editor) -> int:
        whole = editor.value_of(value.tuple_value)
        made = whole.fields[value.index] if isinstance(whole, relax.Tuple) else value.tuple_value
        return self.of(made, editor)

    def _call(self, call: relax.Call, editor: Editor) -> int:
        view = OpView.of(call)
        parts = [self.of(part, editor) for part in call.args]
        if view is None:
            return _CALL + sum(parts)
        parts[:1] *= _READS.get(view.name, 1)
        return _OWN.get(view.name, _CALL) + _order(view, editor) + _fields(view, editor) + sum(parts)


def _order(view: OpView, editor: Editor) -> int:
    """The surcharge for a constant left operand of a commutative op, or for a non-canonical bias."""
    if view.name in COMMUTATIVE and editor.is_constant(view.args[0]) and not editor.is_constant(view.args[1]):
        return 2  # more than the surcharge of 1 for a bias that the swap may produce
    inner = editor.view_of(view.args[0]) if view.name == "relax.add" else None
    linear = linear_of(inner, editor) if inner is not None and editor.is_constant(view.args[1]) else None
    return int(linear is not None and static_shape(view.arg_types[1]) != linear.bias_shape)


def _fields(view: OpView, editor: Editor) -> int:
    """The surcharge of a stack: the weight of the chain that may replace it, without its operands.

    That of a concatenation is the number of its operands, from which empty ones are taken.
    """
    each = {"relax.stack": 4, "relax.concat": 1}.get(view.name, 0)
    whole = editor.value_of(view.args[0]) if each else None
    return each * len(whole.fields) if isinstance(whole, relax.Tuple) else 0
