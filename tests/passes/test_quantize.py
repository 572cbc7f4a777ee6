"""Quantize: numpy's numbers, the ops that read int8, those that stay in float and why, and errors."""

import numpy as np
import pytest
import tvm
from kits.backends.relax_kit import module, op_views, var
from kits.host_machines import host_machine
from tvm import relax

import annotated_region as ar

RANDOM = np.random.default_rng(0)
WEIGHT = RANDOM.standard_normal((16, 8)).astype("float32")
WIDE = RANDOM.standard_normal((8, 8)).astype("float32")
KERNEL = RANDOM.standard_normal((8, 4, 3, 3)).astype("float32")
BIAS = RANDOM.standard_normal((8,)).astype("float32")


def samples(shape, count=4, seed=1, name="x"):
    random = np.random.default_rng(seed)
    return [{name: random.standard_normal(shape).astype("float32")} for _ in range(count)]


def run(mod, *arrays):
    machine = host_machine(mod)
    return machine["main"](*map(tvm.runtime.tensor, arrays)).numpy()


def dense(builder, x, weight=WEIGHT, bias=BIAS):
    product = builder.emit(relax.op.matmul(x, relax.const(weight)))
    return builder.emit(relax.op.add(product, relax.const(bias)))


def network(*, symbolic=False):
    """Two products, with a curve between them."""
    rows = tvm.tirx.Var("n", "int64") if symbolic else 3
    x = var("x", (rows, 16))

    def make(builder):
        inner = builder.emit(relax.op.nn.relu(dense(builder, x)))
        return dense(builder, inner, WIDE)

    return module([x], make)


def rounded(values, low, high, dtype="uint8"):
    """What 8 bits make of values, by the definition."""
    scale = np.float32((high - low) / 255)
    zero = np.rint(-low / scale) + np.iinfo(dtype).min
    numbers = np.clip(np.rint(values / scale) + zero, np.iinfo(dtype).min, np.iinfo(dtype).max)
    return ((numbers - zero) * scale).astype("float32")


def rounded_columns(weight):
    scales = np.abs(weight).max(axis=0) / np.float32(127)
    return (np.rint(weight / scales) * scales).astype("float32")


def names_of(mod):
    return [view.name.removeprefix("relax.") for view in op_views(mod)]


def test_the_numbers_are_those_of_numpy():
    inputs = samples((3, 16))
    mod = ar.passes.Quantize(inputs, correct_bias=False)(network())
    seen = np.stack([each["x"] for each in inputs])
    hidden = np.maximum(seen @ WEIGHT + BIAS, 0)
    x = samples((3, 16), 1, seed=9)[0]["x"]
    first = rounded(x, seen.min(), seen.max()) @ rounded_columns(WEIGHT) + BIAS
    second = rounded(np.maximum(first, 0), 0, hidden.max()) @ rounded_columns(WIDE) + BIAS
    # One element of the hidden layer may be rounded the other way: a step times a weight.
    step = hidden.max() / 255 * np.abs(WIDE).max()
    found = run(mod, x)
    assert np.abs(found - second).max() <= 1.1 * step
    assert (np.abs(found - second) < 1e-4).mean() > 0.9


def shifted_network():
    """One product of values far from zero, whose weights are all rounded down by nearly half a step."""
    weight = np.full((16, 8), 60.49 / 127, "float32")
    weight[0] = 1
    x = var("x", (3, 16))
    return module([x], lambda builder: dense(builder, x, weight))


def test_biases_take_back_what_rounding_adds_on_average():
    random = np.random.default_rng(0)
    inputs = [{"x": 5 + random.standard_normal((3, 16)).astype("float32")} for _ in range(8)]
    exact = np.concatenate([run(shifted_network(), each["x"]) for each in inputs])
    shifts = [
        np.concatenate([run(mod, each["x"]) for each in inputs]).mean(axis=0) - exact.mean(axis=0)
        for mod in (ar.passes.Quantize(inputs, correct_bias=fix)(shifted_network()) for fix in (False, True))
    ]
    assert np.abs(shifts[0]).min() > 0.2  # 75 times 0.49 of a step of 1 / 127
    assert np.abs(shifts[1]).max() < 0.02


