"""Inlines external functions at their calls: the inverse of partitioning.

The body is copied, composites included, with arguments substituted for parameters. Bindings that existed only
for the call are removed: results take the caller's names, tuples that were unpacked or packed for the call
become the original tuples, and fields that were read for the call, or from its result, are dropped if they
have no other user.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import tvm
from tvm import relax
from tvm.ir import Span

from annotated_region.collector import paused_collector
from annotated_region.dataflow.leaves import Leaves, leaves_of
from annotated_region.expr_map import ExprMap, ExprSet
from annotated_region.functions.dead_bindings import without_dead
from annotated_region.functions.marking import bindings_in
from annotated_region.functions.rewriting import FunctionRewriter, Substitute, rebind, replace_operands
from annotated_region.origins import origin_of, span_of, with_span
from annotated_region.tvm_adapter.nodes import Constant
from annotated_region.tvm_adapter.types import expect, set_type

__all__ = ["Inliner", "callees_among", "inline_functions", "is_inlinable", "opened", "with_shapes_of"]

FunctionOf = Callable[[relax.Expr], "relax.Function | None"]
"""Returns the function of a callee whose calls are to be inlined; else None."""

_STRUCTURE = relax.Tuple | relax.TupleGetItem | relax.Var


def is_inlinable(func: relax.Function) -> bool:
    """Whether a function, including its composites, is straight-line code."""
    return all(
        _is_composite(value) and is_inlinable(value)
        if isinstance(value, relax.Function)
        else not isinstance(value, relax.If)
        for block in func.body.blocks
        for value in (binding.value for binding in block.bindings)
    )


def _is_composite(func: relax.Function) -> bool:
    return bool(func.attrs) and "Composite" in func.attrs


def callees_among(chosen: Mapping[tvm.ir.GlobalVar, relax.Function]) -> FunctionOf:
    """Select exactly the calls of the chosen functions for inlining."""
    return lambda callee: chosen.get(callee) if isinstance(callee, tvm.ir.GlobalVar) else None


@paused_collector()
def inline_functions(mod: tvm.IRModule, chosen: Mapping[tvm.ir.GlobalVar, relax.Function]) -> tvm.IRModule:
    """The module with calls of the chosen functions inlined, and without chosen functions that have no caller
    left.

    Linear in the size of the result.
    """
    if not chosen:
        return mod
    result = mod.clone()
    shared = _shared(mod, chosen)
    for global_var, func in mod.functions_items():
        if isinstance(func, relax.Function) and global_var not in chosen:
            result.update_func(global_var, Inliner(callees_among(chosen), shared).inlined(func))
    _remove_unused(result, chosen)
    return result


def opened(func: relax.Function, given: Mapping[int, relax.Expr] | None = None) -> relax.Function:
    """An external function as a host function: straight-line code without composites or attributes.

    Parameters
    ----------
    func
        An inlinable function.
    given
        By parameter index, the constant that replaces the parameter. The parameter itself stays.
    """
    name = tvm.ir.GlobalVar("opened")
    set_type(name, func.ty)
    params = [relax.Var(param.name, param.ty) for param in func.params]
    out = relax.Var("out", func.ret_ty)
    arguments = [(given or {}).get(index, param) for index, param in enumerate(params)]
    call = relax.Call(name, arguments, ret_ty=func.ret_ty)
    body = relax.SeqExpr([relax.DataflowBlock([relax.VarBinding(out, call)])], out)
    set_type(body, func.ret_ty)
    return Inliner(callees_among({name: func})).inlined(relax.Function(params, body, func.ret_ty))


def _shared(mod: tvm.IRModule, functions: Mapping[tvm.ir.GlobalVar, relax.Function]) -> ExprSet:
    """The functions that are called more than once."""
    calls = Counter(
        binding.value.op
        for func in mod.functions.values()
        if isinstance(func, relax.Function)
        for binding in bindings_in(func.body)
        if isinstance(binding.value, relax.Call) and isinstance(binding.value.op, tvm.ir.GlobalVar)
    )
    return ExprSet(func for global_var, func in functions.items() if calls[global_var] > 1)


def _remove_unused(mod: tvm.IRModule, functions: Mapping[tvm.ir.GlobalVar, relax.Function]) -> None:
    """Remove those of `functions` that no other function refers to, directly or through others of them."""
    used = {
        global_var
        for caller, func in mod.functions_items()
        if isinstance(func, relax.Function) and caller not in functions
        for global_var in relax.analysis.all_global_vars(func)
    }
    waiting = [global_var for global_var in functions if global_var in used]
    for caller in waiting:
        for callee in relax.analysis.all_global_vars(functions[caller]):
            if callee in functions and callee not in used:
                used.add(callee)
                waiting.append(callee)
    for global_var in functions:
        if global_var not in used:
            del mod[global_var]


class Inliner:
    """Inlines calls in one function of a module.

    Parameters
    ----------
    function_of
        Selects the calls to inline.
    shared
        Functions shared by several equal regions. Their bindings have the origins of the first region, so
        copies take the origin of the call's result instead.
    """

    def __init__(self, function_of: FunctionOf, shared: ExprSet | None = None) -> None:
        self.function_of = function_of
        self.shared = ExprSet() if shared is None else shared
        self.leaves: ExprMap[Leaves] = ExprMap()
        self.outer_holders = _Holders()
        self.fields: ExprMap[relax.Var] = ExprMap()
        # Maps a fresh variable to the caller's variable that replaces it; later blocks may have recorded
        # either.
        self.renamed: ExprMap[relax.Var] = ExprMap()
        self.removable = ExprSet()
        self.depth = 0

    def inlined(self, func: relax.Function) -> relax.Function:
        """The function with its calls inlined. Linear in the size of the result."""
        for param in func.params:
            if isinstance(param.ty, tvm.ir.TupleType):
                self.outer_holders.tuples.setdefault(self.leaves_of(param), param)
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
    """One block of the caller.

    Attributes
    ----------
    made
        The bindings emitted so far. Fresh variables in them may still be renamed to the caller's.
    unnamed
        For each value, the fresh variables that hold it and have no caller's name yet.
    holders
        The variables of this block that hold tuples, constants and shapes.
    read
        The fields that were read for the current call, by value.
    parts
        For each variable bound to a call with several results, the results.
    """

    def __init__(self, inliner: Inliner, in_dataflow: bool, rewriter: FunctionRewriter) -> None:
        self.inliner = inliner
        self.rewriter = rewriter
        self.kind = relax.DataflowVar if in_dataflow else relax.Var
        self.made: list[relax.Binding] = []
        self.unnamed: dict[Leaves, list[relax.Var]] = {}
        self.holders = _Holders()
        self.read: dict[Leaves, relax.Expr] = {}
        self.parts: ExprMap[Sequence[relax.Expr]] = ExprMap()
        self.span: Span | None = None

    def bindings(self, block: relax.BindingBlock) -> Iterator[relax.Binding]:
        """The new bindings."""
        for binding in block.bindings:
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

    # -- the caller's bindings ---------------------------------------------------------------------

    def take(self, binding: relax.Binding) -> None:
        """Process one binding of the caller."""
        value = binding.value
        call = value if isinstance(value, relax.Call) else None
        callee = None if call is None else self.inliner.function_of(call.op)
        if call is not None and callee is not None:
            self.span = span_of(origin_of(binding.var, call)) if callee in self.inliner.shared else None
            self.call(binding.var, callee, call.args)
        elif isinstance(value, _STRUCTURE) and isinstance(binding, relax.VarBinding):
            self.structure(binding)
        else:
            self.inliner.depth += 1
            self.made.append(rebind(binding, self.rewriter.nested(value)))
            self.inliner.depth -= 1
            self.note_literal(value, binding.var)
            if isinstance(value, Constant):
                self.inliner.leaves[binding.var] = self.inliner.leaves_of(value)
            self.show(binding.var)

    def call(self, var: relax.Var, callee: relax.Function, args: Sequence[relax.Expr]) -> None:
        """Inline a call."""
        self.read = {}
        for arg in args:
            if arg in self.inliner.fields:
                self.inliner.removable.add(arg)
                self.read[self.inliner.leaves_of(arg)] = arg
        result = self.expanded(callee, args)
        if isinstance(result, relax.Tuple):
            self.parts[var] = list(result.fields)
            self.inliner.removable.add(var)
        self.define(var, result)

    def structure(self, binding: relax.VarBinding) -> None:
        """Process a tuple, field or alias; it may be an inlined value that is bound already."""
        value = binding.value
        if isinstance(value, relax.TupleGetItem):
            parts = self.parts.get(value.tuple_value)
            if parts is not None:
                self.define(binding.var, parts[value.index])
                return
        leaves = self.inliner.leaves_of(value)
        known = self.unnamed.get(leaves)
        if known:
            self.define(binding.var, known[0])
            return
        self.made.append(binding)
        if isinstance(value, relax.TupleGetItem):
            self.inliner.fields[binding.var] = binding.var
        self.hold(binding.var, leaves)

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
            self.inliner.fields[var] = var
        self.hold(var, leaves)

    def hold(self, var: relax.Var, leaves: Leaves) -> None:
        """Record the leaves of a variable."""
        self.inliner.leaves[var] = leaves
        self.show(var)

    def show(self, var: relax.Var) -> None:
        """Record that a variable holds a tuple."""
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
        return [self.holders, self.inliner.outer_holders] if outer else [self.holders]

    def holder(self, leaves: Leaves) -> relax.Var | None:
        """A visible variable that holds the tuple of these leaves."""
        return self.holders.tuples.get(leaves, self.inliner.outer_holders.tuples.get(leaves))

    # -- bodies of functions -----------------------------------------------------------------------

    def expanded(self, func: relax.Function, args: Sequence[relax.Expr]) -> relax.Expr:
        """Emit a copy of the body of a function; returns its result in terms of the caller."""
        func = with_shapes_of(func, args)
        here = ExprMap(zip(func.params, map(self.literal, args), strict=True))
        composites: ExprMap[relax.Function] = ExprMap()

        def operand(expr: relax.Expr) -> relax.Expr:
            known = here.get(expr)
            return self.literal(expr) if known is None else known

        for block in func.body.blocks:
            bindings = block.bindings[:]
            puts_together = _puts_together(bindings)
            for binding in bindings:
                value = binding.value
                if isinstance(value, relax.Function):
                    composites[binding.var] = value
                    continue
                inner = self.callee(value, composites)
                here[binding.var] = (
                    self.expanded(inner, [_replaced(arg, operand) for arg in value.args])
                    if inner is not None and isinstance(value, relax.Call)
                    else self.copied(binding, _replaced(value, operand), puts_together)
                )
        return _replaced(func.body.body, operand)

    def literal(self, expr: relax.Expr) -> relax.Expr:
        """A constant or shape of an inlined function, or the caller's variable for it."""
        if isinstance(expr, relax.Var):
            return expr
        return self.holders.literals.get(expr, self.inliner.outer_holders.literals.get(expr, expr))

    def callee(self, value: relax.Expr, composites: ExprMap[relax.Function]) -> relax.Function | None:
        if not isinstance(value, relax.Call):
            return None
        composite = composites.get(value.op)
        return self.inliner.function_of(value.op) if composite is None else composite

    def copied(self, binding: relax.Binding, value: relax.Expr, puts_together: bool) -> relax.Expr:
        """The replacement of a variable of an inlined function."""
        known = self.known(binding.value, value, puts_together)
        if known is not None:
            return known
        var = self.kind(binding.var.name, binding.var.ty, self.span or binding.var.span)
        if self.span is not None:
            value = with_span(value, self.span)
        if isinstance(binding, relax.MatchCast):
            self.made.append(relax.MatchCast(var, value, binding.ty))
            return var
        self.made.append(relax.VarBinding(var, value))
        if isinstance(value, _STRUCTURE):
            self.hold(var, self.inliner.leaves_of(value))
            # It is dead if the caller has the result under another variable.
            self.inliner.removable.add(var)
        else:
            self.show(var)
        if isinstance(value, relax.TupleGetItem):
            self.inliner.fields[var] = var
        self.unnamed.setdefault(self.inliner.leaves_of(var), []).append(var)
        return var

    def known(self, old: relax.Expr, new: relax.Expr, puts_together: bool) -> relax.Expr | None:
        """An existing expression for a value, of the caller or copied before; None if it has to be bound."""
        if isinstance(new, relax.Tuple) and puts_together:
            return self.holder(self.inliner.leaves_of(new))
        if isinstance(old, relax.TupleGetItem) and not isinstance(new, relax.TupleGetItem):
            return new  # the result of a composite
        if isinstance(new, relax.TupleGetItem):
            return self.read.get(self.inliner.leaves_of(new))
        return self.inliner.fields.get(new)


