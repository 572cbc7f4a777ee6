"""Rules of dnnl switched off and on over networks: does advice predict regions and host ops?

    PYTHONPATH=tests python tests/advising/advice_campaign.py --models squeezenet,gru

For each op of a model that dnnl claims, its rule is replaced by one that declines. `ar.advise` then predicts
the regions if dnnl claimed these ops; that is compared with the placement where the rule is back.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import tvm
from kits.zoo.registry import onnx_network

import annotated_region as ar
from annotated_region.targets.rules import rules_of
from annotated_region.testing.light_models import LIGHT_MODELS, light_module
from annotated_region.testing.registry import claim_ops, temporary_registrations

ZOO = ("gru", "t5", "swin", "mobilenet_v3", "gpt2_decode", "graph_attention", "unet", "detr")
OFF = "switched off"


@dataclass(frozen=True)
class Outcome:
    """A rule of a model: regions and host ops as they were predicted, and as they are."""

    op: str
    predicted: tuple[int, int] | None
    found: tuple[int, int]


def module_of(name: str) -> tvm.IRModule:
    """A light model, or the first form of a network of the zoo; prepared."""
    if name in LIGHT_MODELS:
        return ar.passes.PrepareForInference(targets=["dnnl"])(light_module(name))
    network = onnx_network(name)
    mod = ar.from_onnx(network.proto(network.forms[0]))
    return ar.passes.PrepareForInference(targets=["dnnl"])(mod)


def counted(mod: tvm.IRModule) -> tuple[int, int]:
    """Regions and host ops."""
    (function,) = ar.explain(mod, ["dnnl"]).functions
    return len(function.regions), sum(op.placed == "host" for op in function.ops)


def outcomes(mod: tvm.IRModule) -> Iterator[Outcome]:
    """Each rule of dnnl that claims an op of a model, switched off."""
    (function,) = ar.explain(mod, ["dnnl"]).functions
    claimed = dict.fromkeys(op.op for op in function.ops if op.claims.get("dnnl"))
    found = counted(mod)
    for op in claimed:
        if op not in rules_of("dnnl"):
            continue
        with temporary_registrations():
            claim_ops("dnnl", op, answer=OFF)
            about = [each for each in ar.advise(mod, ["dnnl"]) if (each.op, each.reason) == (op, OFF)]
        largest = max(about, key=lambda each: len(each.ops), default=None)
        predicted = None if largest is None else (largest.regions_after, largest.host_after)
        yield Outcome(op, predicted, found)


def main() -> None:
    """Run, and print a row for each model."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default=",".join((*LIGHT_MODELS, *ZOO)))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sums: Counter[str] = Counter()
    rules: dict[str, None] = {}
    for name in options.models.split(","):
        rows = list(outcomes(module_of(name)))
        rules |= dict.fromkeys(row.op for row in rows)
        wrong = [row for row in rows if row.predicted != row.found]
        sums["rows"] += len(rows)
        sums["wrong"] += len(wrong)
        print(f"{name}: {len(rows)} rules, {len(wrong)} predicted wrongly", flush=True)
        for row in wrong:
            print(f"  {row.op}: predicted {row.predicted}, found {row.found}", flush=True)
    print(f"{len(rules)} rules, {sums['rows']} pairs of a rule and a model, {sums['wrong']} wrong")
    print(" ".join(rules))


if __name__ == "__main__":
    main()
