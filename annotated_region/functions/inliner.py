"""Inlines the calls of one function.

The body is copied, composites included, with arguments substituted for parameters. Bindings that existed only
for the call are removed: results take the caller's names, tuples that were unpacked or packed for the call
become the original tuples, and fields that were read for the call, or from its result, are dropped if they
have no other user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import tvm
from tvm import relax
from tvm.ir import Span

from annotated_region.dataflow.leaves import Leaves, leaves_of
from annotated_region.expr_map import ExprMap, ExprSet
from annotated_region.functions.dead_bindings import without_dead
from annotated_region.functions.rewriting import FunctionRewriter, Substitute, rebind, replace_operands
from annotated_region.functions.shape_variables import with_shapes_of
from annotated_region.origins import origin_of, span_of, with_span
from annotated_region.tvm_adapter.nodes import Constant

__all__ = ["FunctionOf", "Inliner"]

FunctionOf = Callable[[relax.Expr], "relax.Function | None"]
"""Returns the function of a callee whose calls are to be inlined; else None."""

_STRUCTURE = relax.Tuple | relax.TupleGetItem | relax.Var


class Inliner:
    """Inlines calls in one function of a module.

    Parameters
    ----------
    function_of
        Selects the calls to inline.
    shared
        Functions shared by several equal regions. Their bindings have the origins of the first region, so
        copies take the origin of the call's result instead.

    Attributes
    ----------
    leaves
        The leaves of the variables that are bound to tuples, fields, aliases and constants.
    holders
        The variables that later blocks see.
    fields
        The variables that are bound to fields of tuples.
    renamed
        For fresh variables, the caller's variable in their place; later blocks may have recorded either.
    removable
        The variables whose bindings are dropped if they have no user.
    depth
        The number of nested bodies around the current block.
    """

    def __init__(self, function_of: FunctionOf, shared: ExprSet | None = None) -> None:
        self.function_of = function_of
        self.shared = ExprSet() if shared is None else shared
        self.leaves: ExprMap[Leaves] = ExprMap()
        self.holders = _Holders()
        self.fields = ExprSet()
        self.renamed: ExprMap[relax.Var] = ExprMap()
        self.removable = ExprSet()
        self.depth = 0

    def inlined(self, func: relax.Function) -> relax.Function:
        """The function with its calls inlined. Linear in the size of the result."""
        for param in func.params:
            if isinstance(param.ty, tvm.ir.TupleType):
                self.holders.tuples.setdefault(self.leaves_of(param), param)
        result = FunctionRewriter(self.bindings, lambda var: var).function(func)
        return without_dead(result, self.removable)

    def bindings(self, block: relax.BindingBlock, rewriter: FunctionRewriter) -> Iterator[relax.Binding]:
        """The new bindings of a block."""
        return _Block(self, isinstance(block, relax.DataflowBlock), rewriter).bindings(block)

    def leaves_of(self, expr: relax.Expr) -> Leaves:
        """The leaves of an expression."""
        return leaves_of(expr, self.leaves.get)


class _Holders:
    """Variables by value: those that hold tuples, by leaves; those that hold constants or shapes, by
    identity.
    """

    def __init__(self) -> None:
        self.tuples: dict[Leaves, relax.Var] = {}
        self.literals: ExprMap[relax.Var] = ExprMap()


class _Block:
    """One block of the caller: its new bindings, and the variables that hold values in it.

    Attributes
    ----------
    made
        The bindings emitted so far. Fresh variables in them may still be renamed to the caller's.
    unnamed
        For each value, the fresh variables that hold it and have no caller's name yet.
    holders
        The variables of this block that hold tuples, constants and shapes.
    results
        For each variable bound to a call with several results, the results.
    """

    def __init__(self, inliner: Inliner, in_dataflow: bool, rewriter: FunctionRewriter) -> None:
        self.inliner = inliner
        self.rewriter = rewriter
        self.kind = relax.DataflowVar if in_dataflow else relax.Var
        self.made: list[relax.Binding] = []
        self.unnamed: dict[Leaves, list[relax.Var]] = {}
        self.holders = _Holders()
        self.results: ExprMap[Sequence[relax.Expr]] = ExprMap()

    def bindings(self, block: relax.BindingBlock) -> Iterator[relax.Binding]:
        """The new bindings."""
        for binding in block.bindings[:]:
            self.take(binding)
        return (self.named(binding) for binding in self.made)

    def named(self, binding: relax.Binding) -> relax.Binding:
        """A binding with fresh variables renamed to the caller's."""

        def name(expr: relax.Expr) -> relax.Expr:
            return self.inliner.renamed.get(expr, expr)

        var = self.inliner.renamed.get(binding.var, binding.var)
        value = replace_operands(binding.value, name)
        if var.same_as(binding.var):
            return rebind(binding, value)
        return relax.VarBinding(var, value)

    def take(self, binding: relax.Binding) -> None:
        """Process one binding of the caller."""
        value = binding.value
        call = value if isinstance(value, relax.Call) else None
        callee = None if call is None else self.inliner.function_of(call.op)
        if call is not None and callee is not None:
            self.call(binding.var, callee, call)
        elif isinstance(value, _STRUCTURE) and isinstance(binding, relax.VarBinding):
            self.structure(binding)
        else:
            self.inliner.depth += 1
            self.made.append(rebind(binding, self.rewriter.nested(value)))
            self.inliner.depth -= 1
            self.note_literal(value, binding.var)
            if isinstance(value, Constant):
                self.inliner.leaves[binding.var] = self.inliner.leaves_of(value)
            self.note_tuple(binding.var)

    def call(self, var: relax.Var, callee: relax.Function, call: relax.Call) -> None:
        """Inline a call."""
        span = span_of(origin_of(var, call)) if callee in self.inliner.shared else None
        result = _BodyCopy(self, call.args, span).result_of(callee, call.args)
        if isinstance(result, relax.Tuple):
            self.results[var] = list(result.fields)
            self.inliner.removable.add(var)
        self.define(var, result)

    def structure(self, binding: relax.VarBinding) -> None:
        """Process a tuple, field or alias; it may be an inlined value that is bound already."""
        value = binding.value
        if isinstance(value, relax.TupleGetItem):
            results = self.results.get(value.tuple_value)
            if results is not None:
                self.define(binding.var, results[value.index])
                return
        leaves = self.inliner.leaves_of(value)
        known = self.unnamed.get(leaves)
        if known:
            self.define(binding.var, known[0])
            return
        self.made.append(binding)
        if isinstance(value, relax.TupleGetItem):
            self.inliner.fields.add(binding.var)
        self.note_leaves(binding.var, leaves)

    def define(self, var: relax.Var, value: relax.Expr) -> None:
        """Define a variable of the caller as `value`: by renaming a fresh variable, or else by an alias."""
        leaves = self.inliner.leaves_of(value)
        unnamed = self.unnamed.get(leaves, [])
        mine = next((fresh for fresh in unnamed if fresh.same_as(value)), None)
        if mine is None:
            self.made.append(relax.VarBinding(var, value))
        else:
            self.inliner.renamed[mine] = var
            self.unnamed[leaves] = [fresh for fresh in unnamed if not fresh.same_as(mine)]
        if value in self.inliner.fields:
            self.inliner.removable.add(var)
            self.inliner.fields.add(var)
        self.note_leaves(var, leaves)

    def note_leaves(self, var: relax.Var, leaves: Leaves) -> None:
        """Record the leaves of a variable."""
        self.inliner.leaves[var] = leaves
        self.note_tuple(var)

    def note_tuple(self, var: relax.Var) -> None:
        """Record that a variable holds a tuple, if it does."""
        if isinstance(var.ty, tvm.ir.TupleType):
            for holders in self.holders_for(var):
                holders.tuples.setdefault(self.inliner.leaves_of(var), var)

    def note_literal(self, value: relax.Expr, var: relax.Var) -> None:
        """Record that a variable holds this constant or shape."""
        for holders in self.holders_for(var):
            holders.literals.setdefault(value, var)

    def holders_for(self, var: relax.Var) -> list[_Holders]:
        """The holders to update for a variable: this block's, and the outer ones if later blocks see it."""
        outer = not self.inliner.depth and not isinstance(var, relax.DataflowVar)
        return [self.holders, self.inliner.holders] if outer else [self.holders]

    def tuple_of(self, leaves: Leaves) -> relax.Var | None:
        """A visible variable that holds the tuple of these leaves."""
        return self.holders.tuples.get(leaves, self.inliner.holders.tuples.get(leaves))

    def literal(self, expr: relax.Expr) -> relax.Expr:
        """A constant or shape of an inlined function, or the caller's variable for it."""
        if isinstance(expr, relax.Var):
            return expr
        return self.holders.literals.get(expr, self.inliner.holders.literals.get(expr, expr))


