"""Programs of PyTorch with the ops of mixtures of experts."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import library as operators
from torch.nn import functional

__all__ = [
    "WIDTH",
    "each_axis",
    "groups",
    "groups_program",
    "histograms",
    "mixture_program",
    "products_of_groups",
    "seeded",
    "unordered",
    "without_bounds",
]

WIDTH, HIDDEN, EXPERTS, CHOSEN = 16, 24, 5, 2


@operators.custom_op("annotated_region_tests::grouped_mm_fallback", mutates_args=())
def grouped_mm_fallback(rows: torch.Tensor, matrices: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    """The op that transformers exports instead of PyTorch's own, of its name and arguments."""
    return torch.from_numpy(products_of_groups(rows, matrices, offs))


@grouped_mm_fallback.register_fake
def _(rows, matrices, offs):
    return rows.new_empty(rows.shape[0], matrices.shape[2])


def products_of_groups(rows, matrices, ends):
    """Row by row."""
    groups = torch.searchsorted(ends.long(), torch.arange(rows.shape[0]), right=True)
    outside = torch.zeros_like(matrices[0])
    return torch.stack(
        [
            row @ (matrices[group] if group < len(ends) else outside)
            for row, group in zip(rows, groups.tolist(), strict=True)
        ]
    ).numpy()


class Function(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *given):
        return self.function(*given)


def seeded(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def groups(rows, ends):
    return seeded(rows, WIDTH), seeded(len(ends), WIDTH, HIDDEN), torch.tensor(ends, dtype=torch.int32)


def groups_program():
    """Any number of rows in three groups, of matrices that are inputs."""
    shapes = (({0: torch.export.Dim.DYNAMIC}, None, None),)
    return torch.export.export(
        Function(grouped_mm_fallback), groups(7, [2, 2, 6]), dynamic_shapes=shapes, strict=False
    )


def each_axis():
    """A program, its arguments, and its results by products of the parts, in float32."""
    ends = torch.tensor([2, 2, 6, 8], dtype=torch.int32)
    rows, columns, stack, other = (
        each.bfloat16() for each in (seeded(8, 16), seeded(16, 8), seeded(4, 16, 24), seeded(4, 8, 16))
    )
    bounds = [0, *ends.tolist()]
    parts = [slice(*each) for each in pairwise(bounds)]
    wide = [each.float() for each in (rows, columns, stack, other)]
    expected = [
        torch.cat([wide[0][part] @ wide[2][group] for group, part in enumerate(parts)]),
        torch.cat([wide[3][group] @ wide[1][:, part] for group, part in enumerate(parts)], 1),
        torch.stack([wide[1][:, part] @ wide[0][part] for part in parts]),
        wide[3] @ wide[2],
    ]
    product = torch._grouped_mm

    def function(rows, columns, stack, other, ends):
        return (
            product(rows, stack, offs=ends),
            product(other, columns, offs=ends),
            product(columns, rows, offs=ends),
            product(other, stack),
        )

    given = (rows, columns, stack, other, ends)
    return torch.export.export(Function(function), given), given, [each.numpy() for each in expected]


class Mixture(torch.nn.Module):
    """The best experts of each token, in the form in which transformers exports them."""

    def __init__(self):
        super().__init__()
        self.up = torch.nn.Parameter(seeded(EXPERTS, 2 * HIDDEN, WIDTH) / 4)
        self.down = torch.nn.Parameter(seeded(EXPERTS, WIDTH, HIDDEN) / 4)
        self.router = torch.nn.Parameter(seeded(EXPERTS, WIDTH))

    def forward(self, x):
        weights, numbers = self.chosen(x)
        chosen, order = torch.sort(numbers.reshape(-1))
        counts = torch.histc(chosen.float(), bins=EXPERTS, min=0, max=EXPERTS - 1)
        ends = torch.cumsum(counts, dim=0, dtype=torch.int32)
        gate, up = grouped_mm_fallback(x[order // CHOSEN], self.up.transpose(1, 2), ends).chunk(2, -1)
        said = grouped_mm_fallback(functional.silu(gate) * up, self.down.transpose(1, 2), ends)
        weighted = said * weights.reshape(-1)[order, None]
        back = torch.empty_like(order)
        back[order] = torch.arange(order.shape[0])
        return weighted[back].view(x.shape[0], CHOSEN, WIDTH).sum(1)

    def chosen(self, x):
        return torch.topk(torch.softmax(x @ self.router.T, -1), CHOSEN, -1)

    def one_by_one(self, x):
        """The same, one expert of one token after another."""
        weights, numbers = self.chosen(x)
        return torch.stack(
            [
                sum(
                    weight * (self.down[expert] @ self.hidden(expert, token))
                    for weight, expert in zip(some, those, strict=True)
                )
                for token, some, those in zip(x, weights, numbers.tolist(), strict=True)
            ]
        ).detach()

    def hidden(self, expert, token):
        gate, up = (self.up[expert] @ token).chunk(2, -1)
        return functional.silu(gate) * up


def mixture_program():
    model = Mixture().eval()
    shapes = ({0: torch.export.Dim.DYNAMIC},)
    return torch.export.export(model, (seeded(7, WIDTH),), dynamic_shapes=shapes, strict=False), model


def histograms():
    """A program, its module and its argument: numbers at and beside edges, and others."""
    edges = torch.arange(-3, 14) * 0.1
    beside = [torch.nextafter(edges, torch.tensor(each)) for each in (-9.0, 9.0)]
    others = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0])
    numbers = torch.cat([edges, *beside, others, seeded(60)]).reshape(4, -1)
    model = Function(
        lambda x: (
            torch.histc(x, 10, 0, 1),
            torch.histc(x, 7, -0.3, 0.9),
            torch.histc(x, 1, -1, 1),
            torch.histc((x * 4).nan_to_num(0, 9, -9).round(), 5, 0, 4),
            torch.histc(x.double(), 10, 0, 1),
        )
    )
    return torch.export.export(model, (numbers,)), model, (numbers,)


def without_bounds():
    return torch.export.export(Function(lambda x: torch.histc(x, 10)), (seeded(9),))


def unordered():
    model = Function(
        lambda x: (
            *torch.topk(x, 3, sorted=False),
            *torch.topk(x.T, 2, 1, False, False),
            *torch.topk(x.amax(), 1),
        )
    )
    return torch.export.export(model, (seeded(5, 7),)), model, (seeded(5, 7),)
