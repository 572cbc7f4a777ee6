"""The examples in the docstrings of the rooms that work on plain numbers."""

import doctest
import importlib
import pkgutil

import pytest

from annotated_region import graphs, grouping, placement

MODULES = [
    f"{room.__name__}.{module.name}"
    for room in (graphs, grouping, placement)
    for module in pkgutil.iter_modules(room.__path__)
]


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_are_true(module: str) -> None:
    assert not doctest.testmod(importlib.import_module(module)).failed


def test_there_are_examples_to_run() -> None:
    attempted = sum(doctest.testmod(importlib.import_module(module)).attempted for module in MODULES)
    assert attempted > 10
