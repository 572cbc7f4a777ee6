"""Locks as text: written locks are read back, and invalid ones give one error that names the line."""

import pytest
from kits.sample_reports import sample_report

import annotated_region as ar
from annotated_region.locking.locked_ops import LockedFunction, LockedOp
from annotated_region.locking.text_form import LONGEST_LOCK

TEXT = """annotated-region lock 1
target dnnl onednn-cpu-gomp-2023.2.0
target onnxruntime onnxruntime-1.32.0

function main cost 0.00012 bound 0.0001
op /layer1/conv/Conv relax.nn.conv2d 5a0c2f11.90b8e3d4 dnnl/0 dnnl.conv2d_relu#3fa2c1
op /layer1/relu/Relu relax.nn.relu 0c11d2aa.7712f00e dnnl/0 dnnl.conv2d_relu#3fa2c1
op "a \\"b\\" \\u00e9" "relax.call_tir(x y)" 00000000.11111111 onnxruntime/1
op head relax.topk 77aa01bc.d00f1e22 host "declined by dnnl: no rule for relax.topk"

function other
op x relax.sin 00000000.22222222 host
"""


def test_the_text_that_is_read_is_the_text_that_is_written():
    lock = ar.Lock.from_text(TEXT)
    assert str(lock) == TEXT
    assert lock.targets == {"dnnl": "onednn-cpu-gomp-2023.2.0", "onnxruntime": "onnxruntime-1.32.0"}
    main, other = lock.functions
    assert (main.cost, main.lower_bound, other.cost) == (0.00012, 0.0001, None)
    assert main.ops[2] == LockedOp(
        'a "b" \u00e9', "relax.call_tir(x y)", "00000000", "11111111", "onnxruntime", 1
    )
    assert main.ops[0].pattern == "dnnl.conv2d_relu"
    assert main.ops[3].reason.startswith("declined by dnnl")


def test_a_lock_of_a_report_is_read_as_it_was(tmp_path):
    lock = sample_report().to_lock()
    assert ar.Lock.from_text(str(lock)) == lock
    lock.write(tmp_path / "placement.lock")
    assert ar.Lock.read(tmp_path / "placement.lock") == lock
    assert (tmp_path / "placement.lock").read_text() == str(lock)


@pytest.mark.parametrize(
    "name", ['"', "\\", "a b", "#", "", "\n", "\x1b[31m", "\u202e", "<<<<<<<", "host", "é"]
)
def test_any_name_is_a_line_of_ascii_that_is_read_again(name):
    op = LockedOp(name, name, "01234567", "89abcdef", "t", 0, f"{name}p#012345")
    lock = ar.Lock({name: name}, (LockedFunction(name, (op,)),))
    text = str(lock)
    assert text.isascii()
    assert text.count("\n") == 5
    assert all(character.isprintable() or character == "\n" for character in text)
    assert ar.Lock.from_text(text) == lock


def test_comments_and_blank_lines_are_passed_over():
    assert ar.Lock.from_text(TEXT.replace("\nfunction", "\n# by hand\n\n  function")) == ar.Lock.from_text(
        TEXT
    )


LINE = "op head relax.topk 77aa01bc.d00f1e22 host"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("lock 1", "lock 2", "^this version cannot read the lock: its first line is not"),
        ("target dnnl", "target", "line 2: 'target onednn.*' is neither a target, nor a function, nor an op"),
        ("cost 0.00012", "cost nan", "line 5: 'nan' is not a number of seconds"),
        ("cost 0.00012", "cost -1", "line 5: '-1' is not a number of seconds"),
        (
            "cost 0.00012 bound 0.0001",
            "cost",
            "line 5: the name of a function may only be followed by 'cost' and 'bound'",
        ),
        ("function main", "op main", "line 5: an op is before the first function"),
        ("function other", "function main", "line 11: the function 'main' is already in the lock"),
        (
            "head relax",
            "/layer1/relu/Relu relax",
            "line 9: the op '/layer1/relu/Relu' is also in line 7",
        ),
        ("onnxruntime/1", "onnxruntime/0", "line 8: region 0 belongs to 'dnnl' in an earlier line"),
        ("onnxruntime/1", "host/1", "line 8: 'host/1' is not a place; write 'host', or a target and region"),
        ("onnxruntime/1", "onnxruntime", "line 8: 'onnxruntime' is not a place"),
        ("onnxruntime/1", "onnxruntime/1234567890", "line 8: .* is not a place"),
        ("77aa01bc", "77AA01BC", "line 9: '77AA01BC.d00f1e22' is not a pair of fingerprints"),
        ("#3fa2c1", "", "line 6: a region may only be followed by a composite"),
        (
            LINE,
            f"<<<<<<< ours\n{LINE}",
            "line 9: a merge conflict is not resolved; keep one of the two sides",
        ),
        (LINE, f"{LINE} x", "line 9: 'host' must be followed by one string, the reason"),
        (LINE, f'{LINE} "', "line 9: invalid syntax at"),
        (LINE, LINE.replace("head", 'he"ad"'), "line 9: invalid syntax at"),
        (LINE, LINE.replace("head", '"\\ud800"'), "line 9: .* cannot be encoded in UTF-8"),
        (LINE, LINE.replace("head", '"\\x"'), "line 9: .* is not a JSON string"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(old, new, message):
    with pytest.raises(ar.DocumentError, match=message):
        ar.Lock.from_text(TEXT.replace(old, new, 1))


def test_an_op_before_the_first_function_is_refused():
    with pytest.raises(ar.DocumentError, match="line 2: an op is before the first function"):
        ar.Lock.from_text(f"annotated-region lock 1\n{LINE}")


def test_what_is_no_lock_is_one_error(tmp_path):
    for text in ("", "{}", "x" * 100):
        with pytest.raises(ar.DocumentError, match="its first line is not"):
            ar.Lock.from_text(text)
    with pytest.raises(ar.DocumentError, match="longer than the limit"):
        ar.Lock.from_text(" " * (LONGEST_LOCK + 1))
    with pytest.raises(ar.UsageError, match="the argument text is"):
        ar.Lock.from_text(b"")  # type: ignore[arg-type]
    (tmp_path / "bytes").write_bytes(b"\xff")
    with pytest.raises(ar.DocumentError, match="not UTF-8 text"):
        ar.Lock.read(tmp_path / "bytes")
    with pytest.raises(ar.ModelError, match="cannot be read"):
        ar.Lock.read(tmp_path / "absent")
    with pytest.raises(ar.ModelError, match="it is a folder"):
        ar.Lock.read(tmp_path)
