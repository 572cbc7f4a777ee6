"""The wheel for this machine's platform: it holds the compiled C++ runtimes of the backends.

    python release/platform_wheel.py [--folder dist]

The pure wheel of this tree is made, the runtimes of the targets that can run here are compiled, and their
objects are added to it (`annotated_region/compilation/shipped.py`), so that the first build on a machine
compiles its regions alone. The tag asks for the GNU C library of this machine, or a newer one. The program
prints the path.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tvm.support import cc

from annotated_region.compilation.meanings import Compiler
from annotated_region.compilation.objects import compile_linked
from annotated_region.compilation.shipped import FOLDER, folder_of, object_names
from annotated_region.targets.backend import LinkedSource, backend_of, known_targets, unavailability

ROOT = Path(__file__).parents[1]


def run(module: str, *words: str | Path) -> None:
    """Run a module of this Python, quietly, and stop if it fails."""
    subprocess.run([sys.executable, "-m", module, *words], check=True, stdout=subprocess.DEVNULL)


def only_wheel(folder: Path) -> Path:
    """The wheel of this package in a folder."""
    (wheel,) = folder.glob("annotated_region-*.whl")
    return wheel


def pure_wheel(folder: Path) -> Path:
    """The wheel of this tree, without what an earlier build left behind."""
    shutil.rmtree(ROOT / "build" / "lib", ignore_errors=True)
    run("pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT)
    return only_wheel(folder)


def runtimes() -> Iterator[LinkedSource]:
    """The runtimes of the targets that can run here."""
    for backend in map(backend_of, known_targets()):
        if unavailability(backend) is None:
            yield from backend.build_options().sources


def add_objects(sources: Sequence[LinkedSource], compiler: Compiler, folder: Path) -> None:
    """Compile sources; their objects are written to a folder.

    Raises
    ------
    SystemExit
        One cannot be compiled.
    """
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as temporary:
        for number, source in enumerate(sources):
            made = compile_linked(source, compiler, Path(temporary), f"runtime{number}")
            if not made:
                raise SystemExit(f"{compiler.path} cannot compile the runtime of {source.macro}")
            for each, name in zip(made, object_names(source), strict=True):
                shutil.copyfile(each, folder / name)


def platform_wheel(folder: Path) -> Path:
    """Make the wheel in a folder.

    Raises
    ------
    SystemExit
        The compiler is no GNU compiler for Linux, or cannot compile a runtime.
    """
    compiler = Compiler.at(cc.get_cc() or "g++")
    library, version = platform.libc_ver()
    if compiler.gnu is None or compiler.machine is None or library != "glibc":
        raise SystemExit("objects are shipped for GNU compilers and the GNU C library only")
    tag = f"manylinux_{version.replace('.', '_')}_{compiler.machine}"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        run("wheel", "unpack", "--dest", place, pure_wheel(place))
        (tree,) = place.glob("annotated_region-*/")
        objects = tree / FOLDER.relative_to(ROOT) / folder_of(compiler)
        add_objects([*runtimes()], compiler, objects)
        packed = place / "packed"
        packed.mkdir()
        run("wheel", "pack", "--dest-dir", packed, tree)
        run("wheel", "tags", "--remove", "--platform-tag", tag, only_wheel(packed))
        made = only_wheel(packed)
        return shutil.copyfile(made, folder / made.name)  # in the place of an earlier one


def main() -> int:
    """Make it, and print where it is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "dist", help="where the wheel is written")
    print(platform_wheel(parser.parse_args().folder))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
