"""Runs many small cases, each in a child process of its own, and keeps what became of them in a file."""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import select
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, TypeAlias

import onnx
import tvm
from tvm import relax

import annotated_region as ar
from kits.host_machines import linked_machine
from kits.importing.node_checks import Kind, Outcome, warm_up

__all__ = ["TARGETS", "built_for", "options_of", "run_cases"]

TARGETS = ("host", "dnnl", "onnxruntime", "openvino")
SECONDS = 60
"""Of the processor, for one case; of the clock, four times as many."""

DEFECTS = (Kind.WRONG, Kind.CRASH, Kind.HANG, Kind.RAW)
Line: TypeAlias = dict[str, Any]
Case: TypeAlias = tuple[str, Callable[[], Outcome]]
"""A name, and what runs the case."""


def options_of(description: str, state: str) -> argparse.ArgumentParser:
    """The options that all campaigns have; `state` is the folder of the results."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", choices=TARGETS, default="host", help="host is TVM alone")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="names, as in test_reduce_*")
    parser.add_argument("--start", type=int, default=0, help="the first case, by number")
    parser.add_argument("--count", type=int, default=10**6, help="how many cases")
    parser.add_argument("--seconds", type=float, default=10**6, help="begin no case after so many seconds")
    parser.add_argument("--state", type=Path, default=Path(state), help="a folder for the results")
    parser.add_argument(
        "--again", action="append", default=[], choices=[each.value for each in Kind], help="run these again"
    )
    parser.add_argument("--summary", action="store_true", help="run nothing, print what is known")
    parser.add_argument("--verbose", action="store_true", help="print refusals, too, each with its case")
    return parser


def built_for(
    model: onnx.ModelProto,
    target: str,
    host: str | tvm.target.Target = "llvm",
    options: Mapping[str, object] | None = None,
) -> tuple[tvm.IRModule, relax.VirtualMachine]:
    """A model as it is partitioned for a target, and what runs it; what stays is compiled for `host`.

    The options are those of the target's code generator.
    """
    mod = ar.from_onnx(model)
    partitioned = mod if target == "host" else ar.partition(mod, [target])
    return partitioned, linked_machine(ar.build(partitioned, host, {target: options} if options else None))


def run_cases(options: argparse.Namespace, cases: Iterable[Case]) -> int:
    """Run what is asked for, and print the counts; 1 if a case has a defect.

    ``OMP_NUM_THREADS`` and ``TVM_NUM_THREADS`` are to be 1: children have no threads of their parent.
    """
    options.state.mkdir(parents=True, exist_ok=True)
    file = options.state / f"{options.target}.jsonl"
    known = _read(file)
    if not options.summary:
        known |= _run(options, cases, file, known)
    _print(known, options.verbose)
    return int(any(Kind(line["kind"]) in DEFECTS for line in known.values()))


def _run(
    options: argparse.Namespace, cases: Iterable[Case], file: Path, known: dict[str, Line]
) -> dict[str, Line]:
    """Results by name; each is written as soon as it is known."""
    chosen = [(name, run) for name, run in cases if fnmatch(name, options.only)]
    found: dict[str, Line] = {}
    warm_up(options.target)
    begun = time.monotonic()
    with file.open("a", encoding="utf-8") as lines:
        for name, run in chosen[options.start : options.start + options.count]:
            if name in known and known[name]["kind"] not in options.again:
                continue
            if time.monotonic() - begun > options.seconds:
                print("stopped: the time is up", flush=True)
                break
            found[name] = {"name": name, **_in_child(run).to_json()}
            lines.write(json.dumps(found[name]) + "\n")
            lines.flush()
    return found


def _in_child(run: Callable[[], Outcome]) -> Outcome:
    """What became of a case, or of the process that ran it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _answer(run, writing)
    os.close(writing)
    content, is_late = _read_all(reading, 4 * SECONDS)
    os.close(reading)
    if is_late:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if is_late or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU):
        return Outcome(Kind.HANG, f"more than {SECONDS} s")
    if status or not content:
        return Outcome(Kind.CRASH, f"status {os.waitstatus_to_exitcode(status)}")
    line = json.loads(content)
    return Outcome(Kind(line["kind"]), line["text"], line["regions"], tuple(line["host"]))


def _answer(run: Callable[[], Outcome], writing: int) -> None:
    """Run the case, write what became of it, and end; nothing else that the case prints is seen."""
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    try:
        outcome = run()
    except BaseException as error:  # whatever it is, this process must not go on as the program
        outcome = Outcome(Kind.RAW, traceback.format_exception_only(error)[-1].strip())
    content = json.dumps(outcome.to_json()).encode()
    while content:
        content = content[os.write(writing, content) :]
    os._exit(0)


def _read_all(reading: int, seconds: float) -> tuple[bytes, bool]:
    """What comes through a pipe until it is closed, and whether that took too long."""
    content, end = b"", time.monotonic() + seconds
    while True:
        ready, _, _ = select.select([reading], [], [], max(end - time.monotonic(), 0))
        if not ready:
            return content, True
        part = os.read(reading, 2**16)
        if not part:
            return content, False
        content += part


def _read(file: Path) -> dict[str, Line]:
    """The last line of each case."""
    if not file.exists():
        return {}
    lines = (json.loads(text) for text in file.read_text(encoding="utf-8").splitlines())
    return {line["name"]: line for line in lines}


def _print(lines: dict[str, Line], verbose: bool) -> None:
    for kind in Kind:
        chosen = [line for line in lines.values() if line["kind"] == kind.value]
        for line in chosen if kind in DEFECTS or (verbose and kind is not Kind.RIGHT) else ():
            print(f"{kind.value}: {line['name']}: {_first_lines(line['text'])}")
    for kind in (Kind.REFUSED, Kind.UNBUILT):
        groups = Counter(_group(line["text"]) for line in lines.values() if line["kind"] == kind.value)
        for text, count in groups.most_common():
            print(f"{kind.value}, {count}: {text}")
    print(f"\n{len(lines)} cases: {', '.join(_counts(lines))}")


def _counts(lines: dict[str, Line]) -> Iterator[str]:
    for kind in Kind:
        if count := sum(1 for line in lines.values() if line["kind"] == kind.value):
            yield f"{count} {kind.value}"


def _group(text: str) -> str:
    """The reason without the names and numbers of one model."""
    reason = re.sub(r"^.*?the model '[^']*'( cannot be imported)?: ", "", _first_lines(text))
    reason = re.sub(r"'[^']*'", "'...'", reason)
    return re.sub(r"-?\d+", "#", reason)[:140]


def _first_lines(text: str) -> str:
    return " | ".join(text.strip().splitlines()[:1])[:300]
