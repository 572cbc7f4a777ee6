"""Emits the call of an external function: tuple fields are read before it, tuples rebuilt after it."""

from __future__ import annotations

from collections.abc import Mapping

import tvm
from tvm import relax
from tvm.ir import Span

from annotated_region.dataflow.leaves import Leaf, Leaves
from annotated_region.expr_map import ExprSet
from annotated_region.functions.external import External
from annotated_region.tvm_adapter.types import expect

__all__ = ["CallSites"]


class CallSites:
    """Emits the calls of one block; each tuple field is read once per block.

    Parameters
    ----------
    in_dataflow
        Whether the block is a dataflow block.
    fields
        The caller's variables for tuple fields. A field that is needed before the caller reads it is bound to
        its variable early.
    """

    def __init__(self, in_dataflow: bool, fields: Mapping[Leaf, relax.Var]) -> None:
        self.kind = relax.DataflowVar if in_dataflow else relax.Var
        self.fields = fields
        self.owners: dict[Leaf, relax.Var] = {}
        self.made: list[relax.Binding] = []
        self.value_of: dict[Leaf, relax.Expr] = {}
        self.bound = ExprSet()

    def bind_host(self, var: relax.Var, leaves: Leaves) -> bool:
        """Whether an alias or tuple of the caller is still to be bound; if so it is readable from here on."""
        if var in self.bound:
            return False
        if isinstance(leaves, Leaf) and leaves.path:
            self.value_of.setdefault(leaves, var)
        return True

    def bindings(self, callee: tvm.ir.GlobalVar, external: External) -> list[relax.Binding]:
        """The bindings of one call."""
        self.made = []
        self.owners = _owners(external.outputs)
        arguments = [self.read(item) if isinstance(item, Leaf) else item for item in external.arguments]
        call = relax.Call(callee, arguments, ret_ty=_result_type(external))
        self.bind_results(call, external)
        for var, leaves in external.outputs.items():
            value = self.value(leaves)
            if not value.same_as(var):
                self.made.append(relax.VarBinding(var, value))
        return self.made

    def bind_results(self, call: relax.Call, external: External) -> None:
        """Bind each result to the first variable that has its leaf, or to a fresh one."""
        returned = external.func.body.body
        if isinstance(returned, relax.Var):
            self.take(external.results[0], call, returned)
            return
        fields = [expect(relax.Var, field) for field in expect(relax.Tuple, returned).fields]
        whole = self.bind(f"{expect(tvm.ir.GlobalVar, call.op).name_hint}_out", call, fields[0].span)
        for index, (leaf, field) in enumerate(zip(external.results, fields, strict=True)):
            self.take(leaf, relax.TupleGetItem(whole, index), field)

    def take(self, leaf: Leaf, value: relax.Expr, like: relax.Var | Leaf) -> relax.Expr:
        """Bind the value of a leaf, to the caller's variable for it or to a fresh one named after `like`."""
        owner = self.owners.get(leaf, self.fields.get(leaf))
        if owner is None:
            owner = self.bind(like.name, value, None if isinstance(like, Leaf) else like.span)
        else:
            self.made.append(relax.VarBinding(owner, value))
            self.bound.add(owner)
        return self.value_of.setdefault(leaf, owner)

    def value(self, leaves: Leaves) -> relax.Expr:
        """The expression for some leaves after the call."""
        if isinstance(leaves, Leaf):
            return self.read(leaves)
        return relax.Tuple([self.value(part) for part in leaves])

    def read(self, leaf: Leaf) -> relax.Expr:
        """The value of a leaf; a field is read from its tuple only once."""
        known = self.value_of.get(leaf)
        if known is not None:
            return known
        if not leaf.path:
            return leaf.root
        parent = self.read(Leaf(leaf.root, leaf.path[:-1]))
        return self.take(leaf, relax.TupleGetItem(parent, leaf.path[-1]), leaf)

    def bind(self, name: str, value: relax.Expr, span: Span | None) -> relax.Var:
        """Bind a value to a fresh variable with the origin `span`."""
        var = self.kind(name, value.ty, span)
        self.made.append(relax.VarBinding(var, value))
        return var


def _owners(outputs: Mapping[relax.Var, Leaves]) -> dict[Leaf, relax.Var]:
    """The first output variable of each leaf."""
    owners: dict[Leaf, relax.Var] = {}
    for var, leaves in outputs.items():
        if isinstance(leaves, Leaf):
            owners.setdefault(leaves, var)
    return owners


def _result_type(external: External) -> tvm.ir.Type:
    types = [leaf.ty for leaf in external.results]
    return types[0] if len(types) == 1 else relax.TupleType(types)
