"""The units of a module are compiled side by side, linked in their order, and an error ends the rest."""

import _thread
import ctypes
import os
import shutil
import signal
import subprocess

import pytest
from kits.interrupts import heard

from annotated_region.cache import cache_folder
from annotated_region.compilation.objects import SharedLibraryLinker, _in_parallel
from annotated_region.compilation.processes import Processes
from annotated_region.targets.backend import LinkedSource

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")

needs_two_processors = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="what interrupts runs beside a compiler, each on a processor"
)

# Each compilation waits until the other one has begun; alone it gives up.
MEETING = """#!/bin/sh
for word; do [ "$word" = -c ] && compiles=1; done
if [ "$compiles" ]; then
    touch {folder}/here.$$
    for moment in $(seq 200); do
        [ "$(ls {folder} | wc -l)" -ge 2 ] && exec g++ "$@"
        sleep 0.1
    done
    exit 1
fi
exec g++ "$@"
"""


ONE = 'extern "C" int one() { return 1; }\n'
TWO = 'extern "C" int two() { return 2; }\n'


@pytest.fixture(autouse=True)
def _cache_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("os.sched_getaffinity", lambda _process: {0, 1})


def units(folder, *texts):
    paths = [folder / f"lib{number}.cc" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return [str(path) for path in paths]


@pytest.fixture
def meeting(tmp_path):
    """The compiler that waits."""
    (tmp_path / "meeting").mkdir()
    compiler = tmp_path / "compiler"
    compiler.write_text(MEETING.format(folder=tmp_path / "meeting"))
    compiler.chmod(0o755)
    return compiler


def test_two_units_are_compiled_at_one_time(tmp_path, meeting):
    files = units(tmp_path, ONE, TWO)
    SharedLibraryLinker()(str(tmp_path / "library.so"), files, cc=str(meeting))
    library = ctypes.CDLL(str(tmp_path / "library.so"))
    assert (library.one(), library.two()) == (1, 2)
    assert len(list(cache_folder().glob("object-*"))) == 2


def test_the_units_of_a_linked_source_are_compiled_at_one_time(tmp_path, meeting):
    SharedLibraryLinker([LinkedSource(ONE, (), (), "LINKED", (TWO,))])(
        str(tmp_path / "library.so"), [], cc=str(meeting)
    )
    library = ctypes.CDLL(str(tmp_path / "library.so"))
    assert (library.one(), library.two()) == (1, 2)
    assert len(list(cache_folder().glob("object-*"))) == 2


def test_a_linked_source_is_linked_whole_or_not_at_all(tmp_path):
    """The unit of the module brings along what has a unit that does not compile."""
    source = LinkedSource(ONE, (), (), "LINKED", ("this is no C++\n",))
    files = units(tmp_path, f"#ifdef LINKED\n#error half of it\n#endif\n{ONE}")
    SharedLibraryLinker([source])(str(tmp_path / "library.so"), files)
    assert ctypes.CDLL(str(tmp_path / "library.so")).one() == 1


def test_the_library_is_the_same_whoever_is_first(tmp_path):
    texts = [f'extern "C" int f{number}() {{ return {number}; }}\n' for number in range(6)]
    for name in ("first", "second"):
        shutil.rmtree(cache_folder(), ignore_errors=True)
        SharedLibraryLinker()(str(tmp_path / f"{name}.so"), units(tmp_path, *texts))
    assert (tmp_path / "first.so").read_bytes() == (tmp_path / "second.so").read_bytes()


def test_a_unit_that_does_not_compile_is_told(tmp_path):
    files = units(tmp_path, ONE, "this is no C++\n")
    with pytest.raises(RuntimeError, match="this"):
        SharedLibraryLinker()(str(tmp_path / "library.so"), files)


def interrupt():
    raise KeyboardInterrupt


def endings(folder, program, items):
    """How a program ends that runs where one of the items, which is a function, interrupts."""
    ended, started = [], folder / "started"
    os.mkfifo(started)

    def make(item, processes):
        if callable(item):
            started.read_bytes()
            item()
            return ""
        try:
            processes.run(["sh", "-c", f": >{started}; {program}"])
        except subprocess.CalledProcessError as error:
            ended.append(error.returncode)
            raise
        return ""

    with heard(), pytest.raises(KeyboardInterrupt):
        _in_parallel(make, items)
    return ended


@needs_two_processors
@pytest.mark.parametrize("program", ["exec sleep 600", "(sleep 3; touch {folder}/compiled) & wait"])
def test_an_interrupt_ends_the_compilers_that_run(tmp_path, program):
    """Alone it would wait for them: a notebook interrupts Python, and not what Python has started.

    Nor does a compiler's driver end what it has started itself.
    """
    program = program.format(folder=tmp_path)
    assert endings(tmp_path, program, [interrupt, "compiling"]) == [-signal.SIGTERM]
    assert not (tmp_path / "compiled").exists()


@needs_two_processors
def test_an_interrupt_that_wakes_nobody_is_heard(tmp_path):
    """Python only takes note of a signal that arrives just before the main thread begins to wait."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        items = ["compiling", _thread.interrupt_main]
        assert endings(tmp_path, "exec sleep 20", items) == [-signal.SIGTERM]
    finally:
        signal.signal(signal.SIGINT, before)


def test_nothing_starts_behind_an_interrupt():
    processes = Processes()
    processes.end()
    with pytest.raises(subprocess.CalledProcessError):
        processes.run(["sleep", "600"])
