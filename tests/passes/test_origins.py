"""Origins through the passes: each op comes from a binding of the input out of which it is computed."""

import pytest
import tvm
from hypothesis import given
from kits.passes.partition_kit import disjoint_sets, external, register_targets
from tvm import relax

import annotated_region as ar
from annotated_region.expr_map import ExprMap
from annotated_region.functions.marking import bindings_in, marked
from annotated_region.functions.rewriting import replace_operands
from annotated_region.origins import origin_of, recorded_origin, span_of
from annotated_region.testing.light_models import light_module
from annotated_region.testing.registry import temporary_registrations
from annotated_region.testing.strategies import Ingredients, functions

STRAIGHT = Ingredients(branches=0, effects=False, local_functions=False, arrays=True)


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        register_targets()
        yield


def numbered(func):
    """The function, each binding marked with its number."""
    return marked(func, ExprMap((each, span_of(f"#{at}")) for at, each in enumerate(bindings_in(func.body))))


def unmarked(func):
    return marked(func, ExprMap((each, None) for each in bindings_in(func.body)))


def ops_in(mod):
    """The name of the op and the origin of each call of an op, in all functions."""
    return [
        (binding.value.op.name, origin_of(binding.var, binding.value))
        for _, func in sorted(mod.functions_items(), key=lambda item: item[0].name_hint)
        if isinstance(func, relax.Function)
        for binding in bindings_in(func.body)
        if isinstance(binding.value, relax.Call) and isinstance(binding.value.op, tvm.ir.Op)
    ]


def reads_of(value):
    found = []

    def noted(expr):
        found.append(expr)
        return expr

    replace_operands(value, noted)
    return [expr for expr in found if isinstance(expr, tvm.ir.Var)]


def behind(func):
    """For each origin those of the bindings that its binding is computed from, its own included."""
    origin_at, found = ExprMap(), {}
    for binding in bindings_in(func.body):
        own = origin_of(binding.var, binding.value)
        origin_at[binding.var] = own
        read = [origin_at.get(var) for var in reads_of(binding.value)]
        found[own] = {own}.union(*(found[origin] for origin in read if origin is not None))
    return found


@pytest.mark.campaign
@given(functions(STRAIGHT))
def test_preparation_keeps_what_ops_are_computed_from(tally, func):
    before = numbered(func)
    after = ar.passes.PrepareForInference()(tvm.IRModule({"main": before}))["main"]
    sources = behind(before)
    origin_at = ExprMap()
    for binding in bindings_in(after.body):
        own = origin_of(binding.var, binding.value)
        if not isinstance(binding.value, relax.Call):
            continue
        assert own in sources
        origin_at[binding.var] = own
        for var in reads_of(binding.value):
            if var in origin_at:
                assert origin_at[var] in sources[own]
        tally["ops"] += 1


@pytest.mark.campaign
@given(disjoint_sets(STRAIGHT))
def test_partitioned_ops_are_those_of_their_origins(tally, regions):
    func = numbered(regions.annotate())
    ops = {origin: name for name, origin in ops_in(tvm.IRModule({"main": func})) if "annotation" not in name}
    part = ar.passes.PartitionGraph()(tvm.IRModule({"main": func}))
    for name, origin in ops_in(part):
        assert ops[origin] == name
    back = ar.passes.InlinePartitions()(part)
    for name, origin in ops_in(back):
        # What several regions share comes from where the result of a region does.
        assert origin in ops
        tally["same op" if ops[origin] == name else "result of its region"] += 1


@pytest.mark.campaign
@given(disjoint_sets(STRAIGHT))
def test_origins_change_nothing_else(tally, regions):
    func = regions.annotate()
    partition = ar.passes.PartitionGraph()
    plain = partition(tvm.IRModule({"main": func}))
    told = partition(tvm.IRModule({"main": numbered(func)}))
    tvm.ir.assert_structural_equal(plain, told)
    assert plain.script() == told.script()
    tally["external functions"] += len(external(told))


def two_equal_regions():
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            a = builder.emit(relax.op.nn.relu(x))
            b = builder.emit(relax.op.tanh(a))
            c = builder.emit(relax.op.nn.relu(b))
            out = builder.emit_output(relax.op.tanh(c))
        builder.emit_func_output(out)
    mod = builder.get()
    return tvm.IRModule({"main": numbered(mod["main"])})


def test_equal_regions_share_a_function_whatever_they_come_from():
    mod = two_equal_regions()
    vars_ = [binding.var for binding in bindings_in(mod["main"].body)]
    claims = {"alpha": [(vars_[0],), (vars_[2],)]}
    func = ar.AnnotatedRegionSet.from_claims(mod["main"], claims, "main").annotate()
    part = ar.passes.PartitionGraph()(tvm.IRModule({"main": func}))
    assert len(external(part)) == 1
    back = ar.passes.InlinePartitions()(part)
    assert ops_in(back) == [
        ("relax.nn.relu", "#0"),
        ("relax.tanh", "#1"),
        ("relax.nn.relu", "#2"),
        ("relax.tanh", "#3"),
    ]


