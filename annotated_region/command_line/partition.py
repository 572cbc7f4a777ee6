"""``partition``: the external functions of a model, as a table, as TVMScript, or built into a library."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

import tvm
from rich.table import Table
from tvm import relax

from annotated_region.bundling import export
from annotated_region.command_line.availability import require_available, tell_remarks, tell_unavailable
from annotated_region.command_line.locks import lock_of, write_or_check_lock
from annotated_region.command_line.placement import generator_options, partitioned_with_report
from annotated_region.command_line.quantizing import model_of
from annotated_region.command_line.terminal import console, plain
from annotated_region.errors import ModelError
from annotated_region.files import write_whole
from annotated_region.findings.wording import words_for_type
from annotated_region.passes.build import build
from annotated_region.passes.write_origins import WriteOrigins
from annotated_region.printable import counted, printable

__all__ = ["run"]

_LIBRARY, _SCRIPT, _FOLDER = ".so", ".py", ""


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    if options.output is not None and options.output.suffix not in (_LIBRARY, _SCRIPT, _FOLDER):
        raise ModelError(
            f"{options.output} ends neither in {_LIBRARY} nor in {_SCRIPT}; "
            "the name of a folder has no extension"
        )
    if options.output is not None and options.output.suffix != _SCRIPT and not options.cross_compile:
        require_available(options.targets, "or build for another machine with --cross-compile")
    else:
        tell_unavailable(options)
    tell_remarks(options)
    lock = lock_of(options)
    mod, report = partitioned_with_report(model_of(options), options, lock)
    if write_or_check_lock(options, lock, report):
        return 1
    if options.output is not None:
        _write(mod, options)
    found = list(_external_functions(mod))
    if options.json:
        print(json.dumps({"external_functions": found}, indent=2))
    else:
        console().print(_table(found))
    if not options.quiet:
        # On the standard error, because the standard output may be JSON.
        print(f"note: {printable(report.headline())}", file=sys.stderr)
    return 0


def _write(mod: tvm.IRModule, options: argparse.Namespace) -> None:
    file: Path = options.output
    if file.suffix == _SCRIPT:
        write_whole(file, WriteOrigins()(mod).script() + "\n")
        return
    executable = build(mod, options=generator_options(options), progress=not options.quiet)
    if file.suffix == _LIBRARY:
        executable.export_library(str(file))
    else:
        export(executable, file)


class _External(TypedDict):
    """An external function, as printed."""

    name: str
    target: str
    inputs: list[str]
    output: str


def _external_functions(mod: tvm.IRModule) -> Iterator[_External]:
    for name, function in sorted(mod.functions_items(), key=lambda item: item[0].name_hint):
        if isinstance(function, relax.Function) and "Codegen" in (function.attrs or {}):
            yield {
                "name": name.name_hint,
                "target": str(function.attrs["Codegen"]),
                "inputs": [words_for_type(param.ty) for param in function.params],
                "output": words_for_type(function.ret_ty),
            }


def _table(found: list[_External]) -> Table:
    table = Table(title=counted(len(found), "external function"), title_justify="left")
    for column in ("name", "target", "inputs", "output"):
        table.add_column(column, overflow="fold")
    for each in found:
        table.add_row(*map(plain, (each["name"], each["target"], ", ".join(each["inputs"]), each["output"])))
    return table
