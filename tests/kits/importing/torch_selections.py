"""Computations with the rows that a mask selects, which are put back or summed."""

from __future__ import annotations

import torch

__all__ = ["SELECTIONS"]

LAYERS = torch.nn.Sequential(
    torch.nn.Linear(8, 5), torch.nn.LayerNorm(5), torch.nn.GELU(), torch.nn.Linear(5, 8)
).requires_grad_(requires_grad=False)


def _assigned(x, mask, values):
    x = x.clone()
    x[mask] = values
    return x


def _in_place(x):
    x = x.clone()
    x[x > 0] *= 2
    x[x < 0] += 1
    return x


def _of_two(x):
    """The masks are computed anew, as exporters find them."""
    y = x.flip(-1)
    x = x.clone()
    x[y > 0] = y[y > 0] * 3 + x[y > 0]
    return x


def _rows(x):
    return x[..., 0] > 0


def _by_layers(x):
    return _assigned(torch.zeros_like(x), _rows(x), LAYERS(x[_rows(x)]))


def _by_heads(x):
    parts = x[_rows(x)].view(-1, 2, 4)
    return _assigned(x, _rows(x), (parts.softmax(-1) - parts.mean(1, keepdim=True)).flatten(1))


def _of_both(x):
    """One branch of two, one of which has branches itself."""

    def inner(y):
        return torch.cond(y.mean() > 1, torch.sin, torch.cos, (y,))

    return torch.cond(x.sum() > 0, lambda y: (y.exp(), y.sum()), lambda y: (inner(y), y.mean()), (x,))


SELECTIONS = {
    "branches": lambda x: (*_of_both(x), *_of_both(-x)),
    "one truth": lambda x: torch.cond((x.sum() > 0)[None], lambda y: y.sum(), lambda y: y.mean(), (x,)),
    "in place": _in_place,
    "of two tensors": _of_two,
    "beside one row": lambda x: _assigned(x, _rows(x), x[_rows(x)] + torch.arange(8.0)),
    "of columns": lambda x: _assigned(x[0, 0], x[0, 0] > 0, x[0, 0][x[0, 0] > 0].sqrt()),
    "by layers": _by_layers,
    "by parts of rows": _by_heads,
    "sum": lambda x: x[x > 0].sqrt().sum(),
    "mean": lambda x: x[x > 0].exp().mean(),
    "mean of rows": lambda x: (x[_rows(x)] ** 2).mean(0, keepdim=True),
    "sum of rows": lambda x: (x[_rows(x)] * 10).long().sum((0, 1)),
}
"""Functions of three axes, the last of 8 elements."""
