"""The large comparison of the grouping engine with brute force and with its peers, as Markdown tables.

Run as ``PYTHONPATH=tests python tests/grouping/grouping_campaign.py --examples 20000 --seed 0``; the
figures in ``docs/merging.md`` come from it.
"""

import argparse
from collections import Counter
from collections.abc import Iterator
from random import Random
from statistics import mean

from kits.grouping.grouping_graphs import Graph, layered, random_graph
from kits.grouping.grouping_oracle import fewest_groups, is_valid, kahn_waves, tvm_style

from annotated_region.graphs import Dag
from annotated_region.grouping import ColourLimits, Grouping, group

SHAPES = ((4, 6), (8, 8), (8, 16), (16, 16))


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--examples", type=int, default=20_000, help="random graphs for each row of the first table"
    )
    parser.add_argument("--layered", type=int, default=2_000, help="layered graphs in the second table")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print("| groups | colours | limit | effort | valid | optimal | one more | worse | bound is tight |")
    print("|---|---|---|---|---|---|---|---|---|")
    for connected in (False, True):
        for colours in (1, 2):
            for limit, examples in ((None, options.examples), (2, options.examples // 10)):
                for row in against_brute_force(options.seed, examples, connected, colours, limit):
                    print(row, flush=True)
    print()
    print(
        "| shape | graphs | valid: ours / TVM's way | connected: ours / bound / TVM's way where valid "
        "| more than TVM's way | siblings: ours / Kahn waves | more than Kahn |"
    )
    print("|---|---|---|---|---|---|---|")
    for width, depth in SHAPES:
        print(against_peers(options.seed, options.layered // len(SHAPES), width, depth), flush=True)


def solve(graph: Graph, limits: ColourLimits, effort: int = 2) -> Grouping:
    """The engine's answer, all colours under the same limits."""
    return group(Dag(graph[0]), graph[1], limits=dict.fromkeys(range(3), limits), effort=effort)


def against_brute_force(
    seed: int, examples: int, connected: bool, colours: int, limit: int | None
) -> Iterator[str]:
    """One row for each effort: constructive strategies, with refinement, with the exact search."""
    limits = ColourLimits(connected, limit)
    rng = Random(f"{seed} {connected} {colours} {limit}")
    excess: list[Counter[int]] = [Counter(), Counter(), Counter()]
    valid = [0, 0, 0]
    tight = [0, 0, 0]
    for _ in range(examples):
        graph = random_graph(rng, colours=colours)
        optimum = fewest_groups(*graph, connected, lambda members: limit is None or len(members) <= limit)
        for effort in range(3):
            answer = solve(graph, limits, effort)
            valid[effort] += is_valid(graph[0], answer.groups)
            excess[effort][len(answer.groups) - optimum] += 1
            tight[effort] += answer.lower_bound == optimum
    for effort in range(3):
        share = [100 * excess[effort][more] / examples for more in (0, 1)]
        cells = ["connected" if connected else "siblings", colours, f"{limit or 'none'}", effort]
        cells += [f"{valid[effort]} of {examples}", f"{share[0]:.2f} %", f"{share[1]:.2f} %"]
        cells += [examples - excess[effort][0] - excess[effort][1], f"{100 * tight[effort] / examples:.1f} %"]
        yield f"| {' | '.join(map(str, cells))} |"


def against_peers(seed: int, examples: int, width: int, depth: int) -> str:
    """One row: mean counts, and how often a peer found fewer."""
    rng = Random(f"{seed} {width} {depth}")
    connected, bound, greedy, siblings, waves = [], [], [], [], []
    valid = worse = worse_than_waves = 0
    for _ in range(examples):
        graph = layered(rng, width, depth)
        answer, free, peer = solve(graph, ColourLimits(True)), solve(graph, ColourLimits()), tvm_style(*graph)
        valid += is_valid(graph[0], answer.groups) and is_valid(graph[0], free.groups)
        siblings.append(len(free.groups))
        waves.append(kahn_waves(*graph))
        worse_than_waves += siblings[-1] > waves[-1]
        if is_valid(graph[0], peer):
            connected.append(len(answer.groups))
            bound.append(answer.lower_bound)
            greedy.append(len(peer))
            worse += connected[-1] > greedy[-1]
    cells = [f"{width}x{depth}", examples, f"{valid} / {len(greedy)}"]
    cells += [f"{mean(connected):.2f} / {mean(bound):.2f} / {mean(greedy):.2f}", worse]
    cells += [f"{mean(siblings):.2f} / {mean(waves):.2f}", worse_than_waves]
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    main()
