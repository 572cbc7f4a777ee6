"""How generated functions behave at run time: errors, threads, dynamic shapes, several results, export."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_harness import (
    Offloaded,
    external_functions,
    needs_onednn,
    offload,
    ops_on_host,
    run,
    single,
)
from kits.host_machines import host_machine
from tvm import relax, tirx
from tvm.relax import op

import annotated_region as ar
from annotated_region.backends.dnnl import codegen, installation
from annotated_region.backends.dnnl.graph import Graph
from annotated_region.backends.dnnl.parameters import Curve, Parameters


def weights(*shape: int) -> np.ndarray:
    return (np.random.default_rng(3).standard_normal(shape) * 0.1).astype("float32")


def dynamic_module() -> tvm.IRModule:
    """A small network over any number of images of any height, and a product of any number of rows."""
    batch, height, rows = (tirx.Var(name, "int64") for name in ("n", "h", "m"))
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((batch, 3, height, 8), "float32"))
    with builder.function("network", [x]):
        with builder.dataflow():
            y = builder.emit(op.nn.relu(op.nn.conv2d(x, relax.const(weights(16, 3, 3, 3)), padding=1)))
            y = op.concat(
                (builder.emit(y), builder.emit(op.nn.max_pool2d(y, (3, 3), padding=(1, 1)))), axis=1
            )
            y = builder.emit_output(op.mean(y, [2, 3]))
        builder.emit_func_output(y)
    z = relax.Var("z", relax.TensorType((rows, 5), "float32"))
    with builder.function("product", [z]):
        with builder.dataflow():
            product = builder.emit(op.matmul(z, relax.const(weights(5, 4))))
            result = builder.emit_output(op.reshape(product, (rows * 2, 2)))
        builder.emit_func_output(result)
    return builder.finalize()


@cache
def dynamic() -> Offloaded:
    return offload(dynamic_module())


@cache
def dynamic_on_host() -> relax.VirtualMachine:
    return host_machine(dynamic_module())


def image(batch: int, height: int) -> np.ndarray:
    return (
        np.random.default_rng(batch * 100 + height).standard_normal((batch, 3, height, 8)).astype("float32")
    )


@needs_onednn
@pytest.mark.parametrize(("batch", "height"), [(1, 8), (3, 8), (2, 5), (1, 1)])
def test_symbolic_extents(batch: int, height: int) -> None:
    data = image(batch, height)
    (expected,) = run(dynamic_on_host(), "network", [data])
    (result,) = dynamic().call("network", data)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@needs_onednn
def test_shape_computed_from_an_extent() -> None:
    data = np.random.default_rng(0).standard_normal((6, 5)).astype("float32")
    (expected,) = run(dynamic_on_host(), "product", [data])
    (result,) = dynamic().call("product", data)
    assert result.shape == (12, 2)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@needs_onednn
def test_number_of_plans_is_bounded() -> None:
    (symbol,) = dynamic().symbols_of("product")
    for rows in range(1, 60):
        data = np.ones((rows, 5), "float32")
        (result,) = dynamic().call("product", data)
        np.testing.assert_allclose(result.reshape(rows, 4), data @ weights(5, 4), rtol=1e-4, atol=1e-5)
    assert dynamic().query(symbol, "plan_count") == 16


def resident_megabytes() -> float:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


@needs_onednn
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system has no /proc")
def test_plans_that_are_dropped_leave_no_memory_behind() -> None:
    """Every call builds a plan; a plan takes 40 kB and more. Caches of oneDNN fill up in the first rounds."""
    function = relax.VirtualMachine(dynamic().linked, tvm.cpu(), memory_cfg="naive")["network"]
    images = [tvm.runtime.tensor(image(batch, height)) for batch in range(1, 6) for height in range(1, 41)]

    def call_all(rounds: int) -> float:
        for _ in range(rounds):
            for data in images:
                function(data)
        return resident_megabytes()

    before = call_all(2)
    assert call_all(4) - before < 8


@needs_onednn
def test_concurrent_calls_do_not_disturb_each_other() -> None:
    inputs = [image(batch, height) for batch in (1, 2, 3) for height in (4, 8)]
    expected = [run(dynamic_on_host(), "network", [data])[0] for data in inputs]
    function = dynamic().linked

    def work(index: int) -> list[np.ndarray]:
        machine = relax.VirtualMachine(function, tvm.cpu())  # a virtual machine serves one thread
        return [run(machine, "network", [inputs[(index + step) % 6]])[0] for step in range(24)]

    with ThreadPoolExecutor(4) as pool:
        for index, results in enumerate(pool.map(work, range(4))):
            for step, result in enumerate(results):
                np.testing.assert_allclose(result, expected[(index + step) % 6], rtol=1e-4, atol=1e-5)


def external(name: str) -> tvm.runtime.Object:
    (symbol,) = dynamic().symbols_of(name)
    return dynamic().linked.get_function(symbol, query_imports=True)


def tensor(*shape: int, dtype: str = "float32") -> tvm.runtime.Tensor:
    return tvm.runtime.tensor(np.zeros(shape, dtype))


@needs_onednn
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((tensor(2, 5),), "expected 1 inputs and 1 outputs, got 1 arguments"),
        ((tensor(2, 5), 3), "argument 1 is not a tensor"),
        ((tensor(2, 6), tensor(4, 2)), r"input 0 has shape \(2, 6\); expected \(2, 5\)"),
        ((tensor(2, 5, 1), tensor(4, 2)), r"input 0 has shape \(2, 5, 1\); expected \(2, 5\)"),
        ((tensor(2, 5), tensor(5, 2)), r"output 0 has shape \(5, 2\); expected \(4, 2\)"),
        ((tensor(2, 5, dtype="float64"), tensor(4, 2)), "input 0 is not float32"),
        ((tensor(2, 5), tensor(4, 2, dtype="int32")), "output 0 is not float32"),
    ],
)
def test_wrong_arguments_are_refused(arguments: tuple[object, ...], message: str) -> None:
    (symbol,) = dynamic().symbols_of("product")
    with pytest.raises((TypeError, ValueError), match=f"{symbol}: {message}"):
        external("product")(*arguments)


@needs_onednn
def test_unknown_option_is_refused() -> None:
    mod = ar.partition(dynamic_module(), ["dnnl"])
    with pytest.raises(ar.CodegenError, match="'dnnl' does not know the option 'precison'; known: precision"):
        ar.build(mod, options={"dnnl": {"precison": "bf16"}})


@pytest.mark.parametrize("value", ["no", 1.0, None, np.array([True, False])])
def test_finite_math_is_true_or_false(value: object) -> None:
    with pytest.raises(ar.CodegenError, match="takes True or False for the option 'finite_math', not"):
        codegen.generate([], {"finite_math": value}, {})


def test_unknown_precision_is_refused() -> None:
    with pytest.raises(ar.CodegenError, match="does not know the precision 'fp8'; known: 'fp32', 'bf16'"):
        offload(dynamic_module(), precision="fp8")


def masked_module() -> tvm.IRModule:
    """Truth values in and out."""
    mask = relax.Var("mask", relax.TensorType((2, 1), "bool"))
    x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("choose", [mask, x]):
        with builder.dataflow():
            wide = builder.emit(op.broadcast_to(mask, (2, 3)))
            chosen = builder.emit(op.where(wide, x, relax.const(7.0, "float32")))
            larger = builder.emit(op.greater(chosen, relax.const(0.5, "float32")))
            results = builder.emit_output(relax.Tuple([chosen, larger, wide]))
        builder.emit_func_output(results)
    return builder.finalize()


@needs_onednn
def test_truth_values_cross_the_border_as_bytes() -> None:
    offloaded = offload(masked_module())
    mask, x = np.array([[True], [False]]), np.array([[0.1, 0.9, 0.5]] * 2, "float32")
    chosen, larger, wide = offloaded.call("choose", mask, x)
    np.testing.assert_array_equal(chosen, np.where(mask, x, np.float32(7)))
    np.testing.assert_array_equal(larger, chosen > 0.5)
    np.testing.assert_array_equal(wide, np.broadcast_to(mask, (2, 3)))
    assert (larger.dtype, wide.dtype) == (np.dtype(bool), np.dtype(bool))
    (symbol,) = offloaded.symbols_of("choose")
    function = offloaded.linked.get_function(symbol, query_imports=True)
    with pytest.raises(TypeError, match=f"{symbol}: input 0 is not bool"):
        function(tensor(2, 1, dtype="int8"), *(tensor(2, 3) for _ in range(4)))


def damaged(symbol: str, parameters: Parameters) -> Callable[..., Graph]:
    """What the code generator makes of functions, with other parameters in the last node of one of them."""
    original = codegen.region_graph

    def region_graph(function: relax.Function, names: Mapping[Any, str], **options: bool) -> Graph:
        graph = original(function, names, **options)
        if graph.symbol == symbol:
            graph.nodes[-1] = replace(graph.nodes[-1], parameters=parameters)
        return graph

    return region_graph


@needs_onednn
def test_an_error_of_onednn_names_the_function_and_harms_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = relax.BlockBuilder()
    for make, name in ((op.tanh, "broken"), (op.nn.relu, "sound")):
        x = relax.Var("x", relax.TensorType((tirx.Var("n", "int64"), 5), "float32"))
        with builder.function(name, [x]):
            with builder.dataflow():
                y = builder.emit_output(make(x))
            builder.emit_func_output(y)
    module = ar.partition(builder.finalize(), ["dnnl"], prepare=False)
    (broken,) = (name for name in external_functions(module) if "broken" in name)
    monkeypatch.setattr(codegen, "region_graph", damaged(broken, Curve("binary_add")))  # that is none
    library = ar.build(module).jit()
    machine = relax.VirtualMachine(library, tvm.cpu())
    data = np.random.default_rng(5).standard_normal((3, 5)).astype("float32")
    for _ in range(2):
        with pytest.raises(RuntimeError, match=rf"{broken}: .*eltwise.*\(oneDNN status invalid_arguments\)"):
            run(machine, "broken", [data])
    assert library.get_function(f"{broken}__plan_count", query_imports=True)() == 0
    (result,) = run(machine, "sound", [data])
    np.testing.assert_array_equal(result, np.maximum(data, 0))


@needs_onednn
def test_bf16_rounds_for_every_shape_by_less_than_its_factors_explain() -> None:
    """Two factors of eight bits: off by 2**-7 and a little of the sum of the magnitudes."""
    rounded = offload(dynamic_module(), precision="bf16")
    for rows in (1, 6, 40):
        data = np.random.default_rng(rows).standard_normal((rows, 5)).astype("float32")
        (result,) = rounded.call("product", data)
        error = np.abs(result.reshape(rows, 4) - data @ weights(5, 4))
        assert (error <= 0.0079 * (np.abs(data) @ np.abs(weights(5, 4)))).all()


SCRIPT = """
import sys
import numpy as np
import tvm
from tvm import relax

