"""Graph networks as PyTorch Geometric writes them: edges from a node to itself are replaced."""

from __future__ import annotations

import torch

__all__ = ["EDGES", "LISTS", "NODES", "Graph", "calls"]

WIDTH = 4


def _others(edges):
    return edges[0] != edges[1]


def _looped(x, edges):
    loops = torch.arange(x.shape[0]).view(1, -1).repeat(2, 1)
    return torch.cat([edges[:, _others(edges)], loops], 1)


def _added(data, index, count):
    """The sums of rows by their numbers."""
    index = index.view(-1, *[1] * (data.ndim - 1)).expand_as(data)
    return torch.zeros(count, *data.shape[1:]).scatter_add(0, index, data)


def _convolved(x, edges):
    """`GCNConv`: neighbours weighted by the degrees of both nodes."""
    source, destination = _looped(x, edges)
    weights = torch.ones(source.shape[0])
    degrees = _added(weights, destination, x.shape[0]).pow(-0.5)
    weights = degrees[source] * weights * degrees[destination]
    return _added(
        weights.view(-1, 1) * (x @ torch.eye(WIDTH)).index_select(0, source), destination, x.shape[0]
    )


def _attended(x, edges):
    """`GATConv`: a softmax over the neighbours of each node."""
    source, destination = _looped(x, edges)
    heads = x.view(-1, 2, WIDTH // 2)
    scores = heads.sum(-1).index_select(0, source) + heads.mean(-1).index_select(0, destination)
    rows = destination.view(-1, 1).expand_as(scores)
    largest = torch.zeros(x.shape[0], 2).scatter_reduce(0, rows, scores, "amax", include_self=False)
    powers = (scores - largest.index_select(0, destination)).exp()
    parts = powers / _added(powers, destination, x.shape[0]).index_select(0, destination)
    return _added(parts.unsqueeze(-1) * heads.index_select(0, source), destination, x.shape[0]).flatten(1)


def _weighted(x, edges):
    """`add_remaining_self_loops`: a loop has the weight of the last edge from its node to itself."""
    weights, others = x[edges[0], 0] * x[edges[1], 1], _others(edges)
    loops = torch.ones(x.shape[0])
    loops[edges[0][~others]] = weights[~others]
    joined = torch.cat([weights[others], loops])
    source, destination = _looped(x, edges)
    return _added(joined.unsqueeze(-1) * x[source], destination, x.shape[0]), loops


def _reduced(x, edges):
    """Without loops, so that some nodes have no edge: these keep what the table has."""
    source, destination = edges[:, _others(edges)]
    rows = destination.view(-1, 1).expand(-1, WIDTH)
    return [
        torch.ones_like(x).scatter_reduce(0, rows, x[source], kind, include_self=included)
        for kind in ("amax", "amin", "mean", "sum")
        for included in (False, True)
    ]


def _listed(x, edges):
    """Edges that stand for no edge have the number -1, which no node has."""
    source, destination = edges
    source = torch.where(source == 0, -1, source)
    real = source >= 0
    sums = torch.zeros_like(x).index_add(0, destination[real], x[source[real]].exp())
    from_end = destination[real] - x.shape[0]
    return sums, torch.zeros_like(x).index_put((from_end,), x[source[real] - x.shape[0]], accumulate=True)


def _through_layers(x, edges):
    """Loops before the edges, pairs of nodes through a layer, and columns as rows."""
    pairs = torch.cat([torch.arange(x.shape[0]).repeat(2, 1), edges[:, _others(edges)]], 1)
    both = torch.cat([x[pairs[0]], x[pairs[1]]], -1)
    messages = (both @ torch.ones(2 * WIDTH, 3) + torch.arange(3.0)).softmax(-1)
    columns = messages.permute(1, 0)
    return torch.zeros(3, x.shape[0]).scatter_add(1, pairs[1:].expand_as(columns), columns)


EDGES = {
    "convolved": _convolved,
    "attended": _attended,
    "weighted": _weighted,
    "reduced": _reduced,
    "listed": _listed,
    "through layers": _through_layers,
}


def _of_two_lists(x, edges):
    """As many rows by chance: those of one mask are scattered by the numbers of another one."""
    one, other = _others(edges), edges[0] != 0
    torch._check(edges[0][one].shape[0] == edges[0][other].shape[0])
    return torch.zeros_like(x).index_add(0, edges[0][one], x[edges[1][other]])


LISTS = {
    "of two lists": _of_two_lists,
    "given": lambda x, edges: (edges[:, _others(edges)], x),
    "joined otherwise": lambda x, edges: _added(
        torch.cat([x, x[edges[0][_others(edges)]]]), _looped(x, edges)[0], x.shape[0]
    ),
}
"""What depends on the rows of a list in another way."""


class Graph(torch.nn.Module):
    """A function of nodes and edges."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, edges):
        return self.function(x, edges)


NODES = ((5, 9), (3, 4), (8, 30))


def calls():
    """Nodes and edges, some of them from a node to itself; none in the second call, all in the last."""
    generator = torch.Generator().manual_seed(3)
    for nodes, edges in NODES:
        x = torch.randn(nodes, WIDTH, generator=generator)
        pairs = torch.randint(nodes, (2, edges), generator=generator)
        if nodes == 5:
            pairs[:, :2] = torch.tensor([[1, 2], [1, 2]])
        elif nodes == 3:
            pairs[1] = (pairs[0] + 1) % nodes
        yield x, pairs
    yield x, pairs[:1].repeat(2, 1)
