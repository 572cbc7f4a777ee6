"""Puts external functions back in the place of their calls: the inverse of partitioning.

The body of the function is copied, composites included, with arguments for parameters. What stood
around the call for its sake goes: results take the names that the caller has for them, tuples that
were taken apart or put together become the tuples that they were, and fields that were read for the
call, or from its result, are dropped where they have no other user.
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
"""The function that a callee stands for, if calls to it are to be inlined; else None."""

_STRUCTURE = relax.Tuple | relax.TupleGetItem | relax.Var


def is_inlinable(func: relax.Function) -> bool:
    """Whether a function is straight code; composites inside are, too."""
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
    """Calls of the chosen functions are to be inlined, and no others."""
    return lambda callee: chosen.get(callee) if isinstance(callee, tvm.ir.GlobalVar) else None


@paused_collector()
def inline_functions(mod: tvm.IRModule, chosen: Mapping[tvm.ir.GlobalVar, relax.Function]) -> tvm.IRModule:
    """The module with calls of the chosen functions inlined, and without those that have no caller left.

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
    """An external function as a host function: straight code without composites and without attributes.

    Parameters
    ----------
    func
        A function that is inlinable.
    given
        By the number of a parameter, the constant that takes its place. The parameter stays.
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
    """Those of the functions that several calls share."""
    calls = Counter(
        binding.value.op
        for func in mod.functions.values()
        if isinstance(func, relax.Function)
        for binding in bindings_in(func.body)
        if isinstance(binding.value, relax.Call) and isinstance(binding.value.op, tvm.ir.GlobalVar)
    )
    return ExprSet(func for global_var, func in functions.items() if calls[global_var] > 1)


def _remove_unused(mod: tvm.IRModule, functions: Mapping[tvm.ir.GlobalVar, relax.Function]) -> None:
    """Remove those of the functions that none of the others refers to."""
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
        Which calls to inline.
    shared
        Functions that stand for several regions. What is in them comes from the first of these, so what is
        copied from them comes from where the result of the call does.
    """

    def __init__(self, function_of: FunctionOf, shared: ExprSet | None = None) -> None:
        self.function_of = function_of
        self.shared = ExprSet() if shared is None else shared
        self.leaves: ExprMap[Leaves] = ExprMap()
        self.outer_holders = _Holders()
        self.fields: ExprMap[relax.Var] = ExprMap()
        # The caller's variable for a fresh one; later blocks may have noted either.
        self.renamed: ExprMap[relax.Var] = ExprMap()
        self.removable = ExprSet()
        self.depth = 0

    def inlined(self, func: relax.Function) -> relax.Function:
        """The function with the calls in it inlined. Linear in the size of the result."""
        for param in func.params:
            if isinstance(param.ty, tvm.ir.TupleType):
                self.outer_holders.tuples.setdefault(self.leaves_of(param), param)
        result = FunctionRewriter(self.bindings, lambda var: var).function(func)
        return without_dead(result, self.removable)

    def bindings(self, block: relax.BindingBlock, rewriter: FunctionRewriter) -> Iterator[relax.Binding]:
        """The new bindings of a block."""
        return _Block(self, isinstance(block, relax.DataflowBlock), rewriter).bindings(block)

    def leaves_of(self, expr: relax.Expr) -> Leaves:
        """The single values that an expression stands for."""
        return leaves_of(expr, self.leaves.get)


class _Holders:
    """Which variable holds what: a tuple, known by its values; a constant or shape, known by itself."""

    def __init__(self) -> None:
        self.tuples: dict[Leaves, relax.Var] = {}
        self.literals: ExprMap[relax.Var] = ExprMap()