library = tvm.runtime.load_module(sys.argv[1])
machine = relax.VirtualMachine(library, tvm.cpu())
np.save(sys.argv[3], machine["network"](tvm.runtime.tensor(np.load(sys.argv[2]))).numpy())
assert "annotated_region" not in sys.modules
"""


@needs_onednn
def test_exported_library_runs_in_a_fresh_process_on_onednn(tmp_path: Path) -> None:
    path, data, result = (tmp_path / name for name in ("net.so", "data.npy", "result.npy"))
    ar.build(ar.partition(dynamic_module(), ["dnnl"], prepare=False)).export_library(str(path))
    np.save(data, image(2, 8))
    environment = {**os.environ, "ONEDNN_VERBOSE": "1"}
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path), str(data), str(result)],
        env=environment, capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    log = process.stdout
    (convolution,) = [line for line in log.splitlines() if "exec,cpu,convolution" in line]
    assert "eltwise_relu" in convolution
    assert "exec,cpu,pooling" in log
    (expected,) = run(dynamic_on_host(), "network", [image(2, 8)])
    np.testing.assert_allclose(np.load(result), expected, rtol=1e-4, atol=1e-5)


@needs_onednn
def test_unit_compiles_without_the_linked_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the cache folder cannot be written, the unit brings the runtime along."""
    obstacle = tmp_path / "file"
    obstacle.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(obstacle))
    data = image(1, 4)
    executable = ar.build(ar.partition(dynamic_module(), ["dnnl"], prepare=False))
    library = executable.jit(options=["-O0"])  # half of the time
    (result,) = run(relax.VirtualMachine(library, tvm.cpu()), "network", [data])
    (expected,) = run(dynamic_on_host(), "network", [data])
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@needs_onednn
def test_an_extent_that_no_input_shows_is_handed_over_as_a_shape() -> None:
    """Looked-up words come as one row of all batches; the region makes batches of them again."""
    batch, length = (tirx.Var(name, "int64") for name in ("n", "m"))
    ids = relax.Var("ids", relax.TensorType((batch, length), "int64"))
    builder = relax.BlockBuilder()
    with builder.function("main", [ids]):
        with builder.dataflow():
            row = builder.emit(op.reshape(ids, (batch * length,)))
            words = builder.emit(op.take(relax.const(weights(9, 4)), row, axis=0))
            apart = builder.emit(op.reshape(words, (batch, length, 4)))
            result = builder.emit_output(op.mean(op.nn.relu(apart), [1]))
        builder.emit_func_output(result)
    offloaded = offload(builder.finalize())
    assert len(external_functions(offloaded.module)) == 1
    for shape in ((2, 3), (3, 2), (1, 5)):
        given = np.random.default_rng(1).integers(0, 9, shape)
        (answer,) = offloaded.call("main", given)
        np.testing.assert_allclose(answer, np.maximum(weights(9, 4)[given], 0).mean(1), rtol=1e-5, atol=1e-6)


