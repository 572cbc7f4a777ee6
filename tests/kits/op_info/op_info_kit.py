"""Generated op calls, and the ways to lower, perturb and run the code they become."""

from __future__ import annotations

import re

import numpy as np
import tvm
from hypothesis import strategies as st
from tvm import relax

import annotated_region as ar
from annotated_region.host_targets import UNOPTIMIZED
from annotated_region.op_info.attributes import attributes_of

EXACT = ("nn.conv", "softmax", "matmul", "concat", "split", "nn.pad", "permute_dims", "leakyrelu", "take")
"""Ops whose attributes must come back as they were; the others up to ops that lower to the same code."""

UNARY = ("nn.relu", "sigmoid", "tanh", "exp", "sqrt", "negative", "abs", "nn.gelu", "nn.silu", "floor", "erf")
BINARY = ("add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "greater", "equal")


def tensor(*shape, dtype="float32"):
    return relax.Var("x", relax.TensorType(shape, dtype))


def function(name):
    owner = relax.op
    for part in name.split("."):
        owner = getattr(owner, part)
    return owner


extents = st.integers(1, 6)
shapes = st.lists(extents, min_size=1, max_size=4).map(tuple)


@st.composite
def convolutions(draw):
    letters = draw(st.sampled_from(["W", "HW", "HW", "HW", "DHW"]))
    rank = len(letters)
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    inputs, outputs = groups * draw(st.integers(1, 3)), groups * draw(st.integers(1, 3))
    kernel = [draw(st.integers(1, 3)) for _ in letters]
    dilation = [draw(st.integers(1, 2)) for _ in letters]
    space = [draw(st.integers(1, 4)) + (k - 1) * d for k, d in zip(kernel, dilation, strict=True)]
    data_layout, kernel_layout = "NC" + letters, "OI" + letters
    if rank == 2 and groups == 1 and draw(st.booleans()):
        data_layout, kernel_layout = "NHWC", draw(st.sampled_from(["HWIO", "OHWI"]))
    sizes = dict(zip(letters, space, strict=True)) | {"N": draw(extents), "C": inputs}
    kernel_sizes = dict(zip(letters, kernel, strict=True)) | {"O": outputs, "I": inputs // groups}
    return function(f"nn.conv{rank}d")(
        tensor(*(sizes[letter] for letter in data_layout)),
        tensor(*(kernel_sizes[letter] for letter in kernel_layout)),
        strides=[draw(st.integers(1, 3)) for _ in letters],
        padding=[draw(st.integers(0, 2)) for _ in letters * 2],
        dilation=dilation,
        groups=groups,
        data_layout=data_layout,
        kernel_layout=kernel_layout,
    )


@st.composite
def pools(draw):
    kernel = [draw(st.integers(1, 3)) for _ in range(2)]
    layout = draw(st.sampled_from(["NCHW", "NHWC"]))
    sizes = {
        "N": draw(extents),
        "C": draw(extents),
        "H": draw(st.integers(3, 8)),
        "W": draw(st.integers(3, 8)),
    }
    data = tensor(*(sizes[letter] for letter in layout))
    strides = [draw(st.integers(1, 3)) for _ in kernel]
    padding = [draw(st.integers(0, k - 1)) for k in kernel * 2]
    ceil_mode = draw(st.booleans())
    if draw(st.booleans()):
        return relax.op.nn.max_pool2d(data, kernel, strides, padding, ceil_mode=ceil_mode, layout=layout)
    include = draw(st.booleans())
    return relax.op.nn.avg_pool2d(
        data, kernel, strides, padding, ceil_mode=ceil_mode, count_include_pad=include, layout=layout
    )


@st.composite
def elementwise(draw):
    shape = draw(shapes)
    kind = draw(st.sampled_from(["unary", "binary", "scalar", "leaky", "clip"]))
    number = draw(st.floats(0.125, 4, width=16))
    if kind == "unary":
        return function(draw(st.sampled_from(UNARY)))(tensor(*shape))
    if kind == "binary":
        other = tuple(draw(st.sampled_from([extent, 1])) for extent in shape)[
            draw(st.integers(0, len(shape))) :
        ]
        operands = draw(st.permutations([tensor(*shape), tensor(*other)]))
        return function(draw(st.sampled_from(BINARY)))(*operands)
    if kind == "scalar":
        operands = draw(st.permutations([tensor(*shape), relax.const(number, "float32")]))
        return function(draw(st.sampled_from(BINARY)))(*operands)
    if kind == "leaky":
        return relax.op.nn.leakyrelu(tensor(*shape), number)
    return relax.op.clip(tensor(*shape), -number, number)


@st.composite
def reductions(draw):
    shape = draw(shapes)
    name = draw(st.sampled_from(["sum", "max", "min", "mean", "prod", "variance", "argmax", "nn.softmax"]))
    axes = draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
    if name == "nn.softmax":
        return relax.op.nn.softmax(tensor(*shape), axes[0])
    return function(name)(tensor(*shape), axes[0] if name == "argmax" else sorted(axes), draw(st.booleans()))


@st.composite
def products(draw):
    batch = draw(st.lists(extents, max_size=2))
    rows, inner, columns = draw(extents), draw(extents), draw(extents)
    other = draw(st.sampled_from([batch, []]))
    return relax.op.matmul(tensor(*batch, rows, inner), tensor(*other, inner, columns))


@st.composite
def movements(draw):
    shape = draw(shapes)
    x, axis = tensor(*shape), draw(st.integers(0, len(shape) - 1))
    match draw(st.sampled_from(["permute", "reshape", "concat", "pad", "slice", "take", "split", "expand"])):
        case "permute":
            return relax.op.permute_dims(x, draw(st.permutations(range(len(shape)))))
        case "reshape":
            return relax.op.reshape(x, (int(np.prod(shape[:axis])), int(np.prod(shape[axis:]))))
        case "concat":
            parts = [
                tensor(*shape[:axis], draw(extents), *shape[axis + 1 :])
                for _ in range(draw(st.integers(2, 4)))
            ]
            return relax.op.concat(parts, axis)
        case "pad":
            return draw(pads(shape))
        case "slice":
            begin = draw(st.integers(0, shape[axis] - 1))
            end = draw(st.integers(begin + 1, shape[axis]))
            return relax.op.strided_slice(x, [axis], [begin], [end], [draw(st.integers(1, 3))])
        case "take":
            shape = (*shape[:axis], shape[axis] + 1, *shape[axis + 1 :])  # of one element, none is chosen
            chosen = tensor(*draw(st.sampled_from([(3,), (2, 2), ()])), dtype="int64")
            return relax.op.take(tensor(*shape), chosen, axis, mode=draw(st.sampled_from(TAKES)))
        case "split":
            parts = draw(st.integers(2, 3))
            return relax.op.split(tensor(*shape[:axis], shape[axis] * parts, *shape[axis + 1 :]), parts, axis)
        case _:
            return relax.op.expand_dims(x, axis)


@st.composite
def pads(draw, shape):
    mode = draw(st.sampled_from(["constant", "constant", "reflect", "replicate", "circular"]))
    x, widths = tensor(*shape), [draw(st.integers(0, 2)) for _ in shape * 2]
    if mode == "constant":
        return relax.op.nn.pad(x, [1, *widths[1:]], pad_value=draw(st.floats(0, 2, width=16)))
    # No mirror and no circle is longer than the tensor.
    longest = [extent - (mode == "reflect") for extent in shape for _ in range(2)]
    return relax.op.nn.pad(x, list(map(min, widths, longest)), pad_mode=mode)


@st.composite
def transposed_convolutions(draw):
    rank = draw(st.integers(1, 3))
    groups = draw(st.sampled_from([1, 1, 2]))
    inputs, outputs = groups * draw(st.integers(1, 2)), draw(st.integers(1, 2))
    kernel = [draw(st.integers(1, 3)) for _ in range(rank)]
    dilation = [draw(st.integers(1, 2)) for _ in range(rank)]
    strides = [draw(st.integers(1, 3)) for _ in range(rank)]
    space = [draw(st.integers(1, 4)) + 2 for _ in range(rank)]
    # No more padding than leaves something of every axis.
    longest = [min(2, (k - 1) * d) for k, d in zip(kernel, dilation, strict=True)] * 2
    return function(f"nn.conv{rank}d_transpose")(
        tensor(draw(st.integers(1, 2)), inputs, *space),
        tensor(inputs, outputs, *kernel),
        strides=strides,
        padding=[draw(st.integers(0, width)) for width in longest],
        output_padding=[draw(st.integers(0, stride - 1)) for stride in strides],
        dilation=dilation,
        groups=groups,
    )


@st.composite
def resizes(draw):
    letters = draw(st.sampled_from(["HW", "HW", "HW", "DHW"]))
    layout = draw(st.sampled_from([f"NC{letters}", f"N{letters}C"]))
    method = draw(st.sampled_from(METHODS if letters == "HW" else METHODS[:2]))
    x = tensor(*(draw(st.integers(1, 5)) for _ in layout))
    # TVM aligns no corners of a single element. Crops and other splines are not understood.
    return function(f"image.resize{len(letters)}d")(
        x,
        [draw(st.integers(2, 7)) for _ in letters],
        layout=layout,
        method=method,
        coordinate_transformation_mode=draw(st.sampled_from(MODES)),
        rounding_method=draw(st.sampled_from(ROUNDINGS)) if method == "nearest_neighbor" else "round",
    )


@st.composite
def symbolic(draw):
    """Ops on a batch whose size is not known."""
    n, (rows, columns) = tvm.tirx.Var("n", "int64"), (draw(extents), draw(extents))
    x, number = tensor(n, rows, columns), draw(st.floats(0.125, 4, width=16))
    axis = draw(st.integers(0, 2))
    kinds = ["unary", "binary", "number", "reduce", "softmax", "product", "norm", "conv", "move"]
    match draw(st.sampled_from(kinds)):
        case "unary":
            return function(draw(st.sampled_from(UNARY)))(x)
        case "binary":
            others = [(n, rows, columns), (n, 1, columns), (rows, 1), (1, 1, columns), (n, rows, 1)]
            operands = draw(st.permutations([x, tensor(*draw(st.sampled_from(others)))]))
            return function(draw(st.sampled_from(BINARY)))(*operands)
        case "number":
            return function(draw(st.sampled_from(BINARY)))(x, relax.const(number, "float32"))
        case "reduce":
            axes = draw(st.lists(st.integers(0, 2), min_size=1, unique=True).map(sorted))
            name = draw(st.sampled_from(["sum", "max", "min", "mean", "variance"]))
            return function(name)(x, axes, draw(st.booleans()))
        case "softmax":
            return function(draw(st.sampled_from(["nn.softmax", "nn.log_softmax"])))(x, axis)
        case "product":
            return relax.op.matmul(x, draw(st.sampled_from([tensor(columns, 3), tensor(n, columns, 3)])))
        case "norm":
            scale, shift = tensor(columns), tensor(columns)
            return draw(
                st.sampled_from(
                    [
                        relax.op.nn.layer_norm(x, scale, shift, [2], 1e-3),
                        relax.op.nn.rms_norm(x, scale, [2], 1e-3),
                        relax.op.nn.batch_norm(x, *(tensor(columns) for _ in range(4)), 2, training=False),
                    ]
                )
            )
        case "move":
            return draw(symbolic_movements(n, tvm.tirx.Var("m", "int64"), rows, columns))
        case _:
            image, kernel = tensor(n, 2, rows + 2, columns + 2), tensor(3, 2, 3, 3)
            return relax.op.nn.conv2d(image, kernel, padding=draw(st.integers(0, 1)), strides=axis + 1)


def symbolic_movements(n, m, rows, columns):
    """Ops whose shapes are symbolic themselves, in sizes that the operands tell."""
    image = tensor(n, rows, columns)
    return st.sampled_from(
        [
            relax.op.reshape(image, (n, rows * columns)),
            relax.op.reshape(image, (n * rows, columns)),
            relax.op.reshape(tensor(n, m, rows * columns), (n, m, rows, columns)),
            relax.op.reshape(tensor(n, m, rows), (m, n, rows)),
            relax.op.broadcast_to(tensor(n, 1, columns), (n, rows, columns)),
            relax.op.concat([tensor(n, m, rows), tensor(n, columns, rows)], 1),
            relax.op.nn.pad(tensor(n, m), [rows, 0, 0, columns]),
            relax.op.flip(image, 0),
            relax.op.repeat(tensor(n, m), rows + 1, 1),
            relax.op.triu(tensor(n, m), rows),
            relax.op.strided_slice(tensor(n, m), [1], [rows - 1], [rows + columns]),
        ]
    )


@st.composite
def unread(draw):
    """Ops whose code does not read all that they are given, and ops that are given nothing."""
    shape, number = draw(shapes), draw(st.sampled_from([0.0, 1.0, 2.5]))
    match draw(st.sampled_from(["batch_norm", "zeros_like", "full", "zeros"])):
        case "batch_norm":
            x, vectors = tensor(2, 3, 4), [tensor(3) for _ in range(4)]
            scale, center = draw(st.booleans()), draw(st.booleans())
            return relax.op.nn.batch_norm(x, *vectors, 1, scale=scale, center=center, training=False)
        case "zeros_like":
            return relax.op.zeros_like(tensor(*shape))
        case "full":
            return relax.op.full(shape, relax.const(number, "float32"), "float32")
        case _:
            return relax.op.zeros(shape, draw(st.sampled_from(["float32", "int64"])))


METHODS = ["linear", "nearest_neighbor", "linear", "nearest_neighbor", "nearest_neighbor", "cubic"]
MODES = ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn"]
ROUNDINGS = ["round", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
TAKES = ["clip", "wrap", "nan"]  # TVM warns whenever it lowers the fast mode

calls = st.one_of(
    convolutions(),
    transposed_convolutions(),
    pools(),
    elementwise(),
    reductions(),
    products(),
    movements(),
    resizes(),
    symbolic(),
    unread(),
)


def expected_attributes(call):
    """The attributes that have to come back; None if the code does not tell them all."""
    name, attrs = call.op.name.removeprefix("relax."), attributes_of(call.attrs)
    if name.endswith("_transpose"):
        return _without_common_padding(attrs)
    if name == "nn.pad" and attrs["pad_mode"] != "constant":
        return None  # on an axis of one element, and round a circle, several widths are the same
    return attrs if name.startswith(EXACT) else None


def _without_common_padding(attrs):
    """Padding behind less output padding is all that the code tells."""
    output, rank = attrs["output_padding"], len(attrs["strides"])
    front, back = attrs["padding"][:rank], attrs["padding"][rank:]
    common = list(map(min, output, back))
    return attrs | {
        "padding": (*front, *(width - less for width, less in zip(back, common, strict=True))),
        "output_padding": tuple(width - less for width, less in zip(output, common, strict=True)),
    }


def module_of(call):
    """A module with the call as its only binding."""
    params = list(dict.fromkeys(arg for arg in flat(call.args) if isinstance(arg, relax.Var)))
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            out = builder.emit_output(call)
        builder.emit_func_output(out)
    return builder.get()


def flat(args):
    for arg in args:
        if isinstance(arg, relax.Tuple):
            yield from arg.fields
        else:
            yield arg


def lowered(mod):
    """The only PrimFunc of a module after TVM's own legalization."""
    return prim_func(relax.transform.LegalizeOps()(mod))


def prim_func(mod):
    (func,) = (func for _, func in mod.functions_items() if isinstance(func, tvm.tirx.PrimFunc))
    return func


def infos_of(func):
    """The ops inside, which have to be known."""
    infos = ar.op_infos(func)
    assert infos is not None
    return infos


PERTURBATIONS = [
    (r"T\.int64\((\d+)\)", lambda m: f"T.int64({int(m[1]) + 1})"),
    (r"T\.int64\((\d+)\)", lambda m: f"T.int64({max(0, int(m[1]) - 1)})"),
    (r"T\.float32\((-?[\d.e+-]+)\)", lambda m: f"T.float32({float(m[1]) / 2 + 1})"),
    (r" \+ ", lambda m: " - "),
    (r" \* ", lambda m: " + "),
    (r" <= ", lambda m: " < "),
    (r" and ", lambda m: " or "),
    (r"T\.max\(", lambda m: "T.min("),
    (r"T\.exp\(", lambda m: "T.tanh("),
    (r"T\.min\(", lambda m: "T.max("),
    (r"T\.(floor|round)\(", lambda m: "T.ceil("),
    (r" // ", lambda m: " % "),
    (r" % ", lambda m: " // "),
    (r" == ", lambda m: " != "),
    (r"T\.Select\(", lambda m: "T.if_then_else("),
]


def perturbed(func, kind, place):
    """`func` with one spot of its blocks' bodies changed; None if there is no such spot, or it is no code."""
    pattern, change = PERTURBATIONS[kind]
    lines = func.script(show_meta=True).splitlines()
    spots = [
        (number, match)
        for number, line in enumerate(lines)
        if "T.reads" not in line and "T.writes" not in line and "def " not in line
        for match in re.finditer(pattern, line)
    ]
    if not spots:
        return None
    number, match = spots[place % len(spots)]
    lines[number] = lines[number][: match.start()] + change(match) + lines[number][match.end() :]
    try:
        return tvm.script.from_source("\n".join(lines))
    except tvm.error.DiagnosticError:
        return None


def run(func, arguments, outputs):
    """What a PrimFunc writes."""
    library = tvm.compile(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}), UNOPTIMIZED)
    made = [tvm.runtime.tensor(np.zeros(shape, dtype)) for shape, dtype in outputs]
    library["main"](*(tvm.runtime.tensor(argument) for argument in arguments), *made)
    return [tensor.numpy() for tensor in made]
