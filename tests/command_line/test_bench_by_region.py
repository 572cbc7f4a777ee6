"""``bench --by-region``: where the time goes, beside how long it is."""

from __future__ import annotations

import json

import pytest
from kits.command_line.command_line_kit import called, small_model

from annotated_region.backends.dnnl import installation

needs_onednn = pytest.mark.skipif(
    installation.unavailable() is not None, reason=str(installation.unavailable())
)


@needs_onednn
def test_bench_by_region_shows_the_profile(tmp_path):
    words = ("bench", small_model(tmp_path), "--targets", "dnnl", "--rounds", "1", "--by-region")
    found = called(*words)
    assert found.returncode == 0, found.stderr
    assert "dnnl_main_0 (dnnl)" in found.stdout
    assert "the virtual machine between them" in found.stdout
    told = json.loads(called(*words, "--json").stdout)
    assert "dnnl" in told["engines"]
    assert told["profile"]["regions"][0]["symbol"] == "dnnl_main_0"
