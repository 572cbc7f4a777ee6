"""Sequences of a known length are tuples of tensors: ONNX Runtime's numbers, and what is declined."""

import numpy as np
import onnx
import pytest
from kits.importing.onnx_texts import HEAD, run

import annotated_region as ar
from annotated_region.errors import ModelError


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).standard_normal(shape).astype("float32")


SEQUENCES = {
    "parts of a length that divides": "s = SplitToSequence<axis = 1>(x, two) y = SequenceAt(s, one)",
    "a shorter last part": "s = SplitToSequence<axis = 1>(x, four) y = SequenceAt(s, one)",
    "a longer first part": "s = SplitToSequence<axis = 1>(x, four) y = SequenceAt(s, zero)",
    "parts of given lengths": "s = SplitToSequence<axis = 1>(x, lengths) y = SequenceAt(s, last)",
    "one part": "s = SplitToSequence<axis = 1>(x, nine) t = SequenceAt(s, zero) y = Relu(t)",
    "rows": "s = SplitToSequence<axis = 1, keepdims = 0>(x) t = SequenceAt(s, last) y = Unsqueeze(t, zeros)",
    "joined": "r = Relu(x) s = SequenceConstruct(x, r) y = ConcatFromSequence<axis = 1>(s)",
    "stacked": """r = Relu(x) s = SequenceConstruct(x, r) t = ConcatFromSequence<axis = -1, new_axis = 1>(s)
        y = ReduceSum<keepdims = 0>(t, two_at)""",
    "inserted": """s = SplitToSequence<axis = 1>(x, two) a = SequenceAt(s, one) r = Relu(a)
        t = SequenceInsert(s, r, zero) u = SequenceErase(t) y = ConcatFromSequence<axis = 1>(u)""",
    "from nothing": """e = SequenceEmpty() s = SequenceInsert(e, x) r = Relu(x) t = SequenceInsert(s, r)
        u = SequenceErase(t, zero) y = SequenceAt(u, zero)""",
    "inserted before the last one": """s = SplitToSequence<axis = 1>(x, two) a = SequenceAt(s, one)
        r = Relu(a) t = SequenceInsert(s, r, last) y = ConcatFromSequence<axis = 1>(t)""",
    "counted": """s = SplitToSequence<axis = 1>(x, two) c = SequenceLength(s) f = Cast<to = 1>(c)
        y = Mul(x, f)""",
}
TEXT = """(float[n, 6] x) => (float[n, k] y)
    <int64 zero = {{0}}, int64 one = {{1}}, int64 two = {{2}}, int64 four = {{4}}, int64 nine = {{9}},
     int64 last = {{-1}}, int64[3] lengths = {{1, 2, 3}}, int64[1] zeros = {{1}}, int64[2] none = {{0, 6}},
     int64[3] huge = {{9223372036854775807, 9223372036854775807, 8}}, int64 before = {{-4}},
     int64[1] two_at = {{2}}>
    {{ {} }}"""


@pytest.mark.sweep
@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences_are_those_of_onnx_runtime(name: str) -> None:
    run(TEXT.format(SEQUENCES[name]), ["onnxruntime"], (numbers(2, 6),), (numbers(1, 6),))


DECLINED = {
    "splits an axis of unknown extent": "s = SplitToSequence<axis = 0>(x, two) y = SequenceAt(s, zero)",
    "has an input 1 of unknown shape": """i = Shape(x) c = Gather(i, zero) s = SplitToSequence<axis = 1>(x, c)
        y = SequenceAt(s, zero)""",
    r"splits 6 elements into parts of \[2\]": """s = SplitToSequence<axis = 1>(x, two_at)
        y = SequenceAt(s, zero)""",
    r"splits 6 elements into parts of \[0, 6\]; each needs one": """s = SplitToSequence<axis = 1>(x, none)
        y = SequenceAt(s, one)""",
    r"splits 6 elements into parts of \[9223372036854775807, 9223372036854775807, 8\]": """
        s = SplitToSequence<axis = 1>(x, huge) y = SequenceAt(s, one)""",
    "has the place -4 in a sequence of 3": """s = SplitToSequence<axis = 1>(x, two) r = Relu(x)
        t = SequenceInsert(s, r, before) y = SequenceAt(t, one)""",
    "has the place 9 in a sequence of 3": "s = SplitToSequence<axis = 1>(x, two) y = SequenceAt(s, nine)",
    "has a place in a sequence that is not constant": """s = SplitToSequence<axis = 1>(x, two) i = Shape(x)
        c = Gather(i, zero) y = SequenceAt(s, c)""",
    "joins a sequence without tensors": "e = SequenceEmpty() y = ConcatFromSequence<axis = 0>(e)",
}


@pytest.mark.parametrize("message", DECLINED)
def test_sequences_that_are_declined(message: str) -> None:
    with pytest.raises(ModelError, match=message):
        ar.from_onnx(onnx.parser.parse_model(HEAD + TEXT.format(DECLINED[message])))


def test_a_sequence_of_very_many_parts_is_declined() -> None:
    text = "(float[1048576] x) => (int64 y) { s = SplitToSequence(x) y = SequenceLength(s) }"
    with pytest.raises(ModelError, match="splits into 1048576 parts; at most 4096"):
        ar.from_onnx(onnx.parser.parse_model(HEAD + text))
