"""Progress is shown on terminals only: what is compiled, and how many are left."""

import io
import re
import sys

import pytest
from kits.command_line.command_line_kit import called, small_model
from tvm import relax

import annotated_region as ar
from annotated_region.command_line import partition
from annotated_region.compilation.objects import SharedLibraryLinker
from annotated_region.progress import progress_line, show, shown


class Screen(io.StringIO):
    """A standard error that keeps what it gets."""

    def __init__(self, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal

    def lines(self):
        """What the line said, each state once, without control codes."""
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.getvalue())
        states = re.findall(r"compiling (.*?)\s*[━╸╺-]*\s+(\d+) left", plain)
        return list(dict.fromkeys((name, int(left)) for name, left in states if name))


@pytest.fixture
def screen(monkeypatch):
    def made(terminal=True):
        monkeypatch.setattr(sys, "stderr", Screen(terminal))
        return sys.stderr

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return made


def in_turns(count):
    """A module in which ops of dnnl alternate with ops of the host."""
    x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            # Equal regions would share a function.
            for op in (relax.op.nn.relu, relax.op.tanh, relax.op.sigmoid)[:count]:
                value = builder.emit(relax.op.sort(builder.emit(op(value))))
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    return ar.partition(builder.get(), ["dnnl"], bans={"relax.sort": ["dnnl"]}, names="numbers")


def test_a_build_names_each_function_and_counts_down_to_the_host(screen):
    mod, seen = in_turns(3), screen()
    ar.build(mod)
    names = [name.name_hint for name in mod.get_global_vars() if name.name_hint != "main"]
    shown_first = [each for each in seen.lines() if each[0] in names]
    assert shown_first == [(name, 4 - number) for number, name in enumerate(sorted(names))]
    assert seen.lines()[-1] == ("the host's functions", 1)


@pytest.mark.parametrize(
    ("terminal", "functions", "options"),
    [(False, 3, {}), (True, 3, {"progress": False}), (True, 1, {})],
    ids=["no terminal", "not wanted", "one function"],
)
def test_nothing_is_shown(screen, terminal, functions, options):
    mod, seen = in_turns(functions), screen(terminal)
    executable = ar.build(mod, **options)
    assert not seen.getvalue()
    assert executable.progress is options.get("progress", True)


def test_units_of_a_library_are_counted(screen, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    files = [tmp_path / f"lib{number}.cc" for number in range(2)]
    for number, file in enumerate(files):
        file.write_text(f'extern "C" int f{number}() {{ return {number}; }}\n')
    seen = screen()
    SharedLibraryLinker()(str(tmp_path / "library.so"), list(map(str, files)))
    assert seen.lines()[:2] == [("the generated code", 2), ("the generated code", 1)]
    seen = screen()
    SharedLibraryLinker(progress=False)(str(tmp_path / "library.so"), list(map(str, files)))
    assert not seen.getvalue()


def test_an_error_takes_the_line_away(screen):
    seen = screen()
    with pytest.raises(StopIteration), progress_line(2):
        next(shown("", str))
    before = seen.getvalue()
    show("later", 1)
    assert seen.getvalue() == before


def test_names_are_neither_markup_nor_control_codes(screen):
    seen = screen()
    with progress_line(2):
        show("[red]a\x1b]0;title\x07")
    assert "[red]a\\x1b]0;title\\x07" in seen.getvalue()


@pytest.mark.parametrize("quiet", [False, True])
def test_quiet_goes_to_the_build(tmp_path, monkeypatch, quiet):
    asked = []

    def build(_mod, *, options, progress):
        asked.append(progress)
        raise ar.BuildError("enough")

    monkeypatch.setattr(partition, "build", build)
    words = ["partition", small_model(tmp_path), "--targets", "dnnl", "-o", tmp_path / "model.so"]
    assert called(*words, *(["--quiet"] if quiet else [])).returncode == 1
    assert asked == [not quiet]