def test_one_input_corrects_no_bias():
    one = samples((3, 16), 1)
    first, second = (ar.passes.Quantize(one, correct_bias=fix)(network()) for fix in (False, True))
    tvm.ir.assert_structural_equal(first, second)
    assert first.script(show_meta=True) == second.script(show_meta=True)


def test_the_module_is_the_same_each_time():
    quantize = ar.passes.Quantize(samples((3, 16)), ranges="entropy")
    first, second = (quantize(network()).script(show_meta=True) for _ in range(2))
    assert first == second
    assert "quantize" in first


def test_the_module_handed_in_stays_and_passes_run_in_a_row():
    before = network()
    text = before.script()
    sequence = tvm.transform.Sequential([ar.passes.Quantize(samples((3, 16)))])
    assert names_of(sequence(before)).count("quantize") == 2
    assert before.script() == text


@pytest.mark.parametrize("length", [1, 5])
def test_symbolic_extents_are_those_of_each_input(length):
    inputs = [samples((rows, 16), 1, seed=rows)[0] for rows in (2, 7, 3)]
    mod = ar.passes.Quantize(inputs)(network(symbolic=True))
    x = samples((length, 16), 1, seed=20)[0]["x"]
    exact = run(network(symbolic=True), x)
    assert 0 < np.abs(run(mod, x) - exact).max() < 0.05 * np.abs(exact).max()


def test_taps_in_portions_count_the_same():
    inputs = samples((3, 16))
    whole, parts = (ar.passes.Quantize(inputs, tap_bytes=size)(network()) for size in (1 << 30, 1))
    tvm.ir.assert_structural_equal(whole, parts)
    assert whole.script(show_meta=True) == parts.script(show_meta=True)


def image_network(make_inner):
    x = var("x", (1, 4, 8, 8))

    def make(builder):
        def conv(data, kernel):
            return builder.emit(relax.op.nn.conv2d(data, relax.const(kernel), padding=1))

        first = builder.emit(relax.op.nn.relu(conv(x, KERNEL)))
        return make_inner(builder, conv, first)

    return module([x], make)


SQUARE = RANDOM.standard_normal((8, 8, 3, 3)).astype("float32")


def scale_of(view):
    """The scale with which an op quantizes."""
    scale = view.constant(1)
    assert scale is not None
    return scale.item()


def reads(mod):
    """By the name of an op, in order: whether its first operand is what ``dequantize`` makes."""
    values = {binding.var: binding.value for block in mod["main"].body.blocks for binding in block.bindings}
    return [
        (
            value.op.name.removeprefix("relax.nn.").removeprefix("relax."),
            isinstance(values.get(value.args[0]), relax.Call)
            and values[value.args[0]].op.name == "relax.dequantize",
        )
        for value in values.values()
        if isinstance(value, relax.Call) and "quantize" not in value.op.name
    ]


def quantized_image(make_inner, **options):
    return ar.passes.Quantize(samples((1, 4, 8, 8)), **options)(image_network(make_inner))


def test_pooling_carries_int8_with_one_scale():
    def inner(builder, conv, first):
        return conv(builder.emit(relax.op.nn.max_pool2d(first, (2, 2), (2, 2))), SQUARE)

    mod = quantized_image(inner)
    assert reads(mod) == [("conv2d", True), ("relu", False), ("max_pool2d", True), ("conv2d", True)]
    scales = {scale_of(view) for view in op_views(mod) if view.name == "relax.quantize"}
    assert len(scales) == 2  # of the input, and of what is pooled


def test_what_floats_read_of_a_carrier_is_not_rounded():
    def inner(builder, conv, first):
        pooled = builder.emit(relax.op.nn.max_pool2d(first, (2, 2), (2, 2)))
        return builder.emit(relax.op.add(conv(pooled, SQUARE), builder.emit(relax.op.exp(pooled))))

    assert ("max_pool2d", False) in reads(quantized_image(inner))


