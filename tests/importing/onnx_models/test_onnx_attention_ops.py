"""ONNX Runtime's operators of attention: its numbers, over masks, pasts, windows, packings and positions."""

from typing import Any

import numpy as np
import pytest
import tvm
from kits.onnx_nodes import CONTRIBUTED, Node, by_onnx_runtime, by_tvm, compared, model_of_nodes
from tvm import relax

import annotated_region as ar
from annotated_region.backends.dnnl import installation
from annotated_region.errors import ModelError

CLOSE = 3e-6
BATCH, WORDS, HEADS, SIZE, PAST = 2, 4, 2, 8, 3
KEYS = PAST + WORDS


def numbers(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype("float32")


def close(op, given, names, outputs="y", constants=(), **attributes):
    """The largest difference from ONNX Runtime; `names` of inputs in the order of the operator."""
    node = Node(op, names, outputs, CONTRIBUTED, **attributes)
    inputs = {name: array for name, array in given.items() if name not in constants}
    held = {name: given[name] for name in constants}
    model = model_of_nodes([node], inputs, held, " ".join(o for o in outputs.split() if o != "-"))
    return max(compared(model, inputs))


MASKS = {
    "keys": np.array([[1, 1, 0, 1], [0, 1, 1, 0]], "int32"),
    "queries and keys": np.array(np.random.default_rng(7).random((2, 4, 4)) > 0.4, "int32"),
    "lengths": np.array([3, 4], "int32"),
    "nothing is seen": np.array([[0, 0, 0, 0], [1, 1, 1, 1]], "int32"),
}
WITH_PAST = np.array([[1, 1, 0, 1, 1, 1, 0], [0, 1, 1, 1, 1, 0, 1]], "int32")

ATTENTION: dict[str, tuple[dict[str, np.ndarray], str, dict[str, Any]]] = {
    "plain": ({}, "x w b", {}),
    "without a bias": ({}, "x w", {}),
    "causal": ({}, "x w b", {"unidirectional": 1}),
    "scaled": ({}, "x w b", {"scale": 0.3}),
    "values of another size": (
        {"w": numbers(16, 40) / 4, "b": numbers(40)}, "x w b", {"qkv_hidden_sizes": [16, 16, 8]}
    ),
    "bias of scores": ({"a": numbers(1, HEADS, WORDS, WORDS)}, "x w b - - a", {}),
    "begins and ends": ({"m": np.array([3, 4, 1, 0], "int32")}, "x w b m", {}),
    "another value for padding": ({"m": MASKS["keys"]}, "x w b m", {"mask_filter_value": -3.5}),
    **{f"masked by {name}": ({"m": mask}, "x w b m", {}) for name, mask in MASKS.items()},
    **{f"causal, by {name}": ({"m": mask}, "x w b m", {"unidirectional": 1}) for name, mask in MASKS.items()},
}  # fmt: skip


@pytest.mark.sweep
@pytest.mark.parametrize("name", ATTENTION)
def test_attention(name):
    more, names, attributes = ATTENTION[name]
    given = {"x": numbers(BATCH, WORDS, 16), "w": numbers(16, 48) / 4, "b": numbers(48)} | more
    given = {each: given[each] for each in names.split() if each != "-"}
    constants = [each for each in "wb" if each in given]
    assert close("Attention", given, names, "y", constants, num_heads=HEADS, **attributes) <= CLOSE


@pytest.mark.parametrize("mask", [None, "keys"])
@pytest.mark.parametrize("causal", [0, 1])
def test_attention_continues_a_past(mask, causal):
    given = {"x": numbers(BATCH, WORDS, 16), "w": numbers(16, 48) / 4, "b": numbers(48)}
    given["p"] = numbers(2, BATCH, HEADS, PAST, SIZE)
    if mask:
        given["m"] = WITH_PAST
    names = f"x w b {'m' if mask else '-'} p"
    more = {"num_heads": HEADS, "unidirectional": causal}
    assert close("Attention", given, names, "y z", ("w", "b"), **more) <= CLOSE


def operands(length=WORDS):
    return {name: numbers(BATCH, length, HEADS * SIZE, seed=ord(name)) for name in "qkv"}


MANY = {
    "plain": ({}, "q k v"),
    "with biases": ({"b": numbers(3 * HEADS * SIZE)}, "q k v b"),
    "bias of scores": ({"a": numbers(BATCH, 1, WORDS, WORDS)}, "q k v - - a"),
    "values of another size": ({"v": numbers(BATCH, WORDS, HEADS * 4)}, "q k v"),
    "computed before": (
        {"k": numbers(BATCH, HEADS, 6, SIZE), "v": numbers(BATCH, HEADS, 6, SIZE, seed=1)}, "q k v"
    ),
    "computed before, with biases": (
        {
            "k": numbers(BATCH, HEADS, 6, SIZE),
            "v": numbers(BATCH, HEADS, 6, SIZE, seed=1),
            "b": numbers(3 * HEADS * SIZE),
        },
        "q k v b",
    ),
    "other words": (
        {"k": numbers(BATCH, 6, HEADS * SIZE), "v": numbers(BATCH, 6, HEADS * SIZE, seed=1)}, "q k v"
    ),
    **{f"masked by {name}": ({"m": mask}, "q k v - m") for name, mask in MASKS.items()},
}  # fmt: skip


OTHER_WORDS = ("computed before", "computed before, with biases", "other words")
CAUSAL = [(name, causal) for name in MANY for causal in (0, 1) if not (causal and name in OTHER_WORDS)]


@pytest.mark.sweep
@pytest.mark.parametrize(("name", "causal"), CAUSAL)
def test_attention_of_many_heads(name, causal):
    more, names = MANY[name]
    given = operands() | more
    attributes = {"num_heads": HEADS, "unidirectional": causal}
    assert close("MultiHeadAttention", given, names, "y u w", **attributes) <= CLOSE


@pytest.mark.parametrize("causal", [0, 1])
def test_many_heads_continue_a_past(causal):
    past = {name: numbers(BATCH, HEADS, PAST, SIZE, seed=ord(name)) for name in "st"}
    given = operands() | past | {"m": WITH_PAST, "a": numbers(1, HEADS, WORDS, KEYS)}
    more = {"num_heads": HEADS, "unidirectional": causal, "scale": 0.2}
    assert close("MultiHeadAttention", given, "q k v - m a s t", "y u w", **more) <= CLOSE


@pytest.mark.parametrize("parts", [2, 3])
def test_packed_heads_are_those_side_by_side(parts):
    """ONNX Runtime has no such kernel for processors; what is packed is the same as what is apart."""
    packed = numbers(BATCH, WORDS, HEADS, parts, SIZE)
    apart = [packed[:, :, :, at].reshape(BATCH, WORDS, -1) for at in range(parts)]
    query = numbers(BATCH, WORDS, HEADS * SIZE)
    given = dict(zip("qkv", apart if parts == 3 else [query, *apart], strict=True))
    whole = model_of_nodes(
        [Node("MultiHeadAttention", "q k v", "y", CONTRIBUTED, num_heads=HEADS)], given, {}
    )
    inputs = {"q": packed} if parts == 3 else {"q": query, "p": packed}
    names = " ".join(inputs)
    one = model_of_nodes([Node("MultiHeadAttention", names, "y", CONTRIBUTED, num_heads=HEADS)], inputs, {})
    expected, found = by_onnx_runtime(whole, given)[0], by_tvm(ar.from_onnx(one), inputs)[0]
    assert np.abs(expected - found).max() <= CLOSE


POSITIONS = {
    "each": np.array([[3, 0, 1, 7], [2, 2, 5, 4]], "int64"),
    "the first": np.array([2], "int64"),
}
TURNS = [{}, {"interleaved": 1}, {"num_heads": HEADS, "rotary_embedding_dim": 4}]


@pytest.mark.parametrize("attributes", TURNS)
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("rank", [3, 4])
def test_rotary_positions(rank, positions, attributes):
    shape = (BATCH, WORDS, HEADS * SIZE) if rank == 3 else (BATCH, HEADS, WORDS, SIZE)
    half = attributes.get("rotary_embedding_dim", SIZE) // 2
    given = {
        "q": numbers(*shape),
        "p": POSITIONS[positions],
        "c": numbers(16, half),
        "s": numbers(16, half, seed=1),
    }
    assert close("RotaryEmbedding", given, "q p c s", constants=("c", "s"), **attributes) <= CLOSE


GROUPS = {"num_heads": 4, "kv_num_heads": 2}
WIDE = 16  # ONNX Runtime turns heads of multiples of 16


def grouped(batch, words, past, lengths, packed=False, **more):
    """Inputs by their names in the schema."""
    widths = {"query": 4 * WIDE, "key": 2 * WIDE, "value": 2 * WIDE}
    given = {name: numbers(batch, words, width, seed=ord(name[0])) for name, width in widths.items()}
    if packed:
        given = {"query": np.concatenate(list(given.values()), axis=2)}
    if past is not None:
        given |= {
            name: numbers(batch, 2, past, WIDE, seed=ord(name[-1])) for name in ("past_key", "past_value")
        }
    given["seqlens_k"] = np.array([length - 1 for length in lengths], "int32")
    given["total_sequence_length"] = np.array(max(lengths), "int32")
    return given | more


ORDER = [
    *("query", "key", "value", "past_key", "past_value", "seqlens_k", "total_sequence_length"),
    *("cos_cache", "sin_cache", "position_ids", "attention_bias", "head_sink"),
]
ANGLES = {"cos_cache": numbers(32, WIDE // 2), "sin_cache": numbers(32, WIDE // 2, seed=1)}

GROUPED: dict[str, tuple[dict[str, np.ndarray], dict[str, Any]]] = {
    "first words": (grouped(2, 4, 0, [4, 4]), {}),
    "first words without a cache": (grouped(2, 4, None, [4, 4]), {}),
    "packed": (grouped(2, 4, 0, [4, 4], packed=True), {}),
    "first words of two lengths": (grouped(2, 4, 0, [4, 2]), {}),
    "the next word": (grouped(2, 1, 5, [6, 6]), {}),
    "the next word, packed": (grouped(2, 1, 5, [6, 6], packed=True), {}),
    "the next word of two lengths": (grouped(2, 1, 5, [6, 3]), {}),
    "several more words": (grouped(1, 4, 5, [9]), {}),
    "a window over first words": (grouped(2, 4, 0, [4, 4]), {"local_window_size": 2}),
    "a window over a cache": (grouped(2, 1, 5, [6, 4]), {"local_window_size": 3}),
    "softly capped": (grouped(2, 4, 0, [4, 4]), {"softcap": 1.5}),
    "scaled": (grouped(2, 4, 0, [4, 4]), {"scale": 0.4}),
    "a smooth softmax": (grouped(2, 4, 0, [4, 4]), {"smooth_softmax": 1}),
    "sinks": (grouped(2, 4, 0, [4, 4], head_sink=numbers(4)), {}),
    "sinks and a window": (grouped(2, 1, 5, [6, 4], head_sink=numbers(4)), {"local_window_size": 3}),
    "a bias of scores": (grouped(2, 1, 5, [6, 6], attention_bias=numbers(2, 4, 1, 6)), {}),
    "a bias, capped": (grouped(2, 4, 0, [4, 4], attention_bias=numbers(1, 1, 4, 4)), {"softcap": 1.5}),
    "turned": (grouped(2, 4, 0, [4, 4], **ANGLES), {"do_rotary": 1}),
    "turned in pairs": (grouped(2, 4, 0, [4, 4], **ANGLES), {"do_rotary": 1, "rotary_interleaved": 1}),
    "turned next word": (grouped(2, 1, 5, [6, 3], **ANGLES), {"do_rotary": 1}),
    "several turned words": (grouped(1, 4, 5, [9], packed=True, **ANGLES), {"do_rotary": 1}),
    "turned at given places": (
        grouped(2, 1, 5, [6, 3], **ANGLES, position_ids=np.array([[7], [1]])), {"do_rotary": 1}
    ),
    "two lengths, turned": (grouped(2, 4, 0, [4, 2], **ANGLES), {"do_rotary": 1}),
}  # fmt: skip


@pytest.mark.sweep
@pytest.mark.parametrize("name", GROUPED)
def test_grouped_attention(name):
    given, attributes = GROUPED[name]
    node = Node(
        "GroupQueryAttention",
        " ".join(each if each in given else "-" for each in ORDER),
        "y k v",
        CONTRIBUTED,
        **GROUPS,
        **attributes,
    )
    # A sequence that is shorter has answers and rows of no account behind its words.
    words = given["query"].shape[1]
    lengths = given["seqlens_k"] + 1
    model = model_of_nodes([node], given, {}, "y k v")
    # TVM takes an extent of 0 in a model for one that is not known.
    known = {name: list(array.shape) for name, array in given.items()}
    expected, found = by_onnx_runtime(model, given), by_tvm(ar.from_onnx(model, shape_dict=known), given)
    assert [each.shape for each in found] == [each.shape for each in expected]
    for place, length in enumerate(lengths):
        seen = min(length, words)
        assert np.abs(found[0][place, :seen] - expected[0][place, :seen]).max() <= CLOSE
        for left, right in zip(found[1:], expected[1:], strict=True):
            assert np.abs(left[place, :, :length] - right[place, :, :length]).max() <= CLOSE


def test_grouped_attention_of_a_cache_with_rows_to_spare():
    """ONNX Runtime keeps the rows of such a cache; here there is room for the new ones besides."""
    given = grouped(2, 1, 9, [6, 3], **ANGLES)
    names = " ".join(each if each in given else "-" for each in ORDER)
    node = Node("GroupQueryAttention", names, "y k v", CONTRIBUTED, **GROUPS, do_rotary=1)
    model = model_of_nodes([node], given, {}, "y k v")
    expected, found = by_onnx_runtime(model, given), by_tvm(ar.from_onnx(model), given)
    assert np.abs(found[0] - expected[0]).max() <= CLOSE
    for place, length in enumerate([6, 3]):
        for left, right in zip(found[1:], expected[1:], strict=True):
            assert np.abs(left[place, :, :length] - right[place, :, :length]).max() <= CLOSE


@pytest.mark.parametrize("target", ["onnxruntime", "dnnl"])
def test_any_batch_and_cache_is_one_region(target):
    if target == "dnnl" and installation.unavailable() is not None:
        pytest.skip(str(installation.unavailable()))
    calls = [
        grouped(2, 1, 5, [6, 3], **ANGLES),
        grouped(1, 1, 8, [9], **ANGLES),
        grouped(3, 1, 2, [3, 3, 2], **ANGLES),
        grouped(2, 1, 0, [1, 1], **ANGLES),
    ]
    names = " ".join(each if each in calls[0] else "-" for each in ORDER)
    node = Node(
        "GroupQueryAttention", names, "y k v", CONTRIBUTED, **GROUPS, do_rotary=1, local_window_size=4
    )
    tables = {name: calls[0].pop(name) for name in ANGLES}
    model = model_of_nodes([node], calls[0], tables, "y k v")
    for info in model.graph.input:
        extents = info.type.tensor_type.shape.dim
        if extents:
            extents[0].dim_param = "batch"
        if info.name.startswith("past"):
            extents[2].dim_param = "past"
    module = ar.from_onnx(model)
    report = ar.explain(module, [target])
    assert [len(function.regions) for function in report.functions] == [1], report.details()
    host = [op.op for function in report.functions for op in function.ops if op.placed == "host"]
    assert host == ([] if target == "onnxruntime" else ["relax.arange"] * len(host)), report.details()
    partitioned = ar.partition(module, [target])
    machine = relax.VirtualMachine(ar.build(partitioned).jit(), tvm.cpu())
    for call in calls:
        given = {name: array for name, array in call.items() if name not in ANGLES}
        expected = by_onnx_runtime(model, given)
        found = [
            each.numpy() for each in machine["main"](*(tvm.runtime.tensor(each) for each in given.values()))
        ]
        assert np.abs(found[0] - expected[0]).max() <= CLOSE
        for place, last in enumerate(given["seqlens_k"]):
            for left, right in zip(found[1:], expected[1:], strict=True):
                assert np.abs(left[place, :, : last + 1] - right[place, :, : last + 1]).max() <= CLOSE


CACHES = {
    "GroupQueryAttention": (grouped(2, 1, 5, [6, 6]), " ".join(ORDER[:7]), GROUPS),
    "MultiHeadAttention": (
        {name: numbers(2, 3, 2 * WIDE, seed=place) for place, name in enumerate("qkv")}
        | {name: numbers(2, 2, 5, WIDE) for name in ("past_key", "past_value")},
        "q k v - - - past_key past_value",
        {"num_heads": 2},
    ),
}


@pytest.mark.parametrize("op", CACHES)
def test_the_head_size_of_a_cache_may_be_symbolic(op):
    given, names, attributes = CACHES[op]
    model = model_of_nodes([Node(op, names, "y k2 v2", CONTRIBUTED, **attributes)], given, {}, "y k2 v2")
    expected = by_onnx_runtime(model, given)
    for info in model.graph.input:
        if info.name.startswith("past"):
            info.type.tensor_type.shape.dim[3].dim_param = "size"
    module = ar.from_onnx(model)
    for left, right in zip(by_tvm(module, given), expected, strict=True):
        assert np.abs(left - right).max() <= CLOSE
    with pytest.raises(RuntimeError, match="match_cast error"):
        by_tvm(module, given | {name: numbers(2, 2, 5, 8) for name in ("past_key", "past_value")})


DECLINED = [
    ("Attention", "x w b", {"do_rotary": 1}, "the attribute 'do_rotary' of 1"),
    ("Attention", "x w b", {"qkv_hidden_sizes": [16, 8, 24]}, r"of sizes \(16, 8, 24\)"),
    ("Attention", "x w b", {"num_heads": 3}, "a projection whose rows are not those of 3 heads"),
    ("Attention", "x w b o", {}, "an input 3 of 3 lengths for a batch of 2"),
    ("MultiHeadAttention", "x f f", {"unidirectional": 1}, "is causal over 6 keys, with 4 queries"),
    ("MultiHeadAttention", "x x", {}, "lacks its input 2"),
    ("MultiHeadAttention", "x x x - e", {}, "an input 4 for 5 keys; there are 4"),
    ("MultiHeadAttention", "x x x o", {}, "an input 3 of type int32"),
    ("GroupQueryAttention", "x x x - - l t", {"kv_num_heads": 3}, "an input 1 whose rows are not those of 3"),
    ("GroupQueryAttention", "x x x h h l t", {}, r"an input 3 .* \(2, 3, 4, 8\); .* \(2, 2, 4, 8\)"),
    ("GroupQueryAttention", "x x x - - l t", {"local_window_size": 0}, "'local_window_size' of 0"),
    ("GroupQueryAttention", "x x x - - l t", {"k_quant_type": "PER"}, "'k_quant_type' of 'PER'"),
    ("GroupQueryAttention", "x x x - - l t", {"do_rotary": 1}, "lacks its input 7"),
    ("GroupQueryAttention", "x x x - - l t c c i", {"do_rotary": 1}, "'position_ids' for 4 words"),
    ("RotaryEmbedding", "x l c c", {"num_heads": 0}, "an input 1 of type int32"),
    ("RotaryEmbedding", "x o c c", {"scale": 2.0, "num_heads": 0}, "an attribute 'scale' that is not 1"),
]  # fmt: skip
GIVEN = {
    "x": numbers(2, 4, 16),
    "f": numbers(2, 6, 16),
    "w": numbers(16, 48) / 4,
    "b": numbers(48),
    "c": numbers(9, 4),
    "o": np.zeros(3, "int32"),
    "e": np.zeros((2, 5), "int32"),
    "h": numbers(2, 3, 4, 8),
    "l": np.zeros(2, "int32"),
    "i": np.zeros((2, 4), "int64"),
    "t": np.array(4, "int32"),
}


@pytest.mark.parametrize(("op", "names", "attributes", "message"), DECLINED)
def test_what_is_declined(op, names, attributes, message):
    used = dict.fromkeys(name for name in names.split() if name != "-")
    needed = {"GroupQueryAttention": {"num_heads": 2, "kv_num_heads": 2}}.get(op, {"num_heads": 2})
    node = Node(op, names, "y", CONTRIBUTED, **(needed | attributes))
    with pytest.raises(ModelError, match=message):
        ar.from_onnx(model_of_nodes([node], {name: GIVEN[name] for name in used}, {}))
