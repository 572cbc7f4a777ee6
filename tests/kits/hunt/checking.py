"""Checks one graph on one engine: builds it, runs all its calls, compares, within a time limit."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from kits.dense_graphs.comparison import Expectation, expectations
from kits.dense_graphs.recipe import Recipe
from kits.dense_graphs.reference import UnknownOpError
from kits.dense_graphs.relax_graph import InvalidRecipeError, module_of
from kits.dense_graphs.values import UnfitValuesError
from kits.hunt.engines import Build, Engine, LeftOutError

__all__ = ["BUILD_SECONDS", "Kind", "Outcome", "checked", "reseeded"]

BUILD_SECONDS = 10.0
"""A build takes some ten milliseconds of the processor; what takes as much as this does not end."""

RESEEDED = 10**9
"""Between the seeds of the values that a graph is tried with."""

Answers = list[tuple[int, list[np.ndarray]]]


class Kind(Enum):
    """What became of a graph."""

    RIGHT = "right"
    UNFIT = "unfit values"
    INVALID = "invalid"
    UNKNOWN = "unknown to the reference"
    REFERENCE = "error of the reference"
    WRONG = "wrong answer"
    ERROR = "error"
    HANG = "hang"
    CRASH = "crash"

    @property
    def is_failure(self) -> bool:
        """Whether the engine is to blame, or the reference."""
        return self in (Kind.REFERENCE, Kind.WRONG, Kind.ERROR, Kind.HANG, Kind.CRASH)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a graph, what there is to say about it, and why which of its forms were not tried."""

    kind: Kind
    text: str = ""
    left_out: tuple[str, ...] = ()


class _TimeLimitError(BaseException):
    """A build does not end."""


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """In seconds of the processor: a process that is stopped, or waits for its turn, does not use them up."""
    over = False

    def stop(_number: int, _frame: Any) -> None:
        nonlocal over
        over = True
        raise _TimeLimitError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        # Raised once more: C prints what a function that it calls raises, and TVM makes another error of it.
        if over:
            raise _TimeLimitError


def checked(recipe: Recipe, build: Build, seconds: float = BUILD_SECONDS) -> Outcome:
    """What becomes of a graph on the engine that `build` builds."""
    try:
        mod = module_of(recipe)
        expected = expectations(mod, recipe, roundings=build.roundings)
    except InvalidRecipeError as error:
        return Outcome(Kind.INVALID, str(error))
    except UnfitValuesError as error:
        return Outcome(Kind.UNFIT, str(error))
    except UnknownOpError as error:
        return Outcome(Kind.UNKNOWN, str(error))
    except (ValueError, TypeError, IndexError) as error:  # Relax lets symbolic extents pass
        return Outcome(Kind.REFERENCE, f"{type(error).__name__}: {error}")
    try:
        with _limited(seconds):
            answers, left_out = _answers(build(mod, recipe.seed), expected)
    except _TimeLimitError:
        return Outcome(Kind.HANG, f"the build takes more than {seconds:g} seconds of the processor")
    except UnfitValuesError as error:
        return Outcome(Kind.WRONG, str(error))
    except Exception as error:  # whatever an engine raises is its failure
        place = traceback.extract_tb(error.__traceback__)[-1]
        return Outcome(Kind.ERROR, f"{type(error).__name__}: {str(error).strip()[-300:]} ({place.name})")
    return replace(_compared(expected, answers), left_out=left_out)


def _answers(
    engines: Mapping[str, Engine], expected: Sequence[Expectation]
) -> tuple[dict[str, Answers], tuple[str, ...]]:
    """What each form gives in each call, and the forms that say nothing.

    All calls but the last come again, so that kept plans run a second time.
    """
    order = [*range(len(expected)), *reversed(range(len(expected) - 1))]
    answers: dict[str, Answers] = {}
    left_out: list[str] = []
    for name, engine in engines.items():
        try:
            answers[name] = [(call, engine(expected[call].inputs)) for call in order]
        except UnknownOpError as error:  # a form with ops that the reference does not know says nothing
            left_out.append(f"{name}: the reference does not know {error}")
        except LeftOutError as error:
            left_out.append(f"{name}: {error}")
    return answers, tuple(left_out)


def _compared(expected: Sequence[Expectation], answers: Mapping[str, Answers]) -> Outcome:
    try:
        for name, calls in answers.items():
            for call, results in calls:
                difference = expected[call].difference(results)
                if difference is not None:
                    return Outcome(Kind.WRONG, f"{name}, call {call}: {difference.text}")
    except UnfitValuesError as error:  # one of the errors that are drawn turns a decision
        return Outcome(Kind.UNFIT, str(error))
    return Outcome(Kind.RIGHT)


def reseeded(recipe: Recipe, build: Build, tries: int = 3) -> tuple[Recipe, Outcome]:
    """As `checked`, with other values where the first ones are not fit."""
    outcome = checked(recipe, build)
    for _ in range(1, tries):
        if outcome.kind is not Kind.UNFIT:
            break
        recipe = replace(recipe, seed=recipe.seed + RESEEDED)
        outcome = checked(recipe, build)
    return recipe, outcome
