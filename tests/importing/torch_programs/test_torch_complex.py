"""Complex numbers and spectra inside of programs, whose inputs and results are real: PyTorch's numbers."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import needs_onednn, ops_on_host
from tvm import relax

import annotated_region as ar

# PyTorch warns of its own use of its own code.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

TARGETS = ["", pytest.param("dnnl", marks=needs_onednn), "onnxruntime"]
SYMBOLIC = (
    "rotary positions",
    "rotary positions that are computed",
    "products",
    "sums",
    "parts and sizes",
    "spectra along an axis of any length",
)
OF_DOUBLES = "spectra of float64"
"""What dnnl leaves to the host: it has no arithmetic of double precision."""

REFUSALS = {
    "a result": r"the result view_as_complex is complex, which TVM has no type for; use torch\.view_as_real",
    "a function": r"sin\.default \(.*\): it is not supported for complex numbers",
    "a divisor": r"reciprocal\.default \(.*\): it is not supported for complex numbers",
    "padding that is no zero": r"constant_pad_nd\.default \(.*\): it is not supported for complex numbers",
    "a line of many places": r"_fft_r2c\.default \(.*\): transforms of 10000 places are not supported",
    "numbers of a symbolic spectrum": r"_fft_c2r\.default \(.*\): .* frequencies are not supported",
}


@pytest.fixture
def kit(with_torch) -> ModuleType:
    return importlib.import_module("kits.importing.torch_complex")


def exported(kit: Any, functions: Any, free: tuple[int, ...] = ()) -> Any:
    torch = kit.torch
    shapes = (dict.fromkeys(free, torch.export.Dim.DYNAMIC),) if free else None
    model = kit.Model(list(functions)).eval()
    given = (kit.seeded(*kit.SHAPE),)
    return torch.export.export(model, given, dynamic_shapes=shapes, strict=False), model


def machine_of(program: Any, target: str) -> Any:
    module = ar.from_exported_program(program)
    return relax.VirtualMachine(
        ar.build(ar.partition(module, [target]) if target else module).jit(), tvm.cpu()
    )


def assert_equal(machine: Any, model: Any, given: Any, tolerance: float = 2e-5) -> None:
    found = machine["main"](tvm.runtime.tensor(given.numpy()))
    for answer, expected in zip(found, model(given), strict=True):
        assert answer.numpy().dtype == expected.detach().numpy().dtype
        np.testing.assert_allclose(answer.numpy(), expected.detach().numpy(), tolerance, tolerance)


@pytest.mark.parametrize("target", TARGETS)
def test_results_are_those_of_torch(kit, target):
    program, model = exported(kit, kit.FUNCTIONS.values())
    assert_equal(machine_of(program, target), model, kit.seeded(*kit.SHAPE) + 0.1)


@pytest.mark.parametrize("target", TARGETS)
def test_results_of_any_batch_and_length_are_those_of_torch(kit, target):
    program, model = exported(kit, [kit.FUNCTIONS[name] for name in SYMBOLIC], (0, 1))
    machine = machine_of(program, target)
    for batch, length in ((2, 9), (1, 3), (3, 10)):
        assert_equal(machine, model, kit.seeded(batch, length, 8))


@needs_onednn
def test_they_are_one_region(kit):
    program, _ = exported(kit, [made for name, made in kit.FUNCTIONS.items() if name != OF_DOUBLES])
    assert not ops_on_host(ar.partition(ar.from_exported_program(program), ["dnnl"]), "main")


def test_sizes_do_not_overflow(kit):
    program, model = exported(kit, [lambda _model, x: kit.pairs(x).abs()])
    assert_equal(machine_of(program, ""), model, kit.edges().expand(kit.SHAPE).contiguous(), 1e-6)


@pytest.mark.parametrize("name", REFUSALS)
def test_what_cannot_be_imported_is_named(kit, name):
    free = (1,) if name == "numbers of a symbolic spectrum" else ()
    program, _ = exported(kit, [kit.REFUSED[name]], free)
    with pytest.raises(ar.ModelError, match=REFUSALS[name]):
        ar.from_exported_program(program)


def test_a_complex_input_is_named(kit):
    torch = kit.torch
    program = torch.export.export(kit.Input(), (torch.view_as_complex(kit.seeded(3, 2)),))
    with pytest.raises(ar.ModelError, match=r"the input x is complex, .* use torch\.view_as_real"):
        ar.from_exported_program(program)


def test_all_refusals_are_tried(kit):
    assert set(REFUSALS) == set(kit.REFUSED)
