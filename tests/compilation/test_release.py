"""An executable frees its resources on request, and modules built internally are not kept."""

import ctypes
import gc
import weakref
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

import annotated_region as ar
from annotated_region.compilation.executable import machine_of
from annotated_region.measuring import measured, timing
from annotated_region.measuring.timing import Timed

SIDE = 2048  # the weights are 16 MB
WEIGHTS = SIDE * SIDE * 4


def memory_in_use():
    """The bytes of this process that no file holds, after what is free was given back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    (line,) = (
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon")
    )
    return int(line.split()[1]) * 1024


def product(seed=0):
    """relu(x @ w)."""
    weights = np.random.default_rng(seed).uniform(-1, 1, (SIDE, SIDE)).astype("float32")
    x = relax.Var("x", relax.TensorType((4, SIDE), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.op.matmul(x, relax.const(weights)))
            out = builder.emit_output(relax.op.nn.relu(y))
        builder.emit_func_output(out)
    return builder.get(), weights


def run(executable):
    x = np.random.default_rng(9).uniform(-1, 1, (4, SIDE)).astype("float32")
    machine = relax.VirtualMachine(executable, tvm.cpu())
    return machine, x, machine["main"](tvm.runtime.tensor(x)).numpy()


@pytest.mark.parametrize("target", ["dnnl", "onnxruntime", "openvino"])
def test_models_that_are_replaced_leave_no_memory_behind(target):
    """Without the release, each of the five keeps its weights twice or more."""
    held = []
    for seed in range(5):
        mod, weights = product(seed)
        executable = ar.build(ar.partition(mod, [target]))
        _machine, x, found = run(executable)
        np.testing.assert_allclose(found, np.maximum(x @ weights, 0), rtol=1e-4, atol=1e-3)
        executable.release()
        del executable, _machine, mod
        held.append(memory_in_use())
    assert held[-1] - held[1] < 3 * WEIGHTS


@pytest.mark.parametrize("target", ["dnnl", "onnxruntime", "openvino"])
def test_a_released_region_says_so_and_a_new_machine_loads_anew(target):
    mod, _weights = product()
    executable = ar.build(ar.partition(mod, [target]))
    executable.release()  # nothing is loaded yet
    machine, x, found = run(executable)
    executable.release()
    executable.release()
    with pytest.raises(RuntimeError, match=rf"{target}_main_0: its executable was released"):
        machine["main"](tvm.runtime.tensor(x))
    np.testing.assert_array_equal(run(executable)[2], found)


def test_a_program_without_regions_can_be_released():
    mod, _weights = product()
    executable = ar.build(mod)
    machine, x, found = run(executable)
    executable.release()
    np.testing.assert_array_equal(machine["main"](tvm.runtime.tensor(x)).numpy(), found)


@pytest.mark.filterwarnings("ignore::annotated_region.MeasurementWarning")
def test_placing_by_measured_costs_keeps_nothing(tmp_path):
    held = []
    for seed in range(3):
        policy = ar.LeastCost(ar.MeasuredCost(Path(tmp_path, f"costs{seed}"), rounds=1))
        ar.partition(product(seed)[0], ["dnnl"], policy)
        held.append(memory_in_use())
    assert held[-1] - held[0] < 2 * WEIGHTS


def test_units_are_built_in_batches_of_bounded_size(monkeypatch):
    """Sizes 3, 3, 5, 1, 9, 1 with room for six: a larger unit is alone."""
    monkeypatch.setattr(timing, "MOST_BYTES", 6)
    units = [(f"unit {number}", of_bytes(size)) for number, size in enumerate([3, 3, 5, 1, 9, 1])]
    batches = [[unit.bytes for _key, unit in batch] for batch in measured._batches(units)]
    assert batches == [[3, 3], [5, 1], [9], [1]]
    assert list(measured._batches([])) == []


def of_bytes(size):
    """A unit whose only input has this size."""
    x = relax.Var("x", relax.TensorType((size,), "int8"))
    return Timed("host", relax.Function([x], x, x.ty))


def test_the_size_of_a_unit_is_that_of_its_inputs_and_constants():
    mod, _weights = product()
    assert Timed("host", mod["main"]).bytes == WEIGHTS + 4 * SIDE * 4


def test_a_machine_does_not_keep_its_executable():
    """Which holds a copy of the constants."""
    mod, _weights = product()
    executable = ar.build(ar.partition(mod, ["dnnl"]))
    alive = weakref.ref(executable)
    with machine_of(executable) as machine:
        del executable
        gc.collect()
        assert alive() is None
        x = np.ones((4, SIDE), "float32")
        assert machine["main"](tvm.runtime.tensor(x)).numpy().shape == (4, SIDE)
