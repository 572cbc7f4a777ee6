"""What tests of partitioning share: modules with regions, the form they must have, and ways to compare."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from hypothesis import strategies as st
from tvm import relax

import annotated_region as ar
from annotated_region.functions.rewriting import FunctionRewriter
from annotated_region.host_targets import UNOPTIMIZED
from annotated_region.testing.strategies import TARGETS, Ingredients, claims, functions

__all__ = [
    "array",
    "calls_in",
    "claimed",
    "disjoint_sets",
    "external",
    "flat",
    "inline",
    "listing",
    "machine",
    "partitioned",
    "register_targets",
    "require_form",
    "same_answers",
    "same_up_to_order",
    "size",
    "stripped",
    "tensor",
    "unannotated",
]


def register_targets() -> None:
    """The targets of the strategies: one binds constants, one has them passed, one never shares."""
    bound, passed, apart = TARGETS
    ar.register_backend(bound)
    ar.register_backend(passed, bind_constants=False)
    ar.register_backend(apart, share_equal_regions=False)


def claimed(mod: tvm.IRModule, claims_of: dict[str, dict[str, Sequence[Any]]]) -> tvm.IRModule:
    """The module with regions: for each function and target, claims by name of variable."""
    result = mod.clone()
    for name, by_target in claims_of.items():
        func = mod[name]
        variables = {var.name: var for var in _bound(func.body)}

        def claim(names: Any, variables: dict[str, relax.Var] = variables) -> Any:
            if isinstance(names, ar.Composite):
                return ar.Composite(names.name, tuple(variables[each] for each in names.nodes))
            return tuple(variables[each] for each in names.split())

        made = {target: [claim(each) for each in offered] for target, offered in by_target.items()}
        result.update_func(
            mod.get_global_var(name), ar.AnnotatedRegionSet.from_claims(func, made, name).annotate()
        )
    return result


def _bound(body: relax.SeqExpr) -> Iterator[relax.Var]:
    for binding in _bindings(body):
        yield binding.var


def _bindings(body: relax.SeqExpr) -> Iterator[relax.Binding]:
    for block in body.blocks:
        for binding in block.bindings:
            yield binding
            if isinstance(binding.value, relax.If):
                yield from _bindings(binding.value.true_branch)
                yield from _bindings(binding.value.false_branch)
            elif isinstance(binding.value, relax.Function):
                yield from _bindings(binding.value.body)


def partitioned(mod: tvm.IRModule, **by_target: Any) -> tvm.IRModule:
    """``main`` of the module with the given regions, partitioned, its form checked."""
    result = ar.passes.PartitionGraph()(claimed(mod, {"main": by_target}))
    require_form(result)
    return result


def inline(mod: tvm.IRModule, targets: Sequence[str] | None = None) -> tvm.IRModule:
    result = ar.passes.InlinePartitions(targets)(mod)
    relax.analysis.well_formed(result)
    return result


def external(mod: tvm.IRModule) -> dict[str, relax.Function]:
    """The external functions, by name."""
    return {
        name.name_hint: func
        for name, func in mod.functions_items()
        if isinstance(func, relax.Function) and func.attrs and "Codegen" in func.attrs
    }


def unannotated(mod: tvm.IRModule) -> tvm.IRModule:
    """The module without its annotations."""
    return tvm.IRModule({name: ar.AnnotatedRegionSet(func).func for name, func in mod.functions_items()})


def stripped(mod: tvm.IRModule) -> tvm.IRModule:
    """The module with its external functions as ordinary functions, which TVM compiles."""
    result = mod.clone()
    for name, func in external(mod).items():
        result.update_func(mod.get_global_var(name), func.without_attr("Codegen"))
    return result


# -- the form ----------------------------------------------------------------------------------------


def require_form(mod: tvm.IRModule) -> None:
    """Fail unless a partitioned module has the form that code generators take."""
    relax.analysis.well_formed(mod)
    assert not [op for op in _ops(mod) if str(op.name).startswith("relax.annotation")]
    for name, func in external(mod).items():
        assert str(func.attrs["global_symbol"]) == name
        _require_external(func)


def _ops(mod: tvm.IRModule) -> list[tvm.ir.Op]:
    return [
        binding.value.op
        for func in mod.functions.values()
        if isinstance(func, relax.Function)
        for binding in _bindings(func.body)
        if isinstance(binding.value, tvm.ir.Call) and isinstance(binding.value.op, tvm.ir.Op)
    ]


def _require_external(func: relax.Function) -> None:
    result = func.body.body
    outputs = list(result.fields) if isinstance(result, relax.Tuple) else [result]
    made = {hash(binding.var) for block in func.body.blocks for binding in block.bindings}
    assert outputs
    assert all(isinstance(output, tvm.ir.Var) for output in outputs)
    assert len({hash(output) for output in outputs}) == len(outputs)
    assert not {hash(param) for param in func.params} & {hash(output) for output in outputs}
    assert all(hash(output) in made for output in outputs)
    assert not any(isinstance(each.ty, tvm.ir.TupleType) for each in (*outputs, *func.params))
    assert len({param.name for param in func.params}) == len(func.params)
    used = {hash(var) for binding in _bindings(func.body) for var in _operands(binding.value)}
    assert all(hash(param) in used or isinstance(param.ty, relax.ShapeType) for param in func.params)


def _operands(expr: relax.Expr) -> Iterator[relax.Var]:
    if isinstance(expr, tvm.ir.Var):
        yield expr
    parts: Sequence[relax.Expr] = ()
    if isinstance(expr, tvm.ir.Call):
        parts = [*expr.args, *([expr.op] if isinstance(expr.op, tvm.ir.Var) else [])]
    elif isinstance(expr, relax.Tuple):
        parts = list(expr.fields)
    elif isinstance(expr, tvm.ir.TupleGetItem):
        parts = [expr.tuple_value]
    elif isinstance(expr, relax.If):
        branches = (expr.true_branch, expr.false_branch)
        parts = [expr.cond, *(branch.body for branch in branches)]
        parts += [binding.value for branch in branches for binding in _bindings(branch)]
    elif isinstance(expr, relax.Function):
        parts = [expr.body.body, *(binding.value for binding in _bindings(expr.body))]
    for part in parts:
        yield from _operands(part)


# -- comparing ---------------------------------------------------------------------------------------


def listing(func: relax.Function) -> Any:
    """What a function computes on what, body by body: the ops, in any order, and the result.

    Two functions with the same listing differ only in the order of bindings and in what moves no
    data: names, tuples put together and taken apart, where constants and shapes are written.
    """
    return _Listing().function(func)


class _Listing:
    def __init__(self) -> None:
        self.keys: dict[int, Any] = {}

    def function(self, func: relax.Function) -> Any:
        for index, param in enumerate(func.params):
            self.keys[hash(param)] = self.spread(("param", index), param.ty)
        return self.body(func.body)

    def body(self, body: relax.SeqExpr) -> Any:
        blocks = [sorted(self.block(block)) for block in body.blocks]
        return [block for block in blocks if block], self.key(body.body)

    def block(self, block: relax.BindingBlock) -> Iterator[str]:
        for binding in block.bindings:
            key = self.key(binding.value)
            if isinstance(binding, relax.MatchCast):
                key = ("op", _digest("cast", key, str(binding.ty)))
            acts = isinstance(binding, relax.MatchCast) or isinstance(
                binding.value, tvm.ir.Call | relax.If | relax.Function
            )
            self.keys[hash(binding.var)] = self.spread(key, binding.var.ty) if acts else key
            if acts:
                yield repr(key)

    def spread(self, key: Any, ty: tvm.ir.Type) -> Any:
        if not isinstance(ty, tvm.ir.TupleType):
            return key
        return ("tuple", *(self.spread(("field", key, i), part) for i, part in enumerate(ty.fields)))

    def key(self, expr: relax.Expr) -> Any:
        if isinstance(expr, tvm.ir.Var):
            return self.keys.get(hash(expr), ("symbol", expr.name))
        if isinstance(expr, relax.Tuple):
            return ("tuple", *map(self.key, expr.fields))
        if isinstance(expr, tvm.ir.TupleGetItem):
            return self.key(expr.tuple_value)[1 + expr.index]
        if isinstance(expr, tvm.ir.GenericConst):
            return ("constant", str(expr.ty), _digest(expr.value.numpy().tobytes()))
        if isinstance(expr, tvm.ir.Call):
            return (
                "op",
                _digest(self.key(expr.op), str(expr.attrs), str(expr.ty), [*map(self.key, expr.args)]),
            )
        if isinstance(expr, relax.If):
            branches = self.body(expr.true_branch), self.body(expr.false_branch)
            return ("op", _digest("if", self.key(expr.cond), branches))
        if isinstance(expr, relax.Function):
            return ("op", _digest("function", self.function(expr)))
        return (type(expr).__name__, str(expr))


def _digest(*parts: Any) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()


def same_up_to_order(left: relax.Function, right: relax.Function) -> bool:
    """Whether two functions are structurally equal once the bindings of each block are in one order.

    Nodes that compute the same are put in the order in which they stand, so that a function with
    several of them may be told from its equal.
    """
    return bool(tvm_ffi.structural_equal(_in_one_order(left), _in_one_order(right)))


def _in_one_order(func: relax.Function) -> relax.Function:
    keys = _Listing()
    keys.function(func)

    def bindings(block: relax.BindingBlock, rewriter: FunctionRewriter) -> Iterator[relax.Binding]:
        left = list(block.bindings)
        while left:
            waiting = {hash(binding.var) for binding in left}
            ready = [each for each in left if not waiting & set(map(hash, _operands(each.value)))]
            fixed = [each for each in left if _is_fixed(each)]
            free = [each for each in ready if not _is_fixed(each) or each.same_as(fixed[0])]
            chosen = min(free, key=lambda each: (repr(keys.keys[hash(each.var)]), str(type(each.value))))
            left = [each for each in left if not each.same_as(chosen)]
            value = rewriter.nested(chosen.value)
            same = value.same_as(chosen.value)
            yield chosen if same else relax.VarBinding(chosen.var, value)

    return FunctionRewriter(bindings, lambda var: var).function(func)


def _is_fixed(binding: relax.Binding) -> bool:
    """What keeps its place among its likes: effects, conditionals, casts."""
    value = binding.value
    if isinstance(binding, relax.MatchCast) or isinstance(value, relax.If):
        return True
    return isinstance(value, tvm.ir.Call) and not (
        isinstance(value.op, tvm.ir.Op) and value.op.get_attr("FPurity")
    )


def size(func: relax.Function) -> int:
    """How many bindings a function has."""
    return sum(1 for _ in _bindings(func.body))


# -- running -----------------------------------------------------------------------------------------


def machine(mod: tvm.IRModule) -> relax.VirtualMachine:
    """A machine that runs a module on TVM, op by op: without fusion, which may round differently."""
    executable = tvm.compile(mod, UNOPTIMIZED, relax_pipeline=_op_by_op())
    return relax.VirtualMachine(executable, tvm.cpu())


def _op_by_op() -> tvm.transform.Pass:
    steps = relax.transform
    return tvm.transform.Sequential(
        [
            steps.LegalizeOps(),
            steps.LambdaLift(),
            steps.ToNonDataflow(),
            steps.RemovePurityChecking(),
            steps.CallTIRRewrite(),
            steps.LowerAllocTensor(),
            steps.KillAfterLastUse(),
            steps.LowerRuntimeBuiltin(),
            steps.ComputePrimValue(),
            steps.VMShapeLower(),
            steps.AttachGlobalSymbol(),
        ]
    )


def flat(value: Any) -> list[np.ndarray]:
    """The arrays in a result."""
    if hasattr(value, "numpy"):
        return [value.numpy()]
    return [leaf for part in value for leaf in flat(part)]


def array(*shape: int, seed: int = 0) -> np.ndarray:
    """A random float32 array."""
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


# -- generating --------------------------------------------------------------------------------------


@st.composite
def disjoint_sets(draw: st.DrawFn, ingredients: Ingredients | None = None) -> ar.AnnotatedRegionSet:
    """Valid sets of disjoint regions, some with composites inside, over generated functions."""
    func = draw(functions(ingredients))
    kept: list[tuple[str, Any]] = []
    for target, offered in draw(claims(func, overlapping=False)).items():
        for claim in offered:
            if _is_valid(func, [*kept, (target, claim)]):
                kept.append((target, claim))
    for target, claim in list(kept):
        if isinstance(claim, tuple) and draw(st.booleans()):
            chosen = draw(st.sets(st.sampled_from(range(len(claim))), min_size=1, max_size=3))
            composite = ar.Composite("inner.pattern", tuple(claim[index] for index in sorted(chosen)))
            rest = [claim[index] for index in range(len(claim)) if index not in chosen]
            if _is_valid(func, [(target, composite), *((target, var) for var in rest)]):
                kept.append((target, composite))
    return ar.AnnotatedRegionSet.from_claims(func, _by_target(kept), "main")


def _is_valid(func: relax.Function, pairs: Sequence[tuple[str, Any]]) -> bool:
    try:
        ar.AnnotatedRegionSet.from_claims(func, _by_target(pairs)).verify()
    except ar.RegionCycleError:
        return False
    return True


def _by_target(pairs: Sequence[tuple[str, Any]]) -> dict[str, list[Any]]:
    made: dict[str, list[Any]] = {}
    for target, claim in pairs:
        made.setdefault(target, []).append(claim)
    return made


def calls_in(func: relax.Function) -> list[relax.Call]:
    """The calls of functions of the module in the bindings of `func`."""
    return [
        binding.value
        for block in func.body.blocks
        for binding in block.bindings
        if isinstance(binding.value, tvm.ir.Call) and isinstance(binding.value.op, tvm.ir.GlobalVar)
    ]


def same_answers(mod: tvm.IRModule, part: tvm.IRModule, *arguments: Any) -> None:
    """Require that an annotated module and what partitioning made of it compute the same bits."""
    expected = flat(machine(unannotated(mod))["main"](*arguments))
    found = flat(machine(stripped(part))["main"](*arguments))
    assert len(expected) == len(found)
    for left, right in zip(expected, found, strict=True):
        np.testing.assert_array_equal(left, right)


def tensor(*shape: int, seed: int = 0) -> Any:
    """A seeded argument."""
    return tvm.runtime.tensor(array(*shape, seed=seed))
