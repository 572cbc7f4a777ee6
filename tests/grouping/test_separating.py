"""Parts of a graph that a host vertex separates are grouped independently of each other."""

from collections.abc import Mapping
from random import Random

import networkx
import pytest
from kits.grouping.grouping_graphs import Graph, layered

from annotated_region.graphs import CycleError, Dag
from annotated_region.grouping import ColourLimits, group
from annotated_region.grouping.separating import separated

CONNECTED = {colour: ColourLimits(connected=True) for colour in range(3)}


def in_a_row(graphs: list[Graph]) -> tuple[Graph, list[int]]:
    """Graphs one behind the other, a host vertex before the first, between any two and behind the last."""
    successors: list[list[int]] = [[]]
    colours: list[int | None] = [None]
    offsets = []
    for inner, inner_colours in graphs:
        before, offset = len(successors) - 1, len(successors)
        offsets.append(offset)
        after = offset + len(inner)
        needed = {target for targets in inner for target in targets}
        successors[before] = [offset + vertex for vertex in range(len(inner)) if vertex not in needed]
        successors += [[offset + target for target in targets] or [after] for targets in inner]
        successors.append([])
        colours += [*inner_colours, None]
    return (successors, colours), offsets


def random_graphs(seed: int, colours: int) -> list[Graph]:
    random = Random(seed)
    found = []
    for _part in range(3):
        found.append(layered(random, random.randint(3, 6), random.randint(5, 8), colours))
    return found


@pytest.mark.parametrize("limits", [{}, CONNECTED], ids=["siblings", "connected"])
@pytest.mark.parametrize("seed", range(20))
def test_a_part_is_grouped_as_if_it_stood_alone(seed: int, limits: Mapping[int, ColourLimits]) -> None:
    parts = random_graphs(seed, 3)
    (successors, colours), offsets = in_a_row(parts)
    whole = group(Dag(successors), colours, limits=limits)
    alone = []
    for graph, offset in zip(parts, offsets, strict=True):
        (inner, inner_colours), (inside,) = in_a_row([graph])
        answer = group(Dag(inner), inner_colours, limits=limits)
        alone += [tuple(vertex - inside + offset for vertex in members) for members in answer.groups]
    assert list(whole.groups) == sorted(alone)


@pytest.mark.parametrize("seed", range(20))
def test_the_separators_are_the_hosts_that_all_else_is_before_or_behind(seed: int) -> None:
    successors, colours = layered(Random(seed), 2, 8)
    graph = networkx.DiGraph((v, target) for v, targets in enumerate(successors) for target in targets)
    graph.add_nodes_from(range(len(successors)))
    expected = [
        vertex
        for vertex in graph
        if colours[vertex] is None
        and len(networkx.ancestors(graph, vertex)) + len(networkx.descendants(graph, vertex))
        == len(graph) - 1
    ]
    inside = {vertex for part in separated(Dag(successors), colours, {}, ()) for vertex in part}
    assert not inside.intersection(expected)
    coloured = {vertex for vertex, colour in enumerate(colours) if colour is not None}
    assert not expected or coloured <= inside


def test_a_group_that_is_held_together_across_is_refused() -> None:
    with pytest.raises(CycleError):
        group(Dag([[1], [2], []]), [0, None, 0], fixed=[[0, 2]])


def test_a_cycle_inside_a_part_is_told_in_the_numbers_of_the_whole() -> None:
    # 0 -> 1 is separated from 2 -> 3 -> 4, where 2 and 4 are held together.
    with pytest.raises(CycleError) as caught:
        group(Dag([[1], [2], [3], [4], []]), [0, None, 0, 1, 0], fixed=[[2, 4]])
    assert sorted(vertex for block in caught.value.cycle for vertex in block) == [2, 3, 4]


def test_a_number_of_groups_counts_those_of_all_parts() -> None:
    grouping = group(Dag([[1], [2], [3], []]), [0, None, 0, 0], limits={0: ColourLimits(max_groups=1)})
    assert grouping.groups == ((2, 3),)


def test_predicates_are_asked_in_the_numbers_of_the_whole() -> None:
    asked = []

    def accept(vertices: list[int]) -> bool | str:
        asked.append(tuple(vertices))
        return True

    group(Dag([[1], [2], [3], []]), [0, None, 0, 0], limits={0: ColourLimits(accept=accept)})
    assert (2, 3) in asked
