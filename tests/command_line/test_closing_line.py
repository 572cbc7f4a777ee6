"""``partition`` closes with one line on what each target got, and why not more."""

from __future__ import annotations

import json

import pytest
from kits.command_line.command_line_kit import called, small_model

from annotated_region.testing.registry import claim_ops, temporary_registrations


@pytest.fixture
def partitioned(tmp_path):
    with temporary_registrations():
        claim_ops("first", "relax.nn.conv2d", "relax.nn.relu")
        claim_ops("first", "relax.tanh", answer="no curves")
        yield lambda *words: called("partition", small_model(tmp_path), "--targets", "first", *words)


def test_the_line_says_who_got_what_and_the_first_reason(partitioned):
    found = partitioned()
    assert found.returncode == 0
    assert found.stderr == (
        "note: first: 2 of 4 ops; host: 2 ops, the first tanh at Tanh:t (declined by first: no curves)\n"
    )


def test_quiet_leaves_it_out_and_json_is_json(partitioned):
    assert partitioned("--quiet").stderr == ""
    assert json.loads(partitioned("--json").stdout)["external_functions"][0]["target"] == "first"
