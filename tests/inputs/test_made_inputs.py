"""Made inputs fit what each parameter is used for; given ones are read without running anything."""

from __future__ import annotations

import pickle

import ml_dtypes
import numpy as np
import pytest
from tvm.script import ir as I
from tvm.script import relax as R

import annotated_region as ar
from annotated_region.inputs import arguments_for, read_arrays, write_arrays


@I.ir_module
class Uses:
    @R.function
    def main(
        ids: R.Tensor((2, 16), "int64"),
        seen: R.Tensor((2, 16), "int64"),
        count: R.Tensor((1,), "int64"),
        table: R.Tensor((7, 4), "float32"),
        kept: R.Tensor((2, 16), "bool"),
        root: R.Tensor((4,), "float32"),
        step: R.Tensor((2, 16), "int8"),
    ) -> R.Tuple:
        with R.dataflow():
            flat = R.reshape(ids, (32,))
            shifted = R.add(flat, R.const(7, "int64"))
            below = R.less(flat, R.const(0, "int64"))
            index = R.where(below, shifted, flat)
            rows = R.take(table, index, axis=0)
            mask = R.astype(seen, "float32")
            unseen = R.subtract(R.const(1.0, "float32"), mask)
            far = R.multiply(unseen, R.const(-1e9, "float32"))
            places = R.arange(0, 12, 1, "int64")
            short = R.less(places, count)
            rooted = R.sqrt(root)
            wide = R.astype(step, "int32")
            R.output(rows, far, short, rooted, wide)
        return (rows, far, short, rooted, wide)


def made(seed=0):
    return arguments_for(Uses["main"], seed=seed)


def test_values_fit_their_uses():
    arrays = made().arrays
    assert arrays["ids"].min() >= 0
    assert arrays["ids"].max() == 6
    assert set(np.unique(arrays["seen"])) == {0, 1}
    assert arrays["seen"][:, 0].all()
    assert 1 <= arrays["count"][0] <= 12
    assert arrays["table"].min() < 0
    assert arrays["kept"].dtype == bool
    assert arrays["root"].min() >= 0.5
    assert arrays["step"].min() < -64


def test_what_was_made_is_said():
    assert made().made[:3] == (
        "ids int64[2, 16]: indices from 0 to 6",
        "seen int64[2, 16]: booleans, four of five true",
        "count int64[1]: lengths from 1 to 12",
    )


def test_the_same_seed_makes_the_same_values():
    same, other = made(), made(seed=1)
    assert all(np.array_equal(made().arrays[name], array) for name, array in same.arrays.items())
    assert not np.array_equal(other.arrays["table"], same.arrays["table"])


def test_arrays_come_back_as_they_were_written(tmp_path):
    arrays = {"file": np.arange(3), "a/b": np.ones((0, 2), "float16"), "allow_pickle": np.asarray(True)}
    for name in ("one.npz", "two.npz"):
        write_arrays(tmp_path / name, arrays)
    read = read_arrays(tmp_path / "one.npz")
    assert list(read) == list(arrays)
    assert all(np.array_equal(read[name], array) for name, array in arrays.items())
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()


class Canary:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was run",))


@pytest.mark.parametrize("kind", ["array of objects", "pickle", "text", "cut", "missing", "folder"])
def test_files_that_are_no_arrays_are_refused(tmp_path, kind):
    file = tmp_path / "x.npz"
    if kind == "array of objects":
        np.savez(file, x=np.asarray([Canary()], dtype=object))
    elif kind == "pickle":
        file.write_bytes(pickle.dumps({"x": 1}))
    elif kind == "text":
        file.write_text("x = 1")
    elif kind == "cut":
        write_arrays(file, {"x": np.ones(1000)})
        file.write_bytes(file.read_bytes()[:700])
    elif kind == "folder":
        file.mkdir()
    message = {
        "array of objects": "holds pickled objects, which run code",
        "missing": "is not a readable file",
        "folder": "is not a readable file",
    }.get(kind, r"is not an \.npz file")
    with pytest.raises(ar.ModelError, match=message):
        read_arrays(file)


def test_bfloat16_comes_back_from_a_file(tmp_path):
    @I.ir_module
    class Brain:
        @R.function
        def main(x: R.Tensor((2,), "bfloat16")) -> R.Tensor((2,), "bfloat16"):
            with R.dataflow():
                y = R.nn.relu(x)
                R.output(y)
            return y

    write_arrays(tmp_path / "x.npz", {"x": np.asarray([1.5, -2.0], ml_dtypes.bfloat16)})
    arrays = arguments_for(Brain["main"], read_arrays(tmp_path / "x.npz")).arrays
    assert arrays["x"].dtype == ml_dtypes.bfloat16
    assert arrays["x"].astype("float32").tolist() == [1.5, -2.0]