class _BodyCopy:
    """Copies the body of a function into a block, for one call.

    Attributes
    ----------
    read
        The fields of tuples that the caller read for this call, by value.
    span
        The origin of all copies; None if they keep their own.
    """

    def __init__(self, block: _Block, arguments: Sequence[relax.Expr], span: Span | None) -> None:
        self.block = block
        self.inliner = block.inliner
        self.span = span
        self.read: dict[Leaves, relax.Expr] = {}
        for argument in arguments:
            if argument in self.inliner.fields:
                self.inliner.removable.add(argument)
                self.read[self.inliner.leaves_of(argument)] = argument

    def result_of(self, func: relax.Function, arguments: Sequence[relax.Expr]) -> relax.Expr:
        """Emit a copy of the body of a function; returns its result in terms of the caller."""
        func = with_shapes_of(func, arguments)
        here = ExprMap(zip(func.params, map(self.block.literal, arguments), strict=True))
        composites: ExprMap[relax.Function] = ExprMap()

        def operand(expr: relax.Expr) -> relax.Expr:
            known = here.get(expr)
            return self.block.literal(expr) if known is None else known

        for block in func.body.blocks:
            bindings = block.bindings[:]
            packs_inputs = _packs_inputs(bindings)
            for binding in bindings:
                value = binding.value
                if isinstance(value, relax.Function):
                    composites[binding.var] = value
                    continue
                inner = self.callee(value, composites)
                here[binding.var] = (
                    self.result_of(inner, [_replaced(arg, operand) for arg in value.args])
                    if inner is not None and isinstance(value, relax.Call)
                    else self.copied(binding, _replaced(value, operand), packs_inputs)
                )
        return _replaced(func.body.body, operand)

    def callee(self, value: relax.Expr, composites: ExprMap[relax.Function]) -> relax.Function | None:
        """The function that a value calls, if it is to be inlined, too."""
        if not isinstance(value, relax.Call):
            return None
        composite = composites.get(value.op)
        return self.inliner.function_of(value.op) if composite is None else composite

    def copied(self, binding: relax.Binding, value: relax.Expr, packs_inputs: bool) -> relax.Expr:
        """The replacement of a variable of an inlined function."""
        known = self.known(binding.value, value, packs_inputs)
        if known is not None:
            return known
        var = self.block.kind(binding.var.name, binding.var.ty, self.span or binding.var.span)
        if self.span is not None:
            value = with_span(value, self.span)
        if isinstance(binding, relax.MatchCast):
            self.block.made.append(relax.MatchCast(var, value, binding.ty))
            return var
        self.block.made.append(relax.VarBinding(var, value))
        if isinstance(value, _STRUCTURE):
            self.block.note_leaves(var, self.inliner.leaves_of(value))
            # It is dead if the caller has the result under another variable.
            self.inliner.removable.add(var)
        else:
            self.block.note_tuple(var)
        if isinstance(value, relax.TupleGetItem):
            self.inliner.fields.add(var)
        self.block.unnamed.setdefault(self.inliner.leaves_of(var), []).append(var)
        return var

    def known(self, old: relax.Expr, new: relax.Expr, packs_inputs: bool) -> relax.Expr | None:
        """An existing expression for a value, of the caller or copied before; None if it has to be bound."""
        if isinstance(new, relax.Tuple) and packs_inputs:
            return self.block.tuple_of(self.inliner.leaves_of(new))
        if isinstance(old, relax.TupleGetItem) and not isinstance(new, relax.TupleGetItem):
            return new  # the result of a composite
        if isinstance(new, relax.TupleGetItem):
            return self.read.get(self.inliner.leaves_of(new))
        return new if new in self.inliner.fields else None


def _packs_inputs(bindings: Sequence[relax.Binding]) -> bool:
    """Whether a block only packs inputs into tuples; partitioning emits these in a separate block."""
    return all(isinstance(binding.value, relax.Tuple) for binding in bindings)


def _replaced(expr: relax.Expr, substitute: Substitute) -> relax.Expr:
    """`expr` with its operands replaced; fields of literal tuples are folded."""
    new = replace_operands(expr, substitute)
    if isinstance(new, relax.Call):
        args = new.args[:]
        if not any(isinstance(arg, relax.ShapeExpr) for arg in args):
            return new
        args = [substitute(arg) if isinstance(arg, relax.ShapeExpr) else arg for arg in args]
        return relax.Call(new.op, args, new.attrs, new.ty_args, new.span, new.ty)
    if isinstance(new, relax.TupleGetItem) and isinstance(new.tuple_value, relax.Tuple):
        return new.tuple_value.fields[new.index]
    return new
