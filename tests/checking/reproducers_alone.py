"""Runs the scripts of ten reproducers in folders of their own, with nothing but the packages that they name.

    python -m venv bare && bare/bin/pip install numpy onnxruntime
    PYTHONPATH=.:tests python tests/checking/reproducers_alone.py --bare bare/bin/python

Faults are planted in the generated code of dnnl. The script of the engine alone runs in the bare environment,
and has to give what is expected; the other one needs this project, runs without the planted fault, and has to
give the same. What the target computed is in each folder, and has to be something else.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from kits.checking.fault_models import FaultModel, fault_model
from kits.checking.faults import FLOAT_FAULTS, Fault
from kits.checking.planting import campaign, checked

CLOSE = 1e-3
ROOT = Path(__file__).parents[2]
LINE = re.compile(r"^(?P<name>\S+): (?P<found>\S+) instead of (?P<wanted>\S+) at ")


def main() -> int:
    """Print a line a reproducer; the result is how many are not as they should be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--bare", default=sys.executable, help="a Python that has numpy and onnxruntime")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--models", nargs="+", default=["mixer", "graph_attention"])
    options = parser.parse_args()
    wrong = 0
    random = np.random.default_rng(0)
    with campaign(), tempfile.TemporaryDirectory() as folder:
        models = [fault_model(name, "dnnl") for name in options.models]
        for number in range(options.count):
            model = models[number % len(models)]
            kinds = model.kinds(FLOAT_FAULTS)
            fault = model.random_fault(random, [kinds[number // len(models) % len(kinds)]])
            told = _told(model, fault, Path(folder) / str(number), options.bare)
            wrong += told != "ok"
            print(f"{number} {model.name} {fault.kind} at {fault.op}: {told}", flush=True)
    print(f"{options.count - wrong} of {options.count}")
    return wrong


def _told(model: FaultModel, fault: Fault, folder: Path, bare: str) -> str:
    """What is wrong with the reproducer of a fault; ``"ok"`` if nothing is."""
    folder.mkdir()
    saved = checked(model, fault).save_reproducer(folder / "saved")
    expected, actual = (_arrays(saved / f"{name}.npz") for name in ("expected", "actual"))
    if all(_same(actual[name], expected[name]) for name in expected):
        return "what the target computed is what is expected"
    for script, python in (("show_onnxruntime.py", [bare, "-I"]), ("show.py", [sys.executable])):
        if not (saved / script).is_file():
            return f"there is no {script}"
        found = _run(saved, folder / script.removesuffix(".py"), [*python, script])
        if found:
            return f"{script}: {found}"
    return "ok"


def _run(saved: Path, alone: Path, command: Sequence[str]) -> str:
    shutil.copytree(saved, alone)
    show = alone / "show.py"
    show.write_text(re.sub(r"options=\{.*\}\), tvm.cpu", "options={}), tvm.cpu", show.read_text()))
    finished = subprocess.run(
        command,
        cwd=alone,
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if finished.returncode:
        return finished.stderr.strip().splitlines()[-1]
    lines = [match for line in finished.stdout.splitlines() if (match := LINE.match(line))]
    if not lines:
        return "it says nothing"
    far = [line["name"] for line in lines if not _same(float(line["found"]), float(line["wanted"]))]
    return f"{', '.join(far)} differ" if far else ""


def _arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as loaded:
        return {name: loaded[name] for name in loaded.files}


def _same(one: np.ndarray | float, other: np.ndarray | float) -> bool:
    return bool(np.allclose(one, other, rtol=CLOSE, atol=CLOSE))


if __name__ == "__main__":
    raise SystemExit(main())
