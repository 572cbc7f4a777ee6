"""``extract``: the fused functions of a model zoo, and those that models share."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal, TypedDict

import tvm
from rich.table import Table

from annotated_region.command_line.models import read_model
from annotated_region.command_line.terminal import console, plain
from annotated_region.errors import ModelError
from annotated_region.extraction import FusedFunction, extract_hashed_functions
from annotated_region.files import write_whole
from annotated_region.findings.wording import words_for_type, words_for_work
from annotated_region.importing.confinement.limits import Limits
from annotated_region.passes.prepare_for_inference import PrepareForInference

__all__ = ["run", "statistics_of"]


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    names = _names(options.models)
    models = [(name, partial(load, path, options.prepare, options.limits)) for name, path in names.items()]
    with _executor(options.jobs) as executor:
        try:
            found = extract_hashed_functions(models, executor=executor, progress=sys.stderr.isatty())
        except BrokenProcessPool as error:
            raise ModelError("a model crashed its process; run without --jobs to find it") from error
    statistics = statistics_of(found, list(names))
    if options.output is not None:
        write_whole(options.output, json.dumps(statistics, indent=2) + "\n")
    if options.json:
        print(json.dumps(statistics, indent=2))
    else:
        _show(statistics, options.top)
    return 0


def load(path: str, prepare: bool, limits: Limits | None = None) -> tvm.IRModule:
    """The module in a file, prepared for inference."""
    mod = read_model(path, limits)
    return PrepareForInference()(mod) if prepare else mod


def _names(paths: list[str]) -> dict[str, str]:
    """A name for each file: the last part of its path, or the whole path if two files have the same."""
    stems = [Path(path).stem for path in paths]
    unique = {stem for stem in stems if stems.count(stem) == 1}
    return {stem if stem in unique else path: path for stem, path in zip(stems, paths, strict=True)}


@contextmanager
def _executor(jobs: int) -> Iterator[Executor | None]:
    if jobs <= 1:
        yield None
        return
    # TVM has its own threads, which a forked process would lack.
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as executor:
        yield executor


class _Counts(TypedDict):
    """Counts for one model or for all."""

    calls: int
    distinct: int
    shared: int


class _Function(TypedDict):
    """One distinct function; its work is that of one call, and None if a shape is symbolic."""

    hash: str
    name: str
    count: int
    counts: Mapping[str, int]
    inputs: list[str]
    outputs: list[str]
    flops: int | None
    bytes: int | None


class Statistics(_Counts):
    """Statistics of the functions of a zoo."""

    models: dict[str, _Counts]
    functions: list[_Function]


_COUNTED: tuple[Literal["calls", "distinct", "shared"], ...] = ("calls", "distinct", "shared")


def statistics_of(found: dict[int, FusedFunction], models: list[str]) -> Statistics:
    """The statistics of a zoo's functions as plain data; functions with the most calls come first."""
    functions = sorted(found.items(), key=lambda item: -item[1].count)
    return {
        "models": {
            model: {
                "calls": sum(each.counts.get(model, 0) for each in found.values()),
                "distinct": sum(model in each.counts for each in found.values()),
                "shared": sum(model in each.counts and len(each.counts) > 1 for each in found.values()),
            }
            for model in models
        },
        "calls": sum(each.count for each in found.values()),
        "distinct": len(found),
        "shared": sum(len(each.counts) > 1 for each in found.values()),
        "functions": [_plain(key, each) for key, each in functions],
    }


def _plain(key: int, function: FusedFunction) -> _Function:
    return {
        "hash": f"{key:016x}",
        "name": function.name,
        "count": function.count,
        "counts": function.counts,
        "inputs": list(map(words_for_type, function.inputs)),
        "outputs": list(map(words_for_type, function.outputs)),
        "flops": function.flops,
        "bytes": function.bytes,
    }


def _show(statistics: Statistics, top: int) -> None:
    output = console()
    table = Table(title="Fused functions by model", title_justify="left", show_footer=True)
    table.add_column("model", "together")
    for column in _COUNTED:
        table.add_column(column, str(statistics[column]), justify="right")
    for model, counts in statistics["models"].items():
        table.add_row(plain(model), *(str(counts[column]) for column in _COUNTED))
    output.print(table)
    frequent = Table(title="Most frequent functions", title_justify="left")
    for heading in ("hash", "function", "inputs and outputs", "a call", "calls", "models"):
        frequent.add_column(heading, overflow="fold", justify="right" if heading == "calls" else "left")
    for each in statistics["functions"][:top]:
        models = ", ".join(f"{model} {count}" for model, count in each["counts"].items())
        types = f"{', '.join(each['inputs'])} -> {', '.join(each['outputs'])}"
        work = words_for_work(each["flops"], each["bytes"])
        frequent.add_row(*map(plain, (each["hash"], each["name"], types, work, str(each["count"]), models)))
    output.print(frequent)
    output.print(_sentence(statistics), soft_wrap=True)


def _sentence(statistics: Statistics) -> str:
    separately = sum(counts["distinct"] for counts in statistics["models"].values())
    return (
        f"{len(statistics['models'])} models make {statistics['calls']} calls of {statistics['distinct']} "
        f"distinct functions ({separately} counted model by model); {statistics['shared']} are shared by "
        "several models."
    )
