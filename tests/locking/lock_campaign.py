"""Random edits by the hundred, on light models and generated graphs: what a lock keeps, and what it costs.

PYTHONPATH=tests python tests/locking/lock_campaign.py --edits 200 --seed 0 --models light
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from random import Random

import tvm
from kits.locking.edited_models import EDITS, edited
from kits.locking.lock_laws import Replayed, replayed

import annotated_region as ar
from annotated_region.testing.generated import inception, layered, residual
from annotated_region.testing.light_models import LIGHT_MODELS, light_module
from annotated_region.testing.registry import claim_ops, temporary_registrations

__all__ = ["generated_models", "light_models", "outcomes"]

GENERATED_OPS = ("relax.nn.relu", "relax.tanh", "relax.sigmoid")
LIGHT_OPS = ("relax.nn.relu", "relax.tanh", "relax.sigmoid", "relax.erf", "relax.sin")

Case = tuple[str, tvm.IRModule, list[str], tuple[str, ...], ar.Policy, ar.CostModel]


def generated_models(random: Random) -> Iterator[Case]:
    """Graphs without end, small ones and larger ones, for two targets that overlap."""
    while True:
        seed = random.randrange(10**6)
        width, depth = random.choice([(4, 6), (8, 8), (8, 16), (16, 16)])
        name = random.choice(["layered", "layered", "residual", "inception"])
        mod = residual(90) if name == "residual" else inception(200)
        mod = layered(width, depth, seed) if name == "layered" else mod
        for policy_name in ("priority", "least cost"):
            model = ar.RooflineCost()
            policy = ar.Priority(["sketch", "pencil"]) if policy_name == "priority" else ar.LeastCost(model)
            yield f"{name} {policy_name}", mod, ["sketch", "pencil"], GENERATED_OPS, policy, model


def light_models(random: Random) -> Iterator[Case]:
    """The light models, prepared, for dnnl alone and for it and ONNX Runtime."""
    known = {}
    while True:
        name = random.choice(LIGHT_MODELS)
        if name not in known:
            known[name] = ar.passes.PrepareForInference()(light_module(name))
        model = ar.RooflineCost()
        targets = random.choice([["dnnl"], ["onnxruntime", "dnnl"]])
        policy = random.choice([ar.Priority(targets), ar.LeastCost(model)])
        yield f"{name} {'+'.join(targets)}", known[name], targets, LIGHT_OPS, policy, model


def outcomes(cases: Iterator[Case], edits: int, random: Random) -> Iterator[tuple[str, Replayed]]:
    """What came of each of a number of edits."""
    done = 0
    kinds = list(EDITS)
    while done < edits:
        name, mod, targets, ops, policy, model = next(cases)
        before = ar.explain(mod, targets, policy, prepare=False)
        for kind in kinds:
            change = edited(mod, kind, random, ops)
            if change is not None and done < edits:
                done += 1
                what = f"{name}: {change.what}"
                yield what, replayed(before, change.mod, change.touched, targets, policy, model)


def main() -> None:
    """Run a campaign, and print its sums and its worst."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--edits", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", choices=["light", "generated"], default="generated")
    options = parser.parse_args()
    random = Random(options.seed)
    with temporary_registrations():
        claim_ops("sketch", "relax.nn.relu", "relax.add", "relax.sigmoid")
        claim_ops("pencil", "relax.tanh", "relax.add", "relax.multiply")
        cases = light_models(random) if options.models == "light" else generated_models(random)
        found = list(outcomes(cases, options.edits, random))
    unchanged = sum(each.unchanged for _what, each in found)
    moved = sum(len(each.moved) for _what, each in found)
    renamed = sum(len(each.renamed) for _what, each in found)
    dear = [(each.cost / each.anew, what) for what, each in found if each.anew]
    print(f"{len(found)} edits, {unchanged} ops that they did not touch")
    print(f"{moved} on another target, {renamed} in a region of another id: ", end="")
    print(f"{1 - (moved + renamed) / unchanged:.4%} kept")
    print(f"cost beside placing anew: mean {sum(ratio for ratio, _ in dear) / len(dear):.4f}")
    print(f"{sum(ratio > 1.02 for ratio, _ in dear)} above 1.02")
    for ratio, what in sorted(dear, reverse=True)[:8]:
        print(f"  {ratio:.4f} {what}")
    for what, each in sorted(found, key=lambda item: -len(item[1].moved) - len(item[1].renamed))[:12]:
        print(f"  {len(each.moved)} moved, {len(each.renamed)} renamed of {each.unchanged}: {what}")


if __name__ == "__main__":
    main()
