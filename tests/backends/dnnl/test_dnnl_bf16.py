"""Products of bfloat16: they happen, and round by no more than eight bits of significand explain."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from kits.backends.dnnl.dnnl_bf16_cases import (
    BETWEEN,
    IMAGE,
    PRODUCTS,
    Between,
    Make,
    Product,
    Shape,
    kernel,
    numbers,
    whole_numbers,
)
from kits.backends.dnnl.dnnl_cases import module_of
from kits.backends.dnnl.dnnl_harness import Offloaded, needs_onednn, offload, run, tvm_alone
from kits.backends.dnnl.dnnl_transformer_cases import CASES
from kits.backends.dnnl.processor_flags import processor_flags
from tvm import relax
from tvm.relax import op

from annotated_region.backends.dnnl import installation

UNIT = 2.0**-8
"""The largest relative error of rounding to eight bits: half of the distance of two neighbours above one."""
UNIT_OF_SUMS = 2.0**-24
"""The same for float32, in which products are added up."""


def function(name: str, shapes: Sequence[Shape], make: Make) -> tvm.IRModule:
    """One function of inputs of these shapes."""
    builder = relax.BlockBuilder()
    params = [
        relax.Var(f"x{index}", relax.TensorType(shape, "float32")) for index, shape in enumerate(shapes)
    ]
    with builder.function(name, params):
        with builder.dataflow():
            output = builder.emit_output(make(*params))
        builder.emit_func_output(output)
    return builder.finalize()


def merged(modules: Sequence[tvm.IRModule]) -> tvm.IRModule:
    return tvm.IRModule({var: func for module in modules for var, func in module.functions.items()})


def steps(offloaded: Offloaded, name: str) -> list[str]:
    """What ran: the heading, then the primitives."""
    (symbol,) = offloaded.symbols_of(name)
    return offloaded.plan(symbol)


@cache
def processor_multiplies_bfloat16() -> bool:
    """What the runtime says of this processor."""
    module = function("probe", [(2, 16)], lambda x: op.matmul(x, relax.const(numbers(16, 4))))
    offloaded = offload(module, precision="bf16")
    offloaded.call("probe", numbers(2, 16))
    return steps(offloaded, "probe")[0].startswith("bfloat16:")


@pytest.fixture
def bfloat16() -> None:
    """Skips a test where the runtime falls back to float32."""
    if installation.unavailable() is not None:
        pytest.skip(str(installation.unavailable()))
    if not processor_multiplies_bfloat16():
        pytest.skip("the processor has no instructions for products of bfloat16")


# --- products


@cache
def products(precision: str) -> Offloaded:
    """All products, with constant right operands."""
    return offload(
        merged(
            [
                function(each.name, [each.left], lambda x, each=each: each.make(x, right_of(each)))
                for each in PRODUCTS
            ]
        ),
        precision=precision,
    )


def right_of(product: Product) -> relax.Expr:
    return relax.const(numbers(*product.right, seed=1))


@cache
def products_on_host() -> relax.VirtualMachine:
    """All products, of two inputs."""
    return tvm_alone(merged([function(each.name, [each.left, each.right], each.make) for each in PRODUCTS]))


@needs_onednn
@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("product", PRODUCTS, ids=lambda product: product.name)
def test_the_error_of_a_product_is_that_of_rounding_its_factors(product: Product) -> None:
    """Each factor is off by UNIT, a sum of n terms by n units of float32, of the sum of the magnitudes."""
    left, right = numbers(*product.left), numbers(*product.right, seed=1)
    (expected,) = run(products_on_host(), product.name, [left, right])
    (magnitudes,) = run(products_on_host(), product.name, [np.abs(left), np.abs(right)])
    (result,) = products("bf16").call(product.name, left)
    allowed = ((1 + UNIT) ** 2 - 1 + 2 * product.terms * UNIT_OF_SUMS) * magnitudes
    error = np.abs(result - expected)
    assert (error <= allowed).all()
    assert error.max() > 2.0**-16 * magnitudes.max(), "nothing was rounded: this is float32"


@needs_onednn
@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("product", PRODUCTS, ids=lambda product: product.name)
def test_a_product_runs_on_instructions_for_bfloat16(product: Product) -> None:
    products("bf16").call(product.name, numbers(*product.left))
    heading, *primitives = steps(products("bf16"), product.name)
    assert heading == "bfloat16: 1 of 1 products"
    rounding = [line for line in primitives if line.startswith(("conv", "deconv", "matmul"))]
    assert sum("_bf16 " in line or "_amx " in line for line in rounding) == 1


# --- what stands between products


def middle(each: Between, x: relax.Expr) -> relax.Var:
    """The result of the op, of the first convolution's."""
    emit = relax.BlockBuilder.current().emit
    return emit(each.make(emit(op.nn.conv2d(x, kernel(1)))))


