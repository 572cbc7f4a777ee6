"""What oneDNN claims of normalisations, softmax, reductions and attention."""

from __future__ import annotations

from annotated_region.backends.dnnl.checks import (
    epsilon_problem,
    finite,
    function_problems,
    result_problem,
    symbolic_problem,
    tensor_problem,
)
from annotated_region.backends.dnnl.conversions.attention import CAUSAL
from annotated_region.backends.dnnl.conversions.normalization import REDUCTIONS, reduced_axes
from annotated_region.backends.dnnl.importer import extents_of
from annotated_region.backends.dnnl.registration import Problems, claims
from annotated_region.targets.op_view import OpView

__all__: list[str] = []


@claims("relax.nn.batch_norm")
def _batch_norm(op: OpView) -> Problems:
    for type_, what in zip(
        op.arg_types, ("the data", "the scale", "the shift", "the mean", "the variance"), strict=True
    ):
        yield tensor_problem(type_, what)
    yield epsilon_problem(op)
    if op.attrs["training"]:
        yield "it is in training mode, which computes statistics"
    if not (op.attrs["center"] and op.attrs["scale"]):
        yield "it leaves out the scale or the shift"
    if not 2 <= op.arg_types[0].ndim <= 5:
        yield f"the data has rank {op.arg_types[0].ndim}; known are 2 to 5"
    elif op.attrs["axis"] % op.arg_types[0].ndim == 0:
        yield "it normalises along the batch"
    yield symbolic_problem(op, 1, "the scale")


@claims("relax.nn.layer_norm")
def _layer_norm(op: OpView) -> Problems:
    yield from _affine_problems(op)
    yield _last_axes_problem(op)


@claims("relax.nn.rms_norm")
def _rms_norm(op: OpView) -> Problems:
    yield from function_problems(op)
    yield tensor_problem(op.arg_types[1], "the scale")
    yield epsilon_problem(op)
    yield _last_axes_problem(op)


@claims("relax.nn.group_norm", "relax.nn.instance_norm")
def _group_norm(op: OpView) -> Problems:
    yield from _affine_problems(op)
    rank = op.arg_types[0].ndim
    axes = sorted(axis % rank for axis in op.attrs["axes"])
    if axes[:1] == [0] and (extents_of(op.arg_types[0]) or (0,))[0] == 1:
        del axes[0]  # PyTorch makes channels of the batch, and names the rest of it, too
    if op.attrs["channel_axis"] % rank != 1 or axes != list(range(2, rank)):
        yield f"it normalises over axes {op.attrs['axes']} with the channels on {op.attrs['channel_axis']}"
    yield symbolic_problem(op, 1, "the scale")


def _affine_problems(op: OpView) -> Problems:
    """What may be wrong with data, scale and shift."""
    for type_, what in zip(op.arg_types, ("the data", "the scale", "the shift"), strict=True):
        yield tensor_problem(type_, what)
    yield result_problem(op)
    yield epsilon_problem(op)
    if not (op.attrs["center"] and op.attrs["scale"]):
        yield "it leaves out the scale or the shift"


def _last_axes_problem(op: OpView) -> str | None:
    """Why the normalised axes do not become one row, or None."""
    rank = op.arg_types[0].ndim
    axes = [axis % rank for axis in op.attrs["axes"]]
    if axes != list(range(rank - len(axes), rank)):
        return f"it normalises over axes {op.attrs['axes']}; only the last ones are known"
    outer = rank - len(axes)
    return f"{outer} axes are not normalised; known are 1 to 4" if not 1 <= outer <= 4 else None


@claims("relax.nn.softmax", "relax.nn.log_softmax")
def _softmax(op: OpView) -> Problems:
    yield from function_problems(op)


@claims(*REDUCTIONS, "relax.variance")
def _reduction(op: OpView) -> Problems:
    yield from function_problems(op)
    if not reduced_axes(op, op.arg_types[0].ndim):
        yield "it reduces no axis"


@claims("relax.nn.attention", "relax.nn.attention_bias")
def _attention(op: OpView) -> Problems:
    names = ("the queries", "the keys", "the values", "the bias")
    for type_, what in zip(op.arg_types, names, strict=False):
        yield tensor_problem(type_, what)
    yield result_problem(op)
    if op.attrs["window_size"] is not None:
        yield "it has a sliding window"
    if op.attrs["causal_mask"] not in CAUSAL:
        yield f"the mask {op.attrs['causal_mask']} is unknown"
    for index in (0, 2):
        if not isinstance((extents_of(op.arg_types[index]) or ())[-1], int):
            yield f"the depth of {names[index]} is symbolic"
    scale = op.attrs["scale"]
    if scale is not None and not finite(float(scale)):
        yield "the scale is not finite"
