"""All tests of nodes that the onnx package brings: imported, partitioned, built, run and compared.

    PYTHONPATH=.:tests python tests/importing/node_tests_campaign.py --target host --state build/node_tests

Each case runs in a child of its own, so that a crash or a hang is counted as one. The expected results are
those of the onnx package. Results go to ``<state>/<target>.jsonl``, a line a case; what stands there is not
run again unless ``--again`` asks for its kind. ``--form constants`` passes all inputs but the first as
initializers, which is how models hold axes, scales and weights; ``--form symbolic`` passes lists so, and
gives the batch of the others a name. The result is 0 if nothing is wrong, crashes, hangs or ends in an error
that is none of the project's.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import select
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from kits.importing.node_cases import FORMS, KINDS, NodeCase, in_form, node_cases
from kits.importing.node_checks import Kind, Outcome, checked, warm_up

TARGETS = ("host", "dnnl", "onnxruntime", "openvino")
SECONDS = 60
"""Of the processor, for one case; of the clock, four times as many."""

DEFECTS = (Kind.WRONG, Kind.CRASH, Kind.HANG, Kind.RAW)
Line = dict[str, Any]


def main() -> int:
    """Run what is asked for, and print the counts."""
    options = _options()
    os.environ.update(OMP_NUM_THREADS="1", TVM_NUM_THREADS="1")
    options.state.mkdir(parents=True, exist_ok=True)
    file = options.state / f"{options.target}.jsonl"
    known = _read(file)
    if not options.summary:
        known |= _run(options, file, known)
    _print(known, options.verbose)
    return int(any(Kind(line["kind"]) in DEFECTS for line in known.values()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", choices=TARGETS, default="host", help="host is TVM alone")
    parser.add_argument("--kind", choices=KINDS, default="node", help="which of the package's tests")
    parser.add_argument("--form", choices=FORMS, default="inputs")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="names, as in test_reduce_*")
    parser.add_argument("--start", type=int, default=0, help="the first case, by number")
    parser.add_argument("--count", type=int, default=10**6, help="how many cases")
    parser.add_argument("--seconds", type=float, default=10**6, help="begin no case after so many seconds")
    parser.add_argument(
        "--state", type=Path, default=Path("build/node_tests"), help="a folder for the results"
    )
    parser.add_argument(
        "--again", action="append", default=[], choices=[each.value for each in Kind], help="run these again"
    )
    parser.add_argument("--summary", action="store_true", help="run nothing, print what is known")
    parser.add_argument("--verbose", action="store_true", help="print refusals, too, each with its case")
    return parser.parse_args()


def _run(options: argparse.Namespace, file: Path, known: dict[str, Line]) -> dict[str, Line]:
    """Results by name; each is written as soon as it is known."""
    cases = [case for case in node_cases(options.kind) if fnmatch(case.name, options.only)]
    found: dict[str, Line] = {}
    warm_up(options.target)
    begun = time.monotonic()
    with file.open("a", encoding="utf-8") as lines:
        for case in cases[options.start : options.start + options.count]:
            name = case.name if options.form == "inputs" else f"{case.name} ({options.form})"
            formed = in_form(case, options.form)
            if formed is None or (name in known and known[name]["kind"] not in options.again):
                continue
            if time.monotonic() - begun > options.seconds:
                print("stopped: the time is up", flush=True)
                break
            found[name] = {"name": name, **_in_child(formed, options.target).to_json()}
            lines.write(json.dumps(found[name]) + "\n")
            lines.flush()
    return found


def _in_child(case: NodeCase, target: str) -> Outcome:
    """What became of a case, or of the process that ran it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _answer(case, target, writing)
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


def _answer(case: NodeCase, target: str, writing: int) -> None:
    """Run the case, write what became of it, and end; nothing else that the case prints is seen."""
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    try:
        outcome = checked(case, target)
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


if __name__ == "__main__":
    sys.exit(main())
