"""Reports as tables of a given width: no word broken, reasons for host ops, choices marked."""

from dataclasses import replace

import pytest
from kits.reports.prices import SecondsAnOp
from tvm import relax, tirx

import annotated_region as ar
from annotated_region.findings.host_ops import host_groups
from annotated_region.findings.wording import Loss, LossReason, words_for_loss
from annotated_region.reports.report_tables import op_table, region_table, sums_table
from annotated_region.reports.text_table import text_table
from annotated_region.testing.graphs import SIX_OPS, module_of
from annotated_region.testing.registry import claim_ops, temporary_registrations


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        claim_ops("sketch", "relax.nn.relu", "relax.add", "relax.tanh")
        claim_ops("pencil", "relax.nn.relu")
        claim_ops("pencil", "relax.tanh", "relax.add", answer="no pencil is sharp enough")
        yield


def by_cost(**seconds):
    policy = ar.LeastCost(SecondsAnOp(**seconds))
    return ar.explain(module_of(SIX_OPS), ["pencil", "sketch"], policy, prepare=False)


def test_the_host_is_blamed_on_the_target_that_lost_its_ops():
    """Not on the one that declines them: that another target claims them is what says why they stay."""
    report = by_cost(host=1e-6, sketch=3e-6, pencil=5e-6)
    lost = "lost by sketch by cost: alone 2 us on the host, 6 us on sketch"
    declined = "declined by pencil: no pencil is sharp enough"
    pencil = "lost by pencil by cost: alone 2 us on the host, 10 us on pencil"
    assert str(report).splitlines() == [
        "without a region: pencil (claims 2 ops), sketch (claims 6 ops)",
        f"host: nn.relu x2 ({pencil}; {lost}), tanh x2 ({lost}; {declined}), add x2 ({lost}; {declined})",
    ]
    tanh = ar.explain(module_of({"a": ("relax.tanh", ("x",))}), ["pencil", "sketch"], prepare=False)
    assert "lost" not in tanh.headline()


def test_ops_of_one_kind_whose_costs_differ_are_one_line():
    """Their costs are added up; costs of two sizes made two lines."""
    report = by_cost(host=1e-6, sketch=3e-6, pencil=5e-6)
    (relu, _tanh, _add) = host_groups(report.functions[0].ops)
    dearer = replace(report.functions[0].ops[0], costs={"host": 5e-6, "sketch": 9e-6, "pencil": 7e-6})
    words = {
        target: words_for_loss(Loss(target, "host", LossReason.COSTS_MORE, None, 5e-6, dearer.costs[target]))
        for target in ("pencil", "sketch")
    }
    ops = [report.functions[0].ops[1], replace(dearer, lost=words)]
    assert all(op.lost_by_cost == ("pencil", "sketch") for op in ops)
    (group,) = host_groups(ops)
    assert relu.count == group.count == 2
    assert "alone 6 us on the host, 12 us on pencil" in group.reasons[1] + group.reasons[0]


def test_what_launches_outweigh_is_said():
    class Dear(SecondsAnOp):
        def launch(self, target):
            return 1.0

    policy = ar.LeastCost(Dear(host=2e-6, sketch=1e-6, pencil=1e-6))
    report = ar.explain(module_of(SIX_OPS), ["sketch"], policy, prepare=False)
    assert "2 us on sketch, but launches and transfers cost more" in str(report)


def test_a_table_of_every_op_says_shapes_types_work_and_why():
    report = ar.explain(module_of(SIX_OPS), ["pencil", "sketch"], prepare=False)
    table = report.table(96)
    assert table.splitlines()[:5] == [
        "Targets of main, 6 ops",
        "target  regions  ops   share  claims  work",
        "------  -------  ---  ------  ------  ---------------",
        "pencil        1    2  33.3 %       2  12 flop, 96 B",
        "sketch        1    4  66.7 %       6  132 flop, 240 B",
    ]
    assert "a1    nn.relu  2x3 -> 2x3       float32  6 flop, 48 B   pencil 0  before sketch" in table
    assert max(map(len, table.splitlines())) <= 96


