"""Checks one graph on one engine: builds it, runs all its calls, compares, within a time limit."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import tvm

from annotated_region.testing.dense_graphs.comparison import expectations
from annotated_region.testing.dense_graphs.recipe import Recipe
from annotated_region.testing.dense_graphs.reference import UnknownOpError
from annotated_region.testing.dense_graphs.relax_graph import InvalidRecipeError, module_of
from annotated_region.testing.dense_graphs.values import UnfitValuesError

__all__ = ["BUILD_SECONDS", "Kind", "Outcome", "checked", "reseeded"]

BUILD_SECONDS = 5.0
"""A build takes some ten milliseconds; what takes longer than this on a busy machine does not end."""

Build = Callable[[tvm.IRModule], Any]


class Kind(Enum):
    """What became of a graph."""

    RIGHT = "right"
    UNFIT = "unfit values"
    INVALID = "invalid"
    UNKNOWN = "unknown to the reference"
    WRONG = "wrong answer"
    ERROR = "error"
    HANG = "hang"
    CRASH = "crash"

    @property
    def is_failure(self) -> bool:
        """Whether the engine is to blame."""
        return self in (Kind.WRONG, Kind.ERROR, Kind.HANG, Kind.CRASH)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a graph, and what there is to say about it."""

    kind: Kind
    text: str = ""


class _TimeLimitError(BaseException):
    """A build does not end."""


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def stop(_number: int, _frame: Any) -> None:
        raise _TimeLimitError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def checked(recipe: Recipe, build: Build, seconds: float = BUILD_SECONDS) -> Outcome:
    """What becomes of a graph on the engine that `build` builds."""
    try:
        mod = module_of(recipe)
        expected = expectations(mod, recipe)
    except InvalidRecipeError as error:
        return Outcome(Kind.INVALID, str(error))
    except UnfitValuesError as error:
        return Outcome(Kind.UNFIT, str(error))
    except UnknownOpError as error:
        return Outcome(Kind.UNKNOWN, str(error))
    try:
        with _limited(seconds):
            engine = build(mod)
            # Each call again, the other way round: plans and arenas are used a second time.
            order = [*range(len(expected)), *reversed(range(len(expected) - 1))]
            answers = [(call, engine(expected[call].inputs)) for call in order]
    except _TimeLimitError:
        return Outcome(Kind.HANG, f"the build takes more than {seconds:g} seconds")
    except UnfitValuesError as error:
        return Outcome(Kind.WRONG, str(error))
    except Exception as error:  # whatever an engine raises is its failure
        place = traceback.extract_tb(error.__traceback__)[-1]
        return Outcome(Kind.ERROR, f"{type(error).__name__}: {str(error).strip()[-300:]} ({place.name})")
    for call, results in answers:
        difference = expected[call].difference(results)
        if difference is not None:
            return Outcome(Kind.WRONG, f"call {call}: {difference.text}")
    return Outcome(Kind.RIGHT)


def reseeded(recipe: Recipe, build: Build, tries: int = 3) -> tuple[Recipe, Outcome]:
    """As `checked`, with other values where the first ones are not fit."""
    outcome = checked(recipe, build)
    for number in range(1, tries):
        if outcome.kind is not Kind.UNFIT:
            break
        recipe = replace(recipe, seed=recipe.seed + number * 10**9)
        outcome = checked(recipe, build)
    return recipe, outcome
