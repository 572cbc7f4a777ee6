"""PartitionGraph: external functions are named after their place in the imported model, and keep names."""

import pytest
import tvm
from kits.passes.partition_kit import external
from tvm import relax

import annotated_region as ar
from annotated_region.expr_map import ExprMap
from annotated_region.functions.marking import bindings_in, marked
from annotated_region.functions.region_places import common_place
from annotated_region.origins import span_of
from annotated_region.testing.registry import claim_ops, temporary_registrations


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        claim_ops("one", "relax.nn.relu", "relax.exp")
        yield


def model(*nodes):
    """A chain of relu, exp and tanh, one for each node by its last word; bindings come from these nodes.

    The value grows by an axis with each tanh, so that no two pieces are equal.
    """
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    ops = {"Relu": relax.op.nn.relu, "Exp": relax.op.exp}
    builder, value, origins = relax.BlockBuilder(), x, []
    with builder.function("main", [x]):
        with builder.dataflow():
            for node in nodes:
                kind = node.split(" ")[0].replace(".", "/").rpartition("/")[2].partition("_")[0]
                if kind in ops:
                    value = builder.emit(ops[kind](value))
                else:
                    value = builder.emit(relax.op.expand_dims(relax.op.tanh(value), 0))
                origins.append(node)
            value = builder.emit_output(value)
        builder.emit_func_output(value)
    func = builder.get()["main"]
    bindings = [each for each in bindings_in(func.body) if isinstance(each.value, relax.Call)]
    names = iter([name for node in nodes for name in ([node] if node_is_claimed(node) else [node, node])])
    spans = ExprMap((each, span_of(next(names))) for each in bindings)
    return tvm.IRModule({"main": marked(func, spans)})


def node_is_claimed(node):
    return "Relu" in node or "Exp" in node


def names_of(*nodes, **options):
    return sorted(external(ar.partition(model(*nodes), ["one"], prepare=False, **options)))


BLOCKS = ("/layer1/Relu", "/layer1/Exp", "/cut/Tanh", "/layer2/att/Relu", "/layer2/att/Exp")


def test_a_region_is_named_after_the_path_of_its_ops():
    assert names_of(*BLOCKS) == ["one_layer1", "one_layer2_att"]


def test_a_name_stays_when_something_is_inserted_before():
    assert "one_layer2_att" in names_of("/layer0/Relu", "/layer0/Exp", "/layer0/Tanh", *BLOCKS)
    assert "one_main_0" in names_of("/layer0/Relu", *BLOCKS), "layer0 and layer1 have nothing in common"


def test_the_second_of_a_name_has_a_number():
    twice = (*BLOCKS[:2], "/cut/Tanh", *BLOCKS[:2], "/cut/Tanh", "/layer1/Relu_9")
    assert names_of(*twice) == ["one_layer1", "one_layer1_1", "one_layer1_Relu_9"]


def test_numbers_for_who_asks_for_them():
    assert names_of(*BLOCKS, names="numbers") == ["one_main_0", "one_main_1"]
    with pytest.raises(ar.UsageError, match="names is 'other'; pass one of 'places', 'numbers'"):
        names_of(*BLOCKS, names="other")


def test_paths_of_pytorch_are_paths_too():
    found = names_of("net.0.Relu (m.py:3)", "net.0.Exp (m.py:4)", "Tanh", "net.1.Relu (m.py:3)")
    assert found == ["one_net_0", "one_net_1_Relu"]


def test_a_check_tells_the_same_names():
    with temporary_registrations():
        report = ar.check(model("/a/Relu", "/cut/Tanh", "/b/x/Relu", "/b/x/Relu"), ["dnnl"], bisect=False)
    named = external(ar.partition(model("/a/Relu", "/cut/Tanh", "/b/x/Relu", "/b/x/Relu"), ["dnnl"]))
    assert sorted(region.symbol for region in report.regions) == sorted(named)


@pytest.mark.parametrize(
    ("origins", "place"),
    [
        (["/layer1/layer1.0/conv1/Conv", "/layer1/layer1.0/relu/Relu"], "layer1_0"),
        (["/a/b/Conv"], "a_b_Conv"),
        (["/a/b/Conv", "/a/c/Conv", "lv3"], "a"),
        (["/a/Conv", "/b/Conv"], ""),
        (["lv1", "Conv_12"], ""),
        ([], ""),
        (["/a/a.b/c", "/a/a.b/d"], "a_b"),
        (["/ü/$$/x", "/ü/$$/y"], ""),
        (["/" + "x" * 100 + "/" + "y" * 40 + "/z"], "xxxxx_" + "y" * 40 + "_z"),
        (["/é-1/int main(){}/x", "/é-1/int main(){}/y"], "1_int_main"),
    ],
)
def test_places_are_short_identifiers(origins, place):
    assert common_place(origins) == place
    assert len(place) <= 48