PASSES_OF_TVM = [
    relax.transform.Normalize(),
    relax.transform.CanonicalizeBindings(),
    relax.transform.EliminateCommonSubexpr(),
    relax.transform.FoldConstant(),
    relax.transform.ConvertToDataflow(),
    relax.transform.LegalizeOps(),
    relax.transform.DeadCodeElimination(),
]


@pytest.mark.parametrize("each", PASSES_OF_TVM, ids=lambda each: each.info.name)
def test_passes_of_tvm_keep_origins(each):
    mod = two_equal_regions()
    after = each(mod)["main"]
    assert [origin_of(b.var, b.value) for b in bindings_in(after.body)] == ["#0", "#1", "#2", "#3"]


def test_ops_that_tvm_fuses_keep_origins():
    mod = relax.transform.FuseOps()(
        relax.transform.AnnotateTIROpPattern()(relax.transform.LegalizeOps()(two_equal_regions()))
    )
    fused = next(
        func
        for _, func in mod.functions_items()
        if isinstance(func, relax.Function) and func.attrs and "Primitive" in func.attrs
    )
    inside = [recorded_origin(binding.var) for binding in bindings_in(fused.body)]
    assert [origin for origin in inside if origin is not None] == ["#0", "#1", "#2"]


def test_an_op_that_moves_to_another_binding_keeps_its_first_name():
    """A batch norm goes into the convolution before it, which from then on stands at the norm."""
    mod = ar.passes.PrepareForInference()(light_module("resnet50"))
    ops = [
        (binding.value.op.name, origin_of(binding.var, binding.value), binding.var.name)
        for binding in bindings_in(mod["main"].body)
        if isinstance(binding.value, relax.Call)
    ]
    first = next(each for each in bindings_in(light_module("resnet50")["main"].body))
    assert ops[0] == ("relax.nn.conv2d", first.var.name, ops[0][2])
    assert ops[0][2] != first.var.name


def test_origins_survive_text():
    mod = two_equal_regions()
    text = ar.passes.WriteOrigins()(mod).script(show_meta=True)
    assert '"annotated_region.origins": {"gv": "#3", "lv": "#0"' in text
    read = ar.passes.ReadOrigins()(tvm.script.from_source(text))
    tvm.ir.assert_structural_equal(read, mod)
    assert ops_in(read) == ops_in(mod)


def test_names_that_a_text_changes_are_left_out():
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    names, bindings, value = ["a", "a", "layer 1", "lambda", "x", "b"], [], x
    for name in names:
        var = relax.Var(name, x.ty)
        bindings.append(relax.VarBinding(var, relax.op.nn.relu(value)))
        value = var
    body = relax.SeqExpr([relax.BindingBlock(bindings)], value)
    func = relax.Function([x], body, x.ty).with_attr("global_symbol", "main")
    mod = relax.transform.Normalize()(tvm.IRModule({"main": func}))
    written = ar.passes.WriteOrigins()(tvm.IRModule({"main": numbered(mod["main"])}))
    assert dict(written["main"].attrs["annotated_region.origins"].items()) == {"b": "#5"}


def test_a_module_without_origins_stays_the_same_object():
    mod = tvm.IRModule({"main": unmarked(two_equal_regions()["main"])})
    assert ar.passes.WriteOrigins()(mod)["main"].same_as(mod["main"])
    assert ar.passes.ReadOrigins()(mod)["main"].same_as(mod["main"])


@pytest.mark.parametrize("told", ["lv", ["lv"], {"lv": 3}, {"lv": ["a"]}])
def test_an_attribute_that_is_no_map_of_texts_is_refused(told):
    func = two_equal_regions()["main"].with_attr("annotated_region.origins", told)
    with pytest.raises(ar.InvalidModuleError, match=r"main: the attribute .* is not a map from"):
        ar.passes.ReadOrigins()(tvm.IRModule({"main": func}))


def test_names_in_a_hostile_attribute_are_bounded_and_print():
    told = {"lv": "a\nb\x1b[2J", "lv1": "long/" * 10000, "nothing": "x"}
    func = two_equal_regions()["main"].with_attr("annotated_region.origins", told)
    read = ar.passes.ReadOrigins()(tvm.IRModule({"main": func}))
    origins = [origin for _, origin in ops_in(read)]
    assert origins[0] == r"a\nb\x1b[2J"
    assert len(origins[1]) == 200
    assert "annotated_region.origins" not in read["main"].attrs