def enclosed(each: Between, x: relax.Expr) -> relax.Expr:
    """The op between two convolutions."""
    operand = middle(each, x)
    return op.nn.conv2d(operand, kernel(2, int(operand.ty.shape[1])))


def magnitudes_of(each: Between, x: relax.Expr) -> relax.Expr:
    """What the second convolution adds up, without signs."""
    operand = middle(each, x)
    weights = kernel(2, int(operand.ty.shape[1])).value.numpy()
    return op.nn.conv2d(op.abs(operand), relax.const(np.abs(weights)))


@cache
def between(precision: str) -> Offloaded:
    modules = [function(each.name, [IMAGE], lambda x, each=each: enclosed(each, x)) for each in BETWEEN]
    return offload(merged(modules), precision=precision)


@cache
def between_on_host() -> relax.VirtualMachine:
    modules = [function(each.name, [IMAGE], lambda x, each=each: enclosed(each, x)) for each in BETWEEN]
    modules += [
        function(f"{each.name}_magnitudes", [IMAGE], lambda x, each=each: magnitudes_of(each, x))
        for each in BETWEEN
    ]
    return tvm_alone(merged(modules))


@needs_onednn
@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("each", BETWEEN, ids=lambda each: each.name)
def test_what_stands_between_products_rounds_its_result_and_nothing_else(each: Between) -> None:
    """Whole numbers below 256 are exact in bfloat16, and so are both products; what is between is rounded."""
    image = whole_numbers(*IMAGE, largest=2)
    (expected,) = run(between_on_host(), each.name, [image])
    (magnitudes,) = run(between_on_host(), f"{each.name}_magnitudes", [image])
    (result,) = between("bf16").call(each.name, image)
    if each.exact:
        np.testing.assert_array_equal(result, expected)
    else:  # and what float32 may be off by itself, which the test of float32 allows, too
        assert (np.abs(result - expected) <= (UNIT + 1e-4) * magnitudes).all()
        assert np.abs(result - expected).max() > 0


@needs_onednn
@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("each", BETWEEN, ids=lambda each: each.name)
def test_what_stands_between_products_works_in_the_type_that_is_stated(each: Between) -> None:
    between("bf16").call(each.name, whole_numbers(*IMAGE, largest=2))
    heading, *primitives = steps(between("bf16"), each.name)
    assert heading.startswith("bfloat16: ")
    assert any(all(word in line for word in each.step.split()) for line in primitives), primitives


# --- sums that go on in float32


def layer_norm_of(x: relax.Expr) -> relax.Expr:
    return op.nn.layer_norm(
        x, relax.const(np.ones(64, "float32")), relax.const(np.zeros(64, "float32")), [-1]
    )


def rms_norm_of(x: relax.Expr) -> relax.Expr:
    return op.nn.rms_norm(x, relax.const(np.ones(64, "float32")), [-1])


def flattened_layer_norm_of(x: relax.Expr) -> relax.Expr:
    """The sum and the product read a view."""
    return op.reshape(layer_norm_of(x), (24, 64))


NORMS = {
    "layer_norm": layer_norm_of,
    "rms_norm": rms_norm_of,
    "flattened_layer_norm": flattened_layer_norm_of,
}


@cache
def sums_on(precision: str) -> Offloaded:
    """As in BERT: what a norm makes is a factor of a product, and added to its small result."""

    def summed(x: relax.Expr, make: Make) -> relax.Expr:
        normal = relax.BlockBuilder.current().emit(make(x))
        return op.add(op.matmul(normal, relax.const(numbers(64, 64, seed=1) / 512)), normal)

    modules = [
        function(name, [(2, 12, 64)], lambda x, make=make: summed(x, make)) for name, make in NORMS.items()
    ]
    return offload(merged(modules), precision=precision)


@needs_onednn
@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("name", NORMS)
def test_a_sum_that_goes_on_in_float32_adds_what_no_norm_has_rounded(name: str) -> None:
    """The product's factors are rounded; its result is at most a 32nd of the sum, so its error is, too."""
    data = numbers(2, 12, 64)
    (expected,) = sums_on("fp32").call(name, data)
    (result,) = sums_on("bf16").call(name, data)
    assert steps(sums_on("bf16"), name)[0] == "bfloat16: 1 of 1 products"
    error = np.abs(result - expected).max() / np.abs(expected).max()
    assert 0 < error < UNIT / 16