def _puts_together(bindings: Sequence[relax.Binding]) -> bool:
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


def with_shapes_of(func: relax.Function, args: Sequence[relax.Expr]) -> relax.Function:
    """The function with its shape variables bound to the shapes of the arguments."""
    known: dict[relax.Var, relax.Expr] = {}
    for param, arg in zip(func.params, args, strict=True):
        for var, value in _matched(param.ty, arg.ty):
            known.setdefault(var, value)
    return func.bind_symbolic_vars(known) if known else func


def _matched(ty: tvm.ir.Type, given: tvm.ir.Type) -> Iterator[tuple[relax.Var, relax.Expr]]:
    """The shape variables that are extents of a type, with the extents of another type in their place."""
    if isinstance(ty, tvm.ir.TupleType):
        for part, given_part in zip(ty.fields, expect(tvm.ir.TupleType, given).fields, strict=True):
            yield from _matched(part, given_part)
        return
    extents, given_extents = (_extents(each) for each in (ty, given))
    for extent, value in zip(extents, given_extents, strict=False):
        if isinstance(extent, relax.Var):
            yield extent, value


def _extents(ty: tvm.ir.Type) -> Sequence[relax.Expr]:
    shape = ty.shape if isinstance(ty, relax.TensorType) else ty
    return list(getattr(shape, "values", None) or ())
