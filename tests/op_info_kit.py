"""Generated op calls, and the ways to lower, perturb and run the code they become."""

from __future__ import annotations

import re

import numpy as np
import tvm
from hypothesis import strategies as st
from tvm import relax

import annotated_region as ar

EXACT = ("conv", "softmax", "matmul", "concat", "split", "nn.pad", "permute_dims", "leakyrelu", "take")
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
            widths = [draw(st.integers(0, 2)) for _ in shape * 2]
            return relax.op.nn.pad(x, [1, *widths[1:]], pad_value=draw(st.floats(0, 2, width=16)))
        case "slice":
            begin = draw(st.integers(0, shape[axis] - 1))
            end = draw(st.integers(begin + 1, shape[axis]))
            return relax.op.strided_slice(x, [axis], [begin], [end], [draw(st.integers(1, 3))])
        case "take":
            shape = (*shape[:axis], shape[axis] + 1, *shape[axis + 1 :])  # of one element, none is chosen
            return relax.op.take(tensor(*shape), tensor(draw(extents), dtype="int64"), axis, mode="clip")
        case "split":
            parts = draw(st.integers(2, 3))
            return relax.op.split(tensor(*shape[:axis], shape[axis] * parts, *shape[axis + 1 :]), parts, axis)
        case _:
            return relax.op.expand_dims(x, axis)


calls = st.one_of(convolutions(), pools(), elementwise(), reductions(), products(), movements())


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
    library = tvm.compile(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}), "llvm")
    made = [tvm.runtime.tensor(np.zeros(shape, dtype)) for shape, dtype in outputs]
    library["main"](*(tvm.runtime.tensor(argument) for argument in arguments), *made)
    return [tensor.numpy() for tensor in made]
