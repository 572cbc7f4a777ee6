"""The wheel in empty environments: each supported pair of TVM and its FFI, each Python that is installed.

    python tests/smoke/smoke.py [--folder build/smoke]

An environment for each Python is made with ``python -m venv``, and holds the wheel with the extras ``dnnl``
and ``onnxruntime`` alone; one pair after the other is installed into it, and runs `program.py`; the newest
pair on this Python also runs the demo. The wheel is that of the platform: with the version of TVM's FFI that
made it, no runtime may be compiled, and with another all are. The exit status says whether all did. A Python
that is not installed is named in the table, and fails nothing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version as version_here
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
# The newest pair comes last; all Pythons run it, this one runs the others too.
PAIRS = (
    ("0.27.0", "0.1.14.post0"),
    ("0.27.0", "0.1.14.post1"),
    ("0.27.0.post1", "0.1.14.post0"),
    ("0.27.0.post1", "0.1.14.post1"),
)
SECONDS = 600


@dataclass(frozen=True)
class Row:
    """One Python with one pair, and what became of them."""

    python: str
    pair: tuple[str, str]
    result: str
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.python:<8}{self.pair[0]:<15}{self.pair[1]:<15}{self.seconds:>5.0f} s  {self.result}"


def interpreters() -> dict[str, Path]:
    """The Pythons on the path, then those that pyenv has; the first that works counts."""
    found: dict[str, Path] = {}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for version in PYTHONS:
        candidates = [shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python3"))]
        works = [Path(each) for each in candidates if each is not None and can_make_environments(each)]
        if works:
            found[version] = works[0]
    return found


def can_make_environments(python: str | Path) -> bool:
    """Whether an interpreter starts and has the modules that make a virtual environment with pip."""
    run = subprocess.run([python, "-c", "import ensurepip, venv, ssl"], capture_output=True, check=False)
    return run.returncode == 0


def quietly(words: list[str | Path], cache: Path | None = None) -> str | None:
    """Run a command, with its own cache folder if one is given; None if it succeeds, else its last line."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if cache is not None:
        environment["XDG_CACHE_HOME"] = str(cache)
    try:
        run = subprocess.run(
            words, capture_output=True, text=True, env=environment, timeout=SECONDS, check=False, cwd=ROOT
        )
    except subprocess.TimeoutExpired:
        return f"no end after {SECONDS} s"
    if run.returncode == 0:
        return None
    lines = [line for line in (run.stdout + run.stderr).splitlines() if line.strip()]
    return f"status {run.returncode}: {lines[-1] if lines else ''}"


def smoke(version: str, python: Path, pair: tuple[str, str], wheel: Path, folder: Path, demo: bool) -> Row:
    """Run the program with one pair, in the environment of a Python, which is made if there is none."""
    began = time.monotonic()
    place = folder / version
    inside = place / "bin" / "python"
    tvm, ffi = pair
    pip: list[str | Path] = [inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    shipped = ffi == version_here("apache-tvm-ffi")
    steps: list[tuple[str, list[str | Path]]] = (
        [] if place.exists() else [("venv", [python, "-m", "venv", place])]
    )
    steps += [
        (
            "pip",
            [*pip, f"apache-tvm=={tvm}", f"apache-tvm-ffi=={ffi}", f"{wheel}[dnnl,onnxruntime]"],
        ),
        ("program", [inside, "-I", Path(__file__).with_name("program.py"), *["--shipped"] * shipped]),
    ]
    if demo:
        steps.append(("demo", [inside, "-I", ROOT / "examples" / "resnet50.py", "--rounds", "3"]))
    for name, words in steps:
        cache = folder / f"cache-{version}-{tvm}-{ffi}" if name == "program" else None
        problem = quietly(words, cache)
        if problem is not None:
            return Row(version, pair, f"FAILED in {name}: {problem}", time.monotonic() - began)
    return Row(version, pair, "passed, with the demo" if demo else "passed", time.monotonic() - began)


def built_wheel(folder: Path) -> Path:
    """The wheel of this tree for this platform."""
    words = [sys.executable, str(ROOT / "release" / "platform_wheel.py"), "--folder", str(folder)]
    return Path(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.strip())


def main() -> int:
    """Print a row for each environment, and a closing line that counts them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "build" / "smoke", help="where environments are made"
    )
    parser.add_argument("--only", nargs="+", default=PYTHONS, metavar="VERSION", help="these Pythons alone")
    options = parser.parse_args()
    shutil.rmtree(options.folder, ignore_errors=True)
    wheel = built_wheel(options.folder)
    here = "{}.{}".format(*sys.version_info[:2])
    pythons = interpreters() | {here: Path(sys.executable)}
    rows = []
    for version in options.only:
        for pair in PAIRS if version == here else PAIRS[-1:]:
            if version in pythons:
                newest = version == here and pair == PAIRS[-1]
                row = smoke(version, pythons[version], pair, wheel, options.folder, newest)
            else:
                row = Row(version, pair, "this Python is not installed here")
            rows.append(row)
            print(row, flush=True)
    shutil.rmtree(options.folder)
    passed = sum(row.result.startswith("passed") for row in rows)
    failed = sum(row.result.startswith("FAILED") for row in rows)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    raise SystemExit(main())
