"""Every option of every command rejects invalid values: one line of the program, never a traceback."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np
import pytest
from kits.backends.dnnl.dnnl_harness import needs_onednn
from kits.command_line.command_line_kit import called, small_model

import annotated_region as ar
from annotated_region.command_line.models import read_model
from annotated_region.command_line.run import COMMANDS

COMMON = ("", "a\0b", "two\nlines")
FILES = ("", "a\0b", "two\nlines", "FOLDER", "EMPTY", "LATIN")
COUNTS = ("", "-1", "x", "1.5", "9" * 30, "two\n2")
SHARES = ("", "-1", "x", "nan", "inf", "1e999")
"""Words in capitals stand for files; see `files`."""

WRONG: dict[str, tuple[str, ...]] = {
    "model": (*FILES, "missing.onnx", "EMPTY.onnx", "LATIN.py", "FOLDER.onnx", "model.bin"),
    "before": FILES,
    "after": FILES,
    "action": ("melt", ""),
    "--limits": (*COMMON, "memory", "memory=", "memory=-1", "memory=x", "cores=1", "time=9e99s",
                 "memory=" + "9" * 40),
    "--targets": (*COMMON, ",", "dnnl,", "dnll", "relax.nn.conv2d", "x" * 10_000),
    "--policy": (*COMMON, "cheapest"),
    "--cost": (*COMMON, "guess"),
    "--pin": (*COMMON, "=", "relax.tanh", "relax.tanh=", "=dnnl", "relax.tanh=dnll", "nothing=dnnl",
              "two\nlines=host"),
    "--ban": (*COMMON, "=", "relax.tanh", "relax.tanh=", "=dnnl", "relax.tanh=dnll", "nothing=dnnl",
              "relax.tanh=,"),
    "--min-work": (*COMMON, "5", "dnnl", "dnnl=-1", "dnnl=nan", "dnnl=1e999", "dnnl=x", "dnll=1"),
    "--option": (*COMMON, "precision=bf16", "dnnl.=1", ".precision=1", "dnnl.precision", "dnnl.speed=1",
                 "dnll.precision=bf16", "dnnl.precision=bf17", "dnnl.finite_math=7", "dnnl.two\nlines=1"),
    "--inputs": (*FILES, "missing.npz", "OTHER.npz"),
    "--quantize": (*FILES, "missing.npz", "OTHER.npz"),
    "--ranges": (*COMMON, "widest"),
    "--keep": ("relax.nothing", "", "two\nlines"),
    "--accuracy": SHARES,
    "--extent": (*COMMON, "batch", "batch=", "batch=-1", "batch=x", "batch=" + "9" * 30, "nothing=2"),
    "--shape": ("x", "x=", "x=-1", "x=1,,2", "nothing=2", "x=?"),
    "--value": ("x", "x=", "x=y", "x=[[1], [1, 2]]", "nothing=2", "x=" + "[" * 100_000, "x=[2]", "x={}"),
    "--rtol": SHARES,
    "--atol": SHARES,
    "--reference": (*COMMON, "dnll"),
    "--save": ("", "a\0b", "FOLDER"),
    "--rounds": COUNTS,
    "--top": COUNTS,
    "--measure": COUNTS,
    "--jobs": COUNTS,
    "--output": ("", "a\0b", "model.png", "nowhere/model.so", "nowhere/model.svg", "x" * 300 + ".so"),
    "--profile": (*FILES, "REPORT.json"),
    "--lock": ("", "a\0b", "FOLDER", "EMPTY", "LATIN", "nowhere/x.lock"),
    "--names": (*COMMON, "letters"),
    "--older-than": (*COMMON, "x", "-1d", "30", "9999999999d"),
}  # fmt: skip

TOLD = re.compile(r"annotated-region( \w+)?: error: .")

# What a command needs besides the option; an output that may be written stands in a folder of the test.
REST = {
    "partition": ("MODEL", "--targets", "dnnl"),
    "explain": ("MODEL", "--targets", "dnnl", "--no-advice"),
    "draw": ("MODEL", "--targets", "dnnl", "-o", "out.svg"),
    "check": ("MODEL", "--targets", "dnnl", "--no-bisect"),
    "bench": ("MODEL", "--targets", "dnnl", "--rounds", "1"),
    "extract": ("MODEL",),
    "advise": ("MODEL", "--targets", "dnnl"),
    "diff": ("REPORT.json", "REPORT.json"),
    "cache": ("clear",),
}
FIRST = ("model", "before", "action")
"""What stands right behind the command."""


def actions_of(command):
    """The arguments of a command that take a value."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    taking = [each for each in parser._actions if each.nargs != 0]
    return [name_of(each) for each in taking]


def name_of(action):
    long = [word for word in action.option_strings if word.startswith("--")]
    return long[0] if long else action.dest.replace("models", "model")


# The name of a file of JSON may have any ending.
RIGHT = [("extract", "--output", "model.png")]
CASES = [
    (command.name, option, value)
    for command in COMMANDS
    for option in actions_of(command)
    for value in WRONG.get(option, ())
    if (command.name, option, value) not in RIGHT
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_argument_that_takes_a_value_is_walked(command):
    assert [option for option in actions_of(command) if option not in WRONG] == []


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """A folder with a model, a report, a folder, empty files, and files that are no text in UTF-8."""
    folder: Path = tmp_path_factory.mktemp("files")
    small_model(folder, "MODEL.onnx")
    report = ar.explain(read_model(folder / "MODEL.onnx"), ["dnnl"])
    (folder / "REPORT.json").write_text(report.to_json())
    np.savez(folder / "OTHER.npz", picture=np.ones(3, "float32"))
    for ending in ("", ".onnx", ".py"):
        (folder / f"EMPTY{ending}").touch()
        (folder / f"LATIN{ending}").write_bytes("# \xe9\xff\n".encode("latin-1"))
    for name in ("FOLDER", "FOLDER.onnx"):
        (folder / name).mkdir()
    return folder


def words_of(command, option, value):
    rest = ["MODEL.onnx" if word == "MODEL" else word for word in REST[command]]
    if option in FIRST:
        return [command, value, *rest[1:]]
    if option == "after":
        return [command, rest[0], value]
    return [command, *rest, f"{option}={value}"]


@needs_onednn
@pytest.mark.parametrize(("command", "option", "value"), CASES, ids=lambda text: repr(text)[1:-1][:24])
def test_what_makes_no_sense_is_one_line(command, option, value, files, monkeypatch):
    monkeypatch.chdir(files)
    finished = called(*words_of(command, option, value))
    assert finished.returncode in (1, 2), finished.stdout
    assert "Traceback" not in finished.stderr
    assert "internal error" not in finished.stderr
    told = [
        line for line in finished.stderr.splitlines() if re.match(r"annotated-region( \w+)?: error: .", line)
    ]
    assert len(told) == 1, finished.stderr
    assert len(told[0]) < 4200  # long messages are elided
    assert finished.stdout == ""