def test_joined_tensors_share_a_scale():
    def inner(builder, conv, first):
        joined = builder.emit(relax.op.concat([conv(first, SQUARE), first], 1))
        wide = np.concatenate([SQUARE, SQUARE], 1)
        return conv(joined, wide)

    mod = quantized_image(inner)
    joins = [view for view in op_views(mod) if view.name == "relax.concat"]
    assert len(joins) == 1
    scales = [scale_of(view) for view in op_views(mod) if view.name == "relax.quantize"]
    # Of the input; of both parts and the whole, which share one.
    assert len(set(scales)) == 2
    assert len(scales) == 4


def test_a_residual_sum_reads_int8_of_what_comes_round_and_floats_of_its_product():
    def inner(builder, conv, first):
        total = builder.emit(relax.op.add(conv(conv(first, SQUARE), SQUARE), first))
        return conv(builder.emit(relax.op.nn.relu(total)), SQUARE)

    mod = quantized_image(inner)
    (total,) = [view for view in op_views(mod) if view.name == "relax.add"]
    names = [arg.name for arg in total.args]
    assert [name.endswith("_dequantized") for name in names] == [False, True]


def test_a_sum_that_floats_read_stays_in_float():
    def inner(builder, conv, first):
        total = builder.emit(relax.op.add(conv(first, SQUARE), first))
        return builder.emit(relax.op.nn.softmax(total))

    (total,) = [view for view in op_views(quantized_image(inner)) if view.name == "relax.add"]
    assert not any(arg.name.endswith("_dequantized") for arg in total.args)


def attention():
    x = var("x", (1, 6, 16))

    def make(builder):
        queries, keys = dense(builder, x), dense(builder, x, RANDOM.permutation(WEIGHT))
        across = builder.emit(relax.op.permute_dims(keys, [0, 2, 1]))
        return builder.emit(relax.op.matmul(queries, across))

    return module([x], make)


def test_products_of_computed_matrices_have_an_int8_right_operand():
    mod = ar.passes.Quantize(samples((1, 6, 16)))(attention())
    types = [str(view.out_tensor.dtype) for view in op_views(mod) if view.name == "relax.quantize"]
    assert sorted(types) == ["int8", "int8", "uint8", "uint8"]
    assert ("permute_dims", True) in reads(mod)


def test_kept_products_stay_and_the_report_says_so():
    quantize = ar.passes.Quantize(samples((3, 16)), keep=["relax.matmul"])
    mod, report = quantize.with_report(network())
    assert "quantize" not in names_of(mod)
    assert [each.reason for each in report.products] == ["it is kept ('relax.matmul')"] * 2
    assert report.share == report.share_of_work == 0
    assert str(report).startswith("0 of 2 products in int8 (0.0 % of the multiplications), of 4 inputs")
    first = report.products[0].name
    mod, report = ar.passes.Quantize(samples((3, 16)), keep=[first]).with_report(network())
    assert [each.is_int8 for each in report.products] == [False, True]
    assert report.share_of_work == pytest.approx(100 * 8 / 24)


def rough_network():
    """The second of three products has an operand with an outlier that 8 bits cannot hold beside the rest."""
    x = var("x", (3, 16))
    stretch = np.ones(8, "float32")
    stretch[0] = 1e4
    narrow = WIDE.copy()
    narrow[0] = 0

    def make(builder):
        inner = dense(builder, x)
        stretched = builder.emit(relax.op.multiply(builder.emit(relax.op.tanh(inner)), relax.const(stretch)))
        return dense(builder, builder.emit(relax.op.tanh(dense(builder, stretched, narrow))), WIDE)

    return module([x], make)


@pytest.mark.parametrize("options", [{"max_error": 0.2}, {"accuracy": 0.05}], ids=str)
def test_the_product_that_suffers_stays_in_float(options):
    mod, report = ar.passes.Quantize(samples((3, 16)), **options).with_report(rough_network())
    assert [each.is_int8 for each in report.products] == [True, False, True]
    assert [(each.error or 0) > 0.2 for each in report.products] == [False, True, False]
    x = samples((3, 16), 1, seed=5)[0]["x"]
    exact = run(rough_network(), x)
    assert np.abs(run(mod, x) - exact).max() < 0.05 * np.abs(exact).max()
    if "accuracy" in options:
        assert report.error is not None
        assert report.error <= 0.05


