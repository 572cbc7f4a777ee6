"""The report of each light model accounts for every op once, and its page shows the regions of the data."""

from __future__ import annotations

import re
from collections import Counter

import pytest
import tvm
from kits.lighter_models import LIGHTER_MODELS
from tvm import relax

import annotated_region as ar
from annotated_region.testing.light_models import light_module

TARGETS = ["onnxruntime", "dnnl", "tensorrt"]


def walked(mod):
    """The ops of a module, by name and what they compute, found without anything of the project."""
    found = Counter()

    def visit(expr):
        if isinstance(expr, relax.SeqExpr):
            for binding in (binding for block in expr.blocks for binding in block.bindings):
                if isinstance(binding.value, tvm.ir.Call):
                    found[binding.var.name, binding.value.op.name] += 1

    relax.analysis.post_order_visit(mod["main"], visit)
    return found


@pytest.mark.parametrize("name", LIGHTER_MODELS)
def test_every_op_of_a_light_model_is_accounted_for_once(name, tmp_path):
    mod = ar.passes.PrepareForInference()(light_module(name))
    report = ar.explain(mod, TARGETS, prepare=False)
    (function,) = report.to_dict()["functions"]
    assert Counter((op["name"], op["op"]) for op in function["ops"]) == walked(mod)
    by_region = Counter(op["region"] for op in function["ops"] if op["region"] is not None)
    assert by_region == {region["id"]: len(region["ops"]) for region in function["regions"]}
    for op in function["ops"]:
        told = {*op["claims"], *op["declines"]}
        assert told == set(TARGETS), f"{op['name']}: every target says something"
        assert not set(op["claims"]) & set(op["declines"])
        assert op["placed"] in (*op["claims"], "host")
        assert set(op["lost"]) == set(op["claims"]) - {op["placed"]}
    page = report.draw(tmp_path / "x.html").read_text()
    shown = re.findall(r'<details class="region" id="f0-r(\d+)" data-target="(\w+)">', page)
    assert shown == [(str(region["id"]), region["target"]) for region in function["regions"]]
