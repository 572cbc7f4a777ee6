"""Objects that a wheel brings: the C++ runtimes of the backends, compiled for the wheel's platform.

`release/platform_wheel.py` compiles them and adds them to the wheel. The name of an object is a key of what
it depends on, except for the compiler: its text, the options that name no folder, and the versions of the
headers. Its folder names the compiler that made it. GNU compilers for the same machine that are at least as
new may link it: the C++ library is compatible in this direction only
(https://gcc.gnu.org/onlinedocs/libstdc++/manual/abi.html). Otherwise the runtimes are compiled at the first
build, as in an installation from source, which has no such objects.
"""

from __future__ import annotations

import re
from pathlib import Path

from annotated_region.compilation.keys import key_of
from annotated_region.compilation.meanings import Compiler
from annotated_region.targets.backend import LinkedSource

__all__ = ["FOLDER", "folder_of", "object_names", "shipped_objects"]

FOLDER = Path(__file__).parent / "shipped_objects"
_FOLDER_OPTIONS = ("-I", "-L")
_MADE_BY = re.compile(r"gcc(\d+)-(\w+)")


def shipped_objects(source: LinkedSource, compiler: Compiler, folder: Path = FOLDER) -> list[str]:
    """The paths of the objects of all units of a source; empty if they are not there or do not fit."""
    if compiler.gnu is None or not folder.is_dir():
        return []
    for name in sorted(path.name for path in folder.iterdir()):
        objects = [folder / name / each for each in object_names(source)]
        if _may_link(name, compiler.gnu, compiler.machine) and all(path.is_file() for path in objects):
            return [str(path) for path in objects]
    return []


def folder_of(compiler: Compiler) -> str:
    """The name of the folder of the objects that a GNU compiler makes."""
    return f"gcc{compiler.gnu}-{compiler.machine}"


def object_names(source: LinkedSource) -> list[str]:
    """The names of the objects of the units of a source."""
    options = [word for word in source.options if not word.startswith(_FOLDER_OPTIONS)]
    return [f"{key_of(unit, *options, '', *source.versions)}.o" for unit in source.units]


def _may_link(name: str, gnu: int, machine: str | None) -> bool:
    made = _MADE_BY.fullmatch(name)
    return made is not None and made[2] == machine and int(made[1]) <= gnu