def test_no_accuracy_at_all_keeps_everything_in_float():
    mod, report = ar.passes.Quantize(samples((3, 16)), accuracy=0).with_report(network())
    assert report.share == 0
    assert "quantize" not in names_of(mod)


def test_a_value_that_is_always_zero_has_no_scale():
    inputs = [{"x": np.zeros((3, 16), "float32")}]
    report = ar.passes.Quantize(inputs).with_report(network())[1]
    assert "0 in all calibration inputs" in report.products[0].reason
    assert report.products[1].is_int8  # behind the bias


def test_half_precision_stays():
    x = var("x", (3, 16), "float16")
    weight = relax.const(WEIGHT.astype("float16"))
    mod = module([x], lambda builder: builder.emit(relax.op.matmul(x, weight)))
    inputs = [{"x": np.ones((3, 16), "float16")}]
    quantized, report = ar.passes.Quantize(inputs).with_report(mod)
    assert names_of(quantized) == ["matmul"]
    assert report.products[0].reason == "its numbers are not of float32"


BAD_INPUTS = {
    "none": ([], ar.InputError, "there are no calibration inputs"),
    "a generator that is used up": (iter(()), ar.InputError, "unlike a generator"),
    "another name": (
        [{"y": np.ones((3, 16), "float32")}],
        ar.InputError,
        "calibration input 0: no parameter",
    ),
    "another shape": (
        samples((3, 16)) + samples((3, 15)),
        ar.InputError,
        "calibration input 4: input 'x' has",
    ),
    "another type": ([{"x": np.ones((3, 16))}], ar.InputError, "input 'x' is of type float64"),
    "not finite": ([{"x": np.full((3, 16), np.nan, "float32")}], ar.InputError, "'x' infinite or NaN"),
    "names": (
        ["x"],
        ar.UsageError,
        "calibration_inputs is 'x'; pass the inputs of some runs",
    ),
    "numbers": ([3], ar.UsageError, "calibration input 0 is 3"),
}


@pytest.mark.parametrize("what", BAD_INPUTS)
def test_inputs_that_do_not_fit_are_refused(what):
    inputs, error, message = BAD_INPUTS[what]
    with pytest.raises(error, match=message):
        ar.passes.Quantize(inputs)(network())


BAD_OPTIONS = {
    "one input": (
        lambda: ar.passes.Quantize({"x": np.ones(3)}),
        "the argument calibration_inputs is .*pass the inputs of some runs",
    ),
    "a number": (lambda: ar.passes.Quantize(3), "the argument calibration_inputs is 3"),
    "ranges": (lambda: ar.passes.Quantize([], ranges="kl"), "pass one of 'minmax', 'percentile'"),
    "percentile": (lambda: ar.passes.Quantize([], percentile=3), "pass a number from 50 to 100"),
    "activations": (lambda: ar.passes.Quantize([], activations="int4"), "pass one of 'uint8', 'int8'"),
    "accuracy": (lambda: ar.passes.Quantize([], accuracy=-1), "pass a number from 0 to inf"),
    "keep": (lambda: ar.passes.Quantize([], keep="lv"), r"keep is 'lv'; pass a list of names"),
}


@pytest.mark.parametrize("what", BAD_OPTIONS)
def test_options_that_make_no_sense_are_refused(what):
    made, message = BAD_OPTIONS[what]
    with pytest.raises(ar.UsageError, match=message):
        made()


def test_a_kept_name_that_fits_nothing_is_refused():
    with pytest.raises(ar.PinError, match=r"no product is called 'matmull'; the nearest names are '"):
        ar.passes.Quantize(samples((3, 16)), keep=["matmull"])(network())


def test_targets_that_are_none_are_refused():
    with pytest.raises(ar.UnknownTargetError, match="dnll"):
        ar.passes.Quantize([], target="dnll")


def test_a_module_without_main_is_refused():
    mod = network()
    renamed = tvm.IRModule({"other": mod["main"].without_attr("global_symbol")})
    with pytest.raises(ar.InvalidModuleError, match="no function main"):
        ar.passes.Quantize(samples((3, 16)))(renamed)