# --- whole graphs


@cache
def all_cases_in_finite_math() -> Offloaded:
    """As bfloat16 implies."""
    return offload(module_of(CASES), finite_math=True)


@cache
def all_cases_in_bfloat16() -> Offloaded:
    return offload(module_of(CASES), precision="bf16")


@pytest.mark.sweep
@needs_onednn
@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_graph_is_off_by_a_few_roundings_and_without_products_by_none(case: Any) -> None:
    """Four UNITs of the largest number: two factors, the stored result, one more where products follow.

    Attention in a matrix unit rounds what it multiplies; its step says so.
    """
    inputs = case.inputs()
    expected = all_cases_in_finite_math().call(case.name, *inputs)
    results = all_cases_in_bfloat16().call(case.name, *inputs)
    note, *ran = steps(all_cases_in_bfloat16(), case.name)
    is_rounded = not note.startswith("bfloat16: 0 of") or any("of bf16 in tiles" in step for step in ran)
    for result, wanted in zip(results, expected, strict=True):
        if is_rounded:
            np.testing.assert_allclose(result, wanted, rtol=0, atol=4 * UNIT * float(np.abs(wanted).max()))
        else:
            np.testing.assert_array_equal(result, wanted)


@needs_onednn
@pytest.mark.parametrize("each", BETWEEN, ids=lambda each: each.name)
def test_float32_stays_float32(each: Between) -> None:
    """By default no tensor of bfloat16, and the answer of TVM; implementations are named after processors."""
    image = numbers(*IMAGE)
    (expected,) = run(between_on_host(), each.name, [image])
    (result,) = between("fp32").call(each.name, image)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
    primitives = steps(between("fp32"), each.name)
    assert not [line for line in primitives if " bf16:" in line or "bfloat16" in line]


# --- which products


@cache
def chosen() -> Offloaded:
    """Products that wait for their weights, and others."""
    weights = relax.const(numbers(640, 512))
    small = relax.const(numbers(64, 64))
    return offload(
        merged(
            [
                function("few_rows", [(1, 640)], lambda x: op.matmul(x, weights)),
                function("many_rows", [(64, 640)], lambda x: op.matmul(x, weights)),
                function("small", [(1, 64)], lambda x: op.matmul(x, small)),
            ]
        ),
        precision="bf16_if_faster",
    )


def vector_units_are_slow() -> bool:
    """Intel's without matrix units multiply bfloat16 at half the rate of float32."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    return "GenuineIntel" in text and "amx_bf16" not in processor_flags()


@needs_onednn
@pytest.mark.usefixtures("bfloat16")
@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="the system does not tell its processor")
@pytest.mark.parametrize(
    ("name", "rows", "columns"), [("few_rows", 1, 640), ("many_rows", 64, 640), ("small", 1, 64)]
)
def test_if_faster_rounds_what_waits_for_memory(name: str, rows: int, columns: int) -> None:
    data = numbers(rows, columns)
    (result,) = chosen().call(name, data)
    is_rounded = name == "few_rows" or not vector_units_are_slow()
    assert steps(chosen(), name)[0] == f"bfloat16: {int(is_rounded)} of 1 products"
    exact = data.astype("float64") @ numbers(columns, 64 if name == "small" else 512)
    error = np.abs(result - exact).max() / np.abs(exact).max()
    assert (error > 1e-4) == is_rounded
    assert error < 2 * UNIT


SCRIPT = """
import sys
sys.path[:0] = sys.argv[1:]
import numpy as np
from test_dnnl_bf16 import numbers, products, steps

data = numbers(20, 96)
(result,) = products("bf16").call("matmul", data)
np.testing.assert_array_equal(result, products("fp32").call("matmul", data)[0])
print("\\n".join(steps(products("bf16"), "matmul")))
"""


@needs_onednn
def test_without_the_instructions_the_answer_is_that_of_float32_and_the_plan_says_so() -> None:
    """oneDNN is told to look away from what the processor has."""
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(Path(__file__).parent), str(Path(__file__).parents[2])],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    heading, *primitives = process.stdout.splitlines()
    assert heading == "float32: the processor has no instructions for products of bfloat16"
    assert primitives
    assert not [line for line in primitives if "bf16" in line]