class _Block:
    """One block of the caller.

    Attributes
    ----------
    made
        The bindings so far. Fresh variables in them may still get the caller's name for them.
    unnamed
        For each value, the fresh variables that hold it and that the caller has no name for yet.
    holders
        The variables of this block that hold tuples, constants and shapes.
    read
        For the values of fields that were read for the call at hand, the fields.
    parts
        For each variable that was bound to a call with several results, these.
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
        """A binding with the caller's names in it."""

        def name(expr: relax.Expr) -> relax.Expr:
            return self.inliner.renamed.get(expr, expr)

        var = self.inliner.renamed.get(binding.var, binding.var)
        value = replace_operands(binding.value, name)
        if var.same_as(binding.var):
            return rebind(binding, value)
        return relax.VarBinding(var, value)

    # -- the caller's bindings ---------------------------------------------------------------------

    def take(self, binding: relax.Binding) -> None:
        """One binding of the caller."""
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
        """A call that is inlined."""
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
        """A tuple, a field or another name: perhaps one that is there already, from a function."""
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
        """Let a variable of the caller be `value`: its name, where `value` has none yet."""
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
        """Note which values a variable stands for."""
        self.inliner.leaves[var] = leaves
        self.show(var)

    def show(self, var: relax.Var) -> None:
        """Note that a variable holds a tuple."""
        if isinstance(var.ty, tvm.ir.TupleType):
            for holders in self.holders_for(var):
                holders.tuples.setdefault(self.inliner.leaves_of(var), var)

    def note_literal(self, value: relax.Expr, var: relax.Var) -> None:
        """Note that a variable holds this constant or shape."""
        for holders in self.holders_for(var):
            holders.literals.setdefault(value, var)

    def holders_for(self, var: relax.Var) -> list[_Holders]:
        """Where to note what a variable holds: for this block, and for later ones that can see it."""
        outer = not self.inliner.depth and not isinstance(var, relax.DataflowVar)
        return [self.holders, self.inliner.outer_holders] if outer else [self.holders]

    def holder(self, leaves: Leaves) -> relax.Var | None:
        """A variable that can be seen here and holds the tuple of these values."""
        return self.holders.tuples.get(leaves, self.inliner.outer_holders.tuples.get(leaves))

    # -- bodies of functions -----------------------------------------------------------------------

    def expanded(self, func: relax.Function, args: Sequence[relax.Expr]) -> relax.Expr:
        """Copy the body of a function behind what is made; its result, in terms of the caller."""
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
        """A constant or shape of a function; the caller's name for it, where it has one."""
        if isinstance(expr, relax.Var):
            return expr
        return self.holders.literals.get(expr, self.inliner.outer_holders.literals.get(expr, expr))

    def callee(self, value: relax.Expr, composites: ExprMap[relax.Function]) -> relax.Function | None:
        if not isinstance(value, relax.Call):
            return None
        composite = composites.get(value.op)
        return self.inliner.function_of(value.op) if composite is None else composite

    def copied(self, binding: relax.Binding, value: relax.Expr, puts_together: bool) -> relax.Expr:
        """What stands for a variable of an inlined function."""
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
            # The way to a result, where the caller has the result by another one.
            self.inliner.removable.add(var)
        else:
            self.show(var)
        if isinstance(value, relax.TupleGetItem):
            self.inliner.fields[var] = var
        self.unnamed.setdefault(self.inliner.leaves_of(var), []).append(var)
        return var

    def known(self, old: relax.Expr, new: relax.Expr, puts_together: bool) -> relax.Expr | None:
        """What needs no binding of its own, because the caller, or what was copied before, has one."""
        if isinstance(new, relax.Tuple) and puts_together:
            return self.holder(self.inliner.leaves_of(new))
        if isinstance(old, relax.TupleGetItem) and not isinstance(new, relax.TupleGetItem):
            return new  # a result of a composite
        if isinstance(new, relax.TupleGetItem):
            return self.read.get(self.inliner.leaves_of(new))
        return self.inliner.fields.get(new)


def _puts_together(bindings: Sequence[relax.Binding]) -> bool:
    """Whether a block only makes tuples of what enters; partitioning gives these a block of their own."""
    return all(isinstance(binding.value, relax.Tuple) for binding in bindings)


def _replaced(expr: relax.Expr, substitute: Substitute) -> relax.Expr:
    """`expr` with its operands replaced; fields of tuples that stand there are taken out of them."""
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
    """The function with the shapes of its arguments in the place of its shape variables."""
    known: dict[relax.Var, relax.Expr] = {}
    for param, arg in zip(func.params, args, strict=True):
        for var, value in _matched(param.ty, arg.ty):
            known.setdefault(var, value)
    return func.bind_symbolic_vars(known) if known else func


def _matched(ty: tvm.ir.Type, given: tvm.ir.Type) -> Iterator[tuple[relax.Var, relax.Expr]]:
    """The shape variables that stand alone in a type, with what stands there in another one."""
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
