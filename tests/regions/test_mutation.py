"""One changed annotation gives another set, read correctly, or a MalformedAnnotationError."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kits.regions import region_oracles as oracle
from kits.regions.annotation_mutations import mutants
from tvm import relax

import annotated_region as ar
from annotated_region.dataflow.walk import read_dataflow
from annotated_region.regions.reading import read_regions
from annotated_region.regions.writing import write_annotations
from annotated_region.testing import annotated_functions

IN_CAMPAIGN = settings.get_current_profile_name() == "campaign"
WHERE = re.compile(r"^main: target '[^']+'( \(region '.+'\))?, edge '\w+' -> ('\w+'|the result|none): .+")


def told(func: relax.Function) -> oracle.Reading:
    """What the package reads, before composites are put where they belong."""
    graph = read_dataflow(func)
    return {
        (key.target, key.label, frozenset(graph.nodes[number].var for number in numbers))
        for key, numbers in read_regions(graph)
    }


def what_holds_of(func: relax.Function) -> str:
    """Compare the package with the oracle; whether the annotations are well formed."""
    try:
        expected = oracle.read(func)
    except oracle.Malformed:
        with pytest.raises(ar.MalformedAnnotationError, match=WHERE):
            ar.AnnotatedRegionSet(func)
        return "malformed"
    regions = ar.AnnotatedRegionSet(func)
    assert told(func) == expected
    written = write_annotations(regions.dataflow, list(regions.node_regions.values()))
    assert ar.AnnotatedRegionSet(written) == regions
    return "well formed"


@pytest.mark.campaign
@given(annotated_functions(), st.integers(0, 2**32))
def test_a_mutant_is_another_set_told_correctly_or_malformed(
    tally: Counter[str], func: relax.Function, seed: int
) -> None:
    rng = random.Random(seed)
    changed = list(mutants(func, rng))
    chosen = changed if IN_CAMPAIGN else rng.sample(changed, min(20, len(changed)))
    for mutant in chosen:
        tally[f"mutants, {what_holds_of(mutant.func)}"] += 1