@needs_onednn
def test_extents_may_be_the_smaller_or_larger_of_two() -> None:
    """What is left of a tensor that may be shorter than the part that is asked for."""
    rows = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((rows, 4), "float32"))
    offloaded = offload(single([x], op.nn.relu(op.strided_slice(x, [0], [0], [3]))))
    assert len(external_functions(offloaded.module)) == 1
    for count in (2, 3, 5):
        given = weights(count, 4)
        np.testing.assert_array_equal(offloaded.call("main", given)[0], np.maximum(given[:3], 0))


@needs_onednn
def test_a_comma_in_the_path_of_the_environment_does_not_break_the_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = installation.onednn()
    assert library is not None
    (tmp_path / "env,with comma").symlink_to(library.parent)
    monkeypatch.setattr(installation, "onednn", lambda: tmp_path / "env,with comma" / library.name)
    data = image(1, 4)
    (result,) = offload(dynamic_module()).call("network", data)
    (expected,) = run(dynamic_on_host(), "network", [data])
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@needs_onednn
def test_a_batch_of_nothing_gives_nothing_as_on_tvm() -> None:
    for name, data in (("network", image(0, 4)), ("product", np.zeros((0, 5), "float32"))):
        (found,) = dynamic().call(name, data)
        (expected,) = run(dynamic_on_host(), name, [data])
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        assert found.size == 0


@needs_onednn
def test_a_batch_of_nothing_is_not_reduced() -> None:
    """The sum of no rows is not computed where no result needs it."""
    x = relax.Var("x", relax.TensorType((tirx.Var("n", "int64"), 4), "float32"))
    machine = offload(single([x], op.add(x, op.sum(op.nn.relu(x), [0]))))
    assert not ops_on_host(machine.module)
    for rows in (0, 2, 0):
        (found,) = machine.call("main", np.ones((rows, 4), "float32"))
        np.testing.assert_array_equal(found, np.full((rows, 4), 1.0 + rows, "float32"))