def test_tuples_and_their_fields_are_no_ops_of_a_region():
    """A region counts the ops that the sums of its target count, and its page tells as many."""
    claim_ops("knife", "relax.split", "relax.nn.relu")
    n = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n * 2, 3), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, relax.Var("n_of_x", relax.ShapeType([n]))]):
        with builder.dataflow():
            thirds = builder.emit(relax.op.split(x, 3, axis=1))
            out = builder.emit_output(relax.op.nn.relu(builder.emit(thirds[0])))
        builder.emit_func_output(out)
    (function,) = ar.explain(builder.get(), ["knife"], prepare=False).functions
    assert len(function.regions[0].ops) > 2
    assert region_table(function, 80).splitlines()[-1].split()[:3] == ["0", "knife", "2"]
    assert sums_table(function, 80).splitlines()[3].split()[:3] == ["knife", "1", "2"]
    assert "(n*2)x3 -> ((n*2)x1, (n*2)x1, (n*2)x1)" in " ".join(op_table(function, 200).split())


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_table_is_wider_than_its_page(width):
    table = by_cost(host=1e-6, sketch=3e-6, pencil=5e-6).table(width)
    assert max(map(len, table.splitlines())) <= width


@pytest.mark.parametrize("width", range(20, 60, 7))
def test_no_word_breaks(width):
    reason = "lost by sketch by cost: alone 0.024 us on the host, 6.5 us on sketch; declined by pencil"
    lines = text_table("t", ("why", "n"), [(reason, "1")], width, frozenset()).splitlines()[3:]
    assert " ".join(" ".join(line.rstrip("1").strip() for line in lines).split()) == reason


def test_a_narrow_page_is_refused():
    with pytest.raises(ar.UsageError, match="pass an integer of at least 60"):
        ar.Report().table(20)


def test_cells_wrap_between_words_and_parts_of_paths():
    table = text_table("t", ("a", "b"), [("/one/two/three", "1.5 us of x")], 20, frozenset())
    assert table.splitlines()[3:] == ["/one/two/  1.5 us of", "three      x"]


def test_a_part_that_is_too_long_keeps_its_end():
    table = text_table("t", ("a",), [("x" * 40 + "END",)], 12, frozenset())
    assert table.splitlines()[-1] == "\u2026" + "x" * 8 + "END"


ROWS = [("\x1b[2J\x07", "\u6f22\u5b57"), ("c\nd", "e")]


def test_what_terminals_obey_is_shown_as_escapes_and_wide_characters_count_twice():
    table = text_table("t", ("a", "b"), ROWS, 60, frozenset({"b"}))
    assert table.splitlines()[3:] == [r"\x1b[2J\x07  " + "\u6f22\u5b57", r"c\nd            e"]


def convolution():
    ops = {"a": ("relax.nn.relu", ("x",)), "b": ("relax.tanh", ("a",)), "c": ("relax.nn.relu", ("b",))}
    return module_of(ops)


def test_each_candidate_is_told_once_and_the_chosen_one_is_marked():
    from tvm.relax.dpl import is_op, wildcard  # noqa: PLC0415 - of this test alone

    pair = is_op("relax.tanh")(is_op("relax.nn.relu")(wildcard()))
    ar.register_pattern("sketch", "sketch.relu_tanh", pair, lambda _match: True)
    ar.register_pattern("sketch", "sketch.relu_tanh_relu", is_op("relax.nn.relu")(pair), lambda _match: True)
    report = ar.explain(convolution(), ["sketch"], prepare=False)
    (function,) = report.functions
    assert function.ops[1].claims == {"sketch": ("relax.tanh", "sketch.relu_tanh", "sketch.relu_tanh_relu")}
    assert (
        report.details()
        .splitlines()[1]
        .endswith("claimed by sketch: tanh, sketch.relu_tanh, sketch.relu_tanh_relu (chosen)")
    )
    (region,) = function.regions
    assert region.composites == ("sketch.relu_tanh_relu",)


def test_neighbours_that_lost_their_regions_are_not_kept_apart():
    """Another target gets all that `sketch` claims; nothing is said of why its regions were two."""
    claim_ops("first", "relax.nn.relu", "relax.add", "relax.tanh", "relax.multiply")
    report = ar.explain(module_of(SIX_OPS), ["first", "pencil"], prepare=False)
    (function,) = report.functions
    assert {each.target for each in function.apart} <= {region.target for region in function.regions}
    assert "pencil: the regions" not in str(report)
