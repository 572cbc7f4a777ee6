"""Functions of PyTorch that TVM converts to something else, or refuses: by groups and names."""

from __future__ import annotations

import math

import torch
from torch.nn import functional

from kits.importing.torch_images import IMAGES, SIZES
from kits.importing.torch_operands import numbers, roots, table, tenths, zeros_among
from kits.importing.torch_refusals import REFUSED
from kits.importing.torch_selections import SELECTIONS
from kits.importing.torch_slices import every_other, every_third_column
from kits.importing.torch_special import SPECIAL

__all__ = ["GROUPS", "IMAGES", "REFUSED", "WIDTH", "Each", "flat", "seeded"]

WIDTH = 8
NIBBLES = torch.arange(0, 32, 4, dtype=torch.int32)


ARITHMETIC = {
    "reciprocals of whole numbers": lambda x: torch.reciprocal((4 * x).to(torch.int64) * 2 + 1),
    "reciprocals of truth values": lambda x: 1 / (x < 100),
    "a factor of the second operand": lambda x: (
        torch.add(x, x * x, alpha=2.5) + torch.sub(x, x * x, alpha=0.5)
    ),
    "a reversed difference": lambda x: torch.rsub(x, 3, alpha=2) + (1 - x),
    "a whole number times a float": lambda x: x + (torch.arange(x.shape[1]) * 0.5)[:, None],
    "whole numbers divided": lambda x: x + (torch.arange(x.shape[1]) / 4)[:, None] + numbers(x) / 3,
    "by other whole numbers": lambda x: numbers(x) / torch.arange(1, WIDTH + 1),
    "rounded quotients": lambda x: (
        torch.div(numbers(x), 3, rounding_mode="trunc") + torch.div(numbers(x), 4, rounding_mode="floor")
    ),
    "rounded quotients of floats": lambda x: (
        torch.div(x * 9, 2.5, rounding_mode="trunc") + torch.div(x * 9, 2.5, rounding_mode="floor")
    ),
    "rests": lambda x: (numbers(x) % 3, torch.fmod(numbers(x), 3), torch.remainder(x, 0.7), numbers(x) // -3),
    "rests of tenths": lambda x: tenths(torch.arange(-30, 31) * 0.1 + x[0, 0, 0] * 0),
    "truth values times numbers": lambda x: (x > 0) * 2.5 + x + (x > 1) * -1e4,
    "truth values times truth values": lambda x: (x > 0) * (x < 1),
    "a whole number beside truth values": lambda x: 1 - (x > 0).long() + (x < 1),
    "comparisons with floats": lambda x: (numbers(x) > 0.5, numbers(x) <= x, (x > 0) == 1),
    "bounds of whole numbers": lambda x: (
        numbers(x).clamp(min=0) + numbers(x).clamp(max=2) + numbers(x).clamp(-1, 1)
    ),
    "bounds that are tensors": lambda x: (
        x[0].clamp(x - 1, x + 0.5),
        x[:, :1].clamp(min=x),
        numbers(x).clamp_max(numbers(x[:1, 0])),
        numbers(x).clamp(x[0, 0], None),
        (x > 0).clamp(min=x[:1] > 1),
    ),
    "bounds that are extents": lambda x: (x.clamp(max=x.shape[0]), numbers(x).clamp(-1, x.shape[1] - 6)),
    "bounds that cross": lambda x: (x.clamp(0.5, -0.5), numbers(x).clamp(2, -2), x.clamp(-0.5, 0.5)),
    "truth values compared": lambda x: ((x > 0) >= (x > 1), (x.amax() > 0) == (x > 0), (x > 0) < (x < 1)),
    "choices of several types": lambda x: torch.where(x > 0, x, 0) + torch.where(x > 0.5, numbers(x), x),
    "powers of whole numbers": lambda x: x + 2.0 ** torch.arange(x.shape[1])[:, None],
    "powers of even numbers": lambda x: (
        2 ** torch.arange(x.shape[1] * 9),
        2 ** (numbers(x).int() * 9),
        (-6) ** (numbers(x) + 60),
    ),
    "bits that are moved": lambda x: (
        numbers(x) >> 1,
        numbers(x).int() << 3,
        numbers(x).to(torch.int8) >> 2,
        numbers(x).to(torch.uint8) >> 4,
        torch.bitwise_right_shift(numbers(x).int()[:, :, None], NIBBLES[:, None]) & 15,
        torch.bitwise_left_shift(torch.tensor(1), numbers(x).abs()),
        1 << numbers(x).abs(),
    ),
    "the larger extent": lambda x: torch.arange(torch.sym_max(x.shape[1], 6) + torch.sym_min(x.shape[1], 6)),
    "extents": lambda x: x / x.shape[1] + x.shape[1] * x,
}

INDEXING = {
    "side by side": lambda x: x[:, torch.tensor([0, 2, 1]), torch.tensor([3, 4, 6])],
    "stretched": lambda x: x[:, torch.tensor([[0], [2]]), torch.tensor([[3, 4, 6]])],
    "of rank 3": lambda x: x[:, torch.tensor([[[0, 1]], [[2, 3]]]), torch.tensor([[[3, 4]], [[5, 6]]])],
    "apart": lambda x: x[torch.zeros(2, dtype=torch.long), :, torch.tensor([1, 5])],
    "in front": lambda x: x[torch.arange(x.shape[0]), torch.ones(x.shape[0], dtype=torch.long)],
    "from the end": lambda x: x[:, torch.arange(3) - 3],
    "from the end by data": lambda x: x.flatten(0, 1)[numbers(x)[:, :, 0].clamp(-3, 3).flatten()],
    "from the end, held": lambda x: x[:, torch.tensor([-1, 0, -2])],
    "the last valid": lambda x: x[torch.arange(x.shape[0]), (x[:, :, 0] > 0).long().sum(1) - 1],
    "put": lambda x: (x * 1).index_put((torch.tensor([0, 0]), torch.tensor([1, 3])), torch.ones(2, WIDTH)),
    "added": lambda x: (x * 1).index_put(
        (torch.zeros(3, dtype=torch.long), torch.tensor([1, -1, 1])), torch.ones(3, WIDTH), accumulate=True
    ),
    "one value for all": lambda x: put(x, [None, torch.tensor([0, 3])], torch.tensor(5.0)),
    "a row for all": lambda x: put(x, [None, torch.tensor([0, -1])], torch.arange(8.0)),
    "columns for all": lambda x: put(x, [None, None, torch.tensor([0, 3])], torch.tensor([1.0, 2.0])),
    "apart, put": lambda x: put(x, [torch.tensor([[0], [0]]), None, torch.tensor([1, -1, 4])], x[0, :, 0]),
    "a row added three times": lambda x: put(x, [None, torch.tensor([0, 3, 0, 0])], torch.arange(8.0), True),
    "rows put where true": lambda x: put(x, [counted(x)], torch.arange(32.0).reshape(4, WIDTH)),
    "after an assertion": lambda x: (torch._check_tensor_all(x < 100), x * 2)[1],
    "put where true": lambda x: put(put(x, [x > 0], torch.tensor(1.0)), [None, x[0, :, 0] > 0], x[:1, 0]),
    "added along an axis": lambda x: torch.zeros(x.shape[0], WIDTH).index_add(
        0, torch.arange(x.shape[0]).flip(0), x[:, 0]
    ),
}

SLICES = {
    "the last, kept": lambda x: x[:, :1] + x[:, -1:],
    "all but one": lambda x: x[:, 1:] + x[:, :-1],
    "columns": lambda x: x[:, -2] + x.select(2, -1)[:, :1],
    "assigned": lambda x: assigned(x * 1),
    "assigned by steps": lambda x: (every_other(x * 1), every_third_column(x * 1)),
    "assigned in the middle": lambda x: assigned_in_the_middle(x * 1),
    "the last, counted": lambda x: (
        x[:, -(x.shape[1] // 2) :],
        x[:, x.shape[1] // 2 : -1],
        x[:, : -(x.shape[1] // 2)],
    ),
}


def frames(x):
    """Overlapping frames of a sound, as in the features of Kaldi."""
    sound = x.reshape(-1).clone()
    return sound.as_strided((1 + (sound.shape[0] - 12) // 5, 12), (5, 1))


def elements_of_memory(x):
    """Elements of tensors of static extents, whose memory is not in the order of their axes."""
    whole = torch.arange(24.0).reshape(2, 3, 4) + x[0, 0, 0]
    return (
        whole.transpose(1, 2).as_strided((2, 12), (12, 1)),
        whole.permute(2, 0, 1).as_strided((3, 3, 2), (5, 1, 2), 3),
        whole[1:].as_strided((3, 4), (0, 3), 12),
        whole.as_strided((4, 6), (6, 1)),
        whole.as_strided((5,), (1,)),
    )


def last_rows(x):
    """Rows at the end of a table of 16, as many as x has, and what an exporter does not know to be one."""
    table = torch.arange(16 * WIDTH).reshape(1, 16, WIDTH) * 0.1
    rows = table[max(0, 1 - x.shape[1]) :, max(0, 16 - x.shape[1]) :]
    return x + rows, torch.where(x > 0, rows, x)


VIEWS = {
    "frames": frames,
    "elements of memory": elements_of_memory,
    "whole windows": lambda x: (
        functional.pad(x, (0, 0, 0, math.ceil(x.shape[1] / 4) * 4 - x.shape[1]))
        .view(x.shape[0], math.ceil(x.shape[1] / 4), 4, 8)
        .sum(2)
    ),
    "the last rows of a table": last_rows,
    "an extent that is left out": lambda x: (
        x.reshape(x.shape[0], -1, 2, 4),
        x.repeat(1, 2, 1).view(x.shape[0], x.shape[1], -1, 2, 4).sum(2),
        functional.pad(x, (0, 0, 0, -x.shape[1] % 4)).reshape(x.shape[0], -1, 4, WIDTH).sum(2),
    ),
    "a number repeated": lambda x: (
        torch.tensor(0.5).expand(x.shape[0], 3),
        x[0, 0, 0].expand(x.shape[1], x.shape[0]) + 1,
        x.index_fill(2, torch.tensor([0, 2]), -1.5),
    ),
    "repeated by rows": lambda x: x[:, :1].repeat(1, x.shape[1], 1) + x,
    "repeated by rows in front": lambda x: x[0, 0].repeat(x.shape[1], 2),
    "beside other types": lambda x: torch.cat([x, numbers(x), x > 0], 1),
    "beside an empty list": lambda x: torch.cat([x.new_zeros(0), x, torch.zeros(0)], 1),
    "windows along rows": lambda x: functional.pad(x, (0, 0, 3, 0)).unfold(1, 3, 2),
    "around": lambda x: functional.pad(x, (2, 1), mode="circular"),
    "around rows": lambda x: functional.pad(x.transpose(1, 2), (1, 1), mode="circular"),
    "stretched": lambda x: (
        functional.interpolate(x.transpose(1, 2), size=5),
        functional.interpolate(x.transpose(1, 2), scale_factor=2),
        functional.interpolate(x.transpose(1, 2), size=5, mode="linear"),
        functional.interpolate(x[None], size=(9, 5)),
    ),
    "copied": lambda x: (
        torch.ops.aten.permute_copy(x, [2, 0, 1]),
        torch.ops.aten.view_copy(x, [-1, 4]),
        torch.ops.aten.narrow_copy(x, 2, 1, 3),
        *torch.ops.aten.unbind_copy(x, 2)[:2],
    ),
    "windows": lambda x: (x.unfold(2, 3, 2), x[:, :1].unfold(-1, 4, 5)),
    "a count rounded up": lambda x: x[0, 0].repeat(-(-x.shape[1] // 4), 1),
    "padded to whole blocks": lambda x: functional.pad(x, (0, 0, x.shape[1], -x.shape[1] % 4), value=2.0),
}

PARTS = {
    "without axes of one": lambda x: (x[:, None].squeeze(), x[:, :1].squeeze(), x[None].squeeze((0, 1))),
    "halves": lambda x: (*torch.chunk(x, 2, 1), *torch.chunk(x, 2, 0)),
}

SCATTERS = {
    "fewer places than elements": lambda x: torch.zeros_like(x).scatter(
        2, numbers(x)[..., :2].abs().clamp(max=7), x
    ),
    "in order where true": lambda x: (
        x.masked_scatter(x > 0, x * 2),
        x[0, 0].masked_scatter(x > 0.5, torch.arange(x.shape[0] * x.shape[1] * WIDTH) * 1.0),
        numbers(x).masked_scatter(x[:, :, :1] > 0, numbers(x) + 9),
    ),
    "all of an axis": lambda x: torch.slice_scatter(x, x * 2, 2, 0, WIDTH),
    "means": lambda x: (
        x.scatter_reduce(1, numbers(x).abs() % 5, x * 2, "mean"),
        x.scatter_reduce(1, numbers(x).abs() % 5, x * 2, "mean", include_self=False),
        numbers(x).scatter_reduce(2, numbers(x).abs() % 8, numbers(x) * 3, "mean"),
    ),
    "without those before": lambda x: [
        x.scatter_reduce(2, numbers(x).abs() % 8, x * 2, name, include_self=False)
        for name in ("sum", "prod", "amax", "amin")
    ],
    "whole numbers without those before": lambda x: [
        y.scatter_reduce(2, numbers(x).abs() % 8, y, name, include_self=False)
        for name in ("sum", "amax", "amin")
        for y in (numbers(x), x > 0)
    ],
    "by indices": lambda x: [
        x.index_reduce(2, torch.tensor([1, 3, 1]), x[..., :3], name, include_self=includes)
        for name, includes in (("mean", True), ("amax", False), ("prod", True))
    ],
    "sums and products": lambda x: [
        y.scatter(2, numbers(x).abs() % 8, y, reduce=name)
        for name in ("add", "multiply")
        for y in (x, numbers(x), x > 0)
    ],
    "sums of truth values": lambda x: (x > 1).scatter_add(1, numbers(x).abs() % 5, x > 0),
    "sums": lambda x: torch.zeros_like(x).scatter_add(1, torch.zeros_like(x, dtype=torch.long), x),
    "fewer places along all axes": lambda x: torch.zeros_like(x).scatter(
        2, numbers(x)[:, :3, :2].abs().clamp(max=7), x
    ),
    "the largest": lambda x: torch.zeros_like(x).scatter_reduce(
        2, numbers(x).abs().clamp(max=7), x, "amax", include_self=True
    ),
}

REDUCTIONS = {
    "a running sum of one number": lambda x: (torch.cumsum(x.sum(), 0), torch.cumsum(x.amax() > 0, 0)),
    "extremes": lambda x: (x.amax(1), x.amin((1, 2), keepdim=True), x.amax(), numbers(x).amin(-1), *x.min(2)),
    "of one number": lambda x: (*x.sum().max(0), x.sum().argmax(), *(x.sum() > 0).min(0)),
    "of truth values": lambda x: (
        (x > -9).prod(),
        numbers(x).sign().prod(),
        (x > 0).amax(),
        (x > 2).max(),
        *(x > 0).max(1),
        *(x > 0).min(2, keepdim=True),
    ),
    "truth of bytes": lambda x: (
        (x > 2).to(torch.uint8).any(),
        numbers(x).abs().to(torch.uint8).any(1),
        (x > 2).to(torch.int8).any(2),
    ),
    "medians of bytes": lambda x: (
        numbers(x).to(torch.uint8).median(),
        numbers(x).to(torch.int8).median(2).values,
        numbers(x).to(torch.uint8)[0, 0, 0].median(),
        (numbers(x) * 99).to(torch.int16).median(1, keepdim=True).values,
    ),
    "products": lambda x: (x.prod(1), numbers(x).prod(2), (x > -1).prod(2)),
    "truth": lambda x: ((x > 5).any(), (x > -9).all(), (x > 0).any(1), (x * (x > 1)).any(2)),
    "counts": lambda x: ((x > 0).cumsum(1), (x > 0).sum(1), numbers(x).int().cumsum(2)),
    "deviations": lambda x: (
        x.std(1),
        x.var(2),
        *torch.var_mean(x, 1),
        x.var(1, correction=0),
        x.std((1, 2)),
    ),
}


def assigned(y):
    y[:, 1:] = 2.0
    y[:, -1] = 0.0
    y[:, :, 2:5] = 1.0
    return y


def assigned_in_the_middle(y):
    y[:, 1:3] = 0.0
    y[:, y.shape[1] // 2 : -1] = 1.0
    y[:, -2:] = y[:, :2]
    return y


def counted(x):
    """True for four rows of x, from the second on."""
    places = torch.arange(x.shape[0] * x.shape[1]).reshape(x.shape[:2])
    return (places > 0) & (places < 5)


def put(x, places, values, accumulate=False):
    return torch.ops.aten.index_put(x * 1, places, values, accumulate)


NUMBERS = {
    "extremes so far": lambda x: (
        torch.cummax(numbers(x), 1)[0],
        torch.cummin(numbers(x).int(), -1)[0],
        torch.cummax(numbers(x)[:, 0, 0], 0).values,
    ),
    "extremes so far, and their places": lambda x: (
        *torch.cummax((x * 2).round(), 1),
        *torch.cummin(torch.where(x > 1, torch.nan, x), -1),
        *torch.cummax(torch.where(x < 0, -torch.inf, x), 0),
        *torch.cummin(numbers(x), 1),
    ),
    "logarithms of sums so far": lambda x: (
        torch.logcumsumexp(x * 40, 1),
        torch.logcumsumexp(torch.where(x < 0, -torch.inf, x), -1),
        torch.logcumsumexp(torch.where(x > 1, torch.inf, x), 0),
    ),
    "falling ranges": lambda x: (
        torch.arange(12, -12, -1),
        torch.arange(12, -11, -2),
        torch.arange(7, 0, -3, dtype=torch.float32),
        torch.arange(x.shape[1] - 1, -1, -1),
        torch.arange(x.shape[1], -x.shape[1], -1.0, dtype=torch.int64) + torch.zeros(2 * x.shape[1]),
        torch.arange(1, 2 * x.shape[1] + 1, 2.0) + torch.zeros(x.shape[1]),
        torch.arange(x.shape[1] + 9, -x.shape[0], -4, dtype=torch.int32),
    ),
    "ranges of fractions": lambda x: (
        torch.stack(torch.meshgrid(torch.arange(0.5, x.shape[1]), torch.arange(0.5, 3), indexing="ij")),
        torch.arange(x.shape[1], 0, -0.25)[: x.shape[1]] * x[0, 0, 0],
        torch.arange(-0.75, x.shape[1], 1.5, dtype=torch.float64),
        torch.arange(x.shape[0], x.shape[1] + 9, 0.5, dtype=torch.float16),
    ),
    "of whole numbers": lambda x: (
        torch.exp(numbers(x)),
        torch.cos(numbers(x)),
        torch.rsqrt(numbers(x).abs() + 1),
        torch.log2(numbers(x).abs() + 1),
        torch.log10(numbers(x).abs() + 1),
        torch.log1p(numbers(x).abs()),
        torch.expm1(numbers(x).clamp(max=2)),
        torch.sigmoid(x > 0),
        torch.erf(numbers(x)),
    ),
    "powers of two": lambda x: (torch.exp2(x), torch.exp2(numbers(x)), torch.ldexp(x, numbers(x))),
    "signs": lambda x: (torch.signbit(zeros_among(x)), torch.signbit(numbers(x))),
    "copied signs": lambda x: (
        torch.copysign(x, zeros_among(x.flip(0))),
        torch.copysign(numbers(x), -0.0),
        torch.copysign(x, -1.5),
    ),
    "extremes beside no numbers": lambda x: (
        torch.fmax(roots(x), x),
        torch.fmin(x, roots(x)),
        torch.fmax(numbers(x), numbers(-x)),
        torch.fmin(roots(x), roots(-x)),
    ),
    "angles": lambda x: (
        torch.atan2(x, x.flip(2)),
        torch.atan2(zeros_among(x), zeros_among(x.flip(2))),
        torch.atan2(zeros_among(x), -zeros_among(x.flip(2)).abs()),
        torch.atan2(x * math.inf, x.flip(2) * math.inf),
        torch.atan2(x, x.flip(2) * math.inf),
        torch.atan2(numbers(x), x),
    ),
    "floats of extents": lambda x: (
        x * (1 / x.shape[1]),
        x[..., :2] / torch.tensor([x.shape[1] + 1, x.shape[0] / 2]) + torch.tensor(x.shape[1]),
        x * x.shape[1] ** -0.5 + 1 / torch.sym_sqrt(x.shape[1]),
        x / (x.shape[1] / 3),
    ),
    "in order": lambda x: torch.sort(numbers(x), dim=1, descending=True, stable=True),
    "truth values in order": lambda x: torch.sort(x > 0, dim=2, stable=True),
    "places in sorted rows": lambda x: (
        torch.searchsorted(torch.arange(8.0) * 0.4 - 1, x),
        torch.searchsorted(x.sort().values, x * 0.9, right=True),
        torch.searchsorted(x.sort().values, x, out_int32=True),
        torch.searchsorted(torch.arange(8.0) * 0.4 - 1, 0.2, side="right") + numbers(x)[0, 0, 0] * 0,
        torch.searchsorted(torch.arange(-4, 4), x),
        torch.bucketize(x, torch.arange(8.0) * 0.4 - 1),
        torch.bucketize(numbers(x), torch.arange(-4, 4), right=True, out_int32=True),
        torch.bucketize(0.2, torch.arange(8.0) * 0.4 - 1) + numbers(x)[0, 0, 0] * 0,
        torch.bucketize(x, torch.arange(600.0) * 0.01 - 3),
    ),
    "one of the smallest": lambda x: (
        *torch.kthvalue(x, 3),
        *torch.kthvalue(x.transpose(1, 2), 8, 1, keepdim=True),
    ),
    "diagonals": lambda x: [
        torch.diagonal(x[:, None].expand(-1, 5, -1, -1) + torch.arange(5)[:, None, None], each, 1, 3)
        for each in (0, 2, -1, 9)
    ],
    "beside a sum": lambda x: (
        torch.addmv(x[0, :, 0], x[0], torch.ones(WIDTH), beta=2, alpha=0.5),
        torch.addbmm(x[0, :, :3], x, x[:, :3].transpose(1, 2), beta=0),
    ),
    "places of triangles": lambda x: (
        torch.tril_indices(5, WIDTH, 1),
        torch.tril_indices(5, WIDTH, -1) + numbers(x)[0, 0, 0],
        torch.triu_indices(WIDTH, 4, 1, dtype=torch.int32) + numbers(x)[0, 0, 0].int(),
        (x.transpose(1, 2) @ x)[:, torch.tril_indices(WIDTH, WIDTH)[0], torch.tril_indices(WIDTH, WIDTH)[1]],
    ),
    "distances of rows": lambda x: [
        torch.cdist(x, x.flip(2) * 2, p=order, compute_mode="donot_use_mm_for_euclid_dist")
        for order in (2.0, 1.0, 0.0, 3.5, math.inf)
    ],
    "bags of rows": lambda x: [
        functional.embedding_bag(
            numbers(x).flatten().abs(), table(x), torch.tensor([0, 3, 3, 5]), mode=mode, padding_idx=padding
        )
        for mode in ("sum", "mean", "max")
        for padding in (None, 1)
    ],
    "bags of one length": lambda x: functional.embedding_bag(
        numbers(x)[:, 0].abs(), table(x), per_sample_weights=x[:, 0], mode="sum"
    ),
    "bags with their end": lambda x: functional.embedding_bag(
        numbers(x)[0, 0].abs(), table(x), torch.tensor([0, 2, 8]), include_last_offset=True
    ),
    "two vectors and a matrix": lambda x: functional.bilinear(
        x, x.flip(2), torch.arange(3.0 * WIDTH * WIDTH).reshape(3, WIDTH, WIDTH) / 99, torch.arange(3.0)
    ),
}

NORMS = {
    "of instances": functional.instance_norm,
    "of instances, scaled": lambda x: functional.instance_norm(
        x, weight=torch.arange(3.0), bias=torch.ones(3), eps=0.1
    ),
    "of running statistics": lambda x: functional.instance_norm(
        x, torch.arange(3.0), torch.arange(3.0) + 1, use_input_stats=False
    ),
    "statistics of a batch": lambda x: torch.native_batch_norm(
        x, torch.arange(3.0), None, torch.zeros(3), torch.ones(3), True, 0.1, 1e-5
    ),
    "running statistics of a batch": lambda x: torch.ops.aten._native_batch_norm_legit_functional(
        x, None, torch.ones(3), torch.arange(3.0), torch.arange(3.0) + 1, True, 0.3, 1e-5
    ),
    "statistics of layers": lambda x: (
        *torch.native_layer_norm(x, (12, 14), None, None, 1e-5),
        *torch.native_layer_norm(x, (14,), torch.arange(14.0), torch.ones(14), 0.1),
    ),
}

GROUPS = {
    "selections": SELECTIONS,
    "arithmetic": ARITHMETIC,
    "indexing": INDEXING,
    "slices": SLICES,
    "views": VIEWS,
    "scatters": SCATTERS,
    "reductions": REDUCTIONS,
    "parts": PARTS,
    "images": IMAGES,
    "sizes": SIZES,
    "norms": NORMS,
    "numbers": NUMBERS,
    "special": SPECIAL,
}


class Each(torch.nn.Module):
    """The results of several functions of one input."""

    def __init__(self, functions):
        super().__init__()
        self.functions = functions

    def forward(self, x):
        return tuple(flat([function(x) for function in self.functions]))


def flat(results):
    return [each for one in results for each in (one if isinstance(one, list | tuple) else (one,))]


def seeded(*shape):
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator)
