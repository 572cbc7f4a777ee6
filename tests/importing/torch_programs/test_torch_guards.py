"""Guards as text: equations of extents are checked, all else is left out, and nothing is run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

import annotated_region as ar
from annotated_region.importing.equations import Equations
from annotated_region.importing.torch_programs.guards import require_guard_texts

ROWS, COLUMNS = tirx.Var("n", "int64"), tirx.Var("m", "int64")


def guarded(*texts: str) -> tvm.IRModule:
    x = relax.Var("x", relax.TensorType((ROWS, COLUMNS), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(relax.op.negative(x))
        builder.emit_func_output(result)
    mod, equations = builder.get(), Equations()
    require_guard_texts(texts, mod["main"], equations)
    return equations.checked_by(mod)


@pytest.mark.parametrize(
    ("text", "right", "wrong"),
    [
        ("(L['x'].size()[1] // 4) == 2", (1, 11), (1, 12)),
        ("L['x'].size()[0] == 2 * L['x'].size()[1]", (6, 3), (3, 3)),
        ("L['x'].size()[0] + -1 * L['x'].size()[1] == 2", (5, 3), (3, 3)),
        ("(L['x'].size()[1] % 4) == 0", (1, 8), (1, 9)),
        ("(L['k']['x'].size()[1] % 4) == 0", (1, 8), (1, 9)),
        ("math.trunc(L['x'].size()[1] / 4) == 2", (1, 11), (1, 12)),
        ("math.ceil((1 + L['x'].size()[0]) / 2) == 3", (5, 1), (6, 1)),
    ],
)
def test_an_equation_is_checked(text: str, right: tuple[int, int], wrong: tuple[int, int]) -> None:
    run = relax.VirtualMachine(ar.build(guarded(text)), tvm.cpu())["main"]
    data = np.ones(right, "float32")
    np.testing.assert_array_equal(run(tvm.runtime.tensor(data)).numpy(), -data)
    with pytest.raises(
        ValueError, match="is called with inputs of extents for which its model is not defined"
    ):
        run(tvm.runtime.tensor(np.ones(wrong, "float32")))


@pytest.mark.parametrize(
    "text",
    [
        "L['x'].size()[1] >= 4",
        "L['x'].size()[0] + -1 * ((1 + L['x'].size()[0]) // 2) == 1",
        "L['other'].size()[0] == 2",
        "L['x'].size()[7] == 2",
        "L['x'].stride()[0] == 2",
        "M['x'].size()[0] == 2",
        "L.size()[0] == 2",
        "__import__('pathlib').Path('canary').touch() == 1",
        "(lambda: 2)() == 2",
        "L['x'].size()[0] ** 99 == 2",
        "True == L['x'].size()[0]",
        "L['x'].size(",
        "(" * 900,
        "1 == " + "1 + " * 400 + "1",
    ],
)
def test_what_is_no_equation_of_extents_is_left_out(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mod = guarded(text)
    run = relax.VirtualMachine(ar.build(mod), tvm.cpu())["main"]
    for shape in ((3, 5), (2, 1)):
        run(tvm.runtime.tensor(np.ones(shape, "float32")))
    assert not list(tmp_path.iterdir())
