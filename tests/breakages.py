"""Breaks what guards against hostile input and unlucky machines, one line at a time: which tests notice?

    python tests/breakages.py            # all; minutes
    python tests/breakages.py 1 11       # those of two items
    python tests/breakages.py database   # those with a word in what they break

A copy of the tree is broken, never the tree itself. Each breakage takes back one mend; its tests fail then.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

__all__ = ["BREAKAGES", "Breakage"]

SECONDS = 150
"""After this tests hang, which counts as a failure."""
ROOT = Path(__file__).parents[1]
PACKAGE = "annotated_region"


@dataclass(frozen=True, slots=True)
class Breakage:
    """One mend taken back.

    Attributes
    ----------
    item
        What it belongs to, by the numbers of the table in ``tests/README.md``.
    what
        What is broken, in words.
    file, old, new
        Where, and the text that another one replaces.
    tests
        What pytest runs.
    """

    item: int
    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


COMMANDS = "tests/command_line/test_unlucky_machines.py"
STRANGERS = "tests/command_line/test_untrusted_files.py"
SCRIPTS = "tests/importing/tvmscript/test_tvmscript.py"
TRUST = "tests/importing/test_trust.py"
APART = "tests/importing/confinement/test_isolation.py"
OBJECTS = "tests/compilation/test_damaged_objects.py"
SPECIAL = "tests/backends/test_special_numbers.py"
RULES = "tests/backends/dnnl/test_dnnl_rules.py"

BREAKAGES = (
    Breakage(1, "any character may stand in a script", f"{PACKAGE}/importing/tvmscript/reader.py",
             "if not character.isprintable() and", "if False and",
             (SCRIPTS, "-k", "lines_end_where")),
    Breakage(1, "the tree is not checked", f"{PACKAGE}/importing/tvmscript/reader.py",
             "    _Guard(tree, file_name).check()\n", "",
             (SCRIPTS, "-k", "nothing_runs")),
    Breakage(2, "any packed function may be called", f"{PACKAGE}/importing/trust.py",
             "    if name in _PURE_FUNCTIONS:\n", "    if name:\n",
             (TRUST, STRANGERS, "-k", "packed_functions")),
    Breakage(3, "outputs are written as if they were dense", f"{PACKAGE}/backends/onnx_emitter/arguments.py",
             "    dense = _empty_as(symbol, argument)\n    return dense, lambda: np.copyto",
             "    dense = argument\n    return dense, lambda: np.copyto",
             ("tests/backends/tensorrt/test_region_arguments.py", "-k", "nothing_beside_them")),
    Breakage(4, "what is no time is kept", f"{PACKAGE}/measuring/store.py",
             "seconds REAL NOT NULL CHECK (seconds >= 0 AND seconds < 9e999)", "seconds REAL",
             ("tests/measuring/test_store.py", "-k", "no_time")),
    Breakage(4, "a read-only database is called damaged", f"{PACKAGE}/measuring/store.py",
             "        if code in _FOREIGN:\n", "        if True:\n",
             ("tests/measuring/test_store.py", "-k", "read_only or locked")),
    Breakage(4, "a database may hold what runs", f"{PACKAGE}/measuring/store.py",
             "        if attached != _expected():\n", "        if False:\n",
             ("tests/measuring/test_store.py", "-k", "is_run")),
    Breakage(5, "forks are not prepared", f"{PACKAGE}/backends/dnnl/runtime/forking.h",
             "pthread_atfork(before, in_parent, in_child)", "0",
             ("tests/backends/dnnl/test_dnnl_forks.py", "-x")),
    Breakage(5, "regions of ONNX Runtime run on a thread that children do not have",
             f"{PACKAGE}/backends/onnxruntime/runtime.py",
             "        session.run_with_iobinding(binding)\n",
             "        from concurrent.futures import ThreadPoolExecutor\n"
             "        if not hasattr(self, 'pool'):\n"
             "            self.pool = ThreadPoolExecutor(1)\n"
             "        self.pool.submit(session.run_with_iobinding, binding).result()\n",
             ("tests/backends/onnxruntime/test_onnxruntime.py", "-k", "forked")),
    Breakage(6, "digests are not compared", f"{PACKAGE}/cache.py",
             'None if whole[:_HEAD_BYTES] == _head(path.name, content) else "is damaged"', "None",
             (OBJECTS, "-k", "noticed")),
    Breakage(6, "owners and modes are not looked at", f"{PACKAGE}/cache.py",
             "        if reason := _distrust(os.fstat(handle), stat.S_ISREG, \"regular file\"):\n"
             "            return b\"\", reason\n", "",
             (OBJECTS, "-k", "noticed")),
    Breakage(7, "targets need not be here", f"{PACKAGE}/command_line/availability.py",
             "    for target, reason in _unavailable(targets):\n        leave",
             "    for target, reason in ():\n        leave",
             (COMMANDS, "-k", "cannot_run")),
    Breakage(8, "a causal mask hides scores with a finite number",
             f"{PACKAGE}/backends/onnx_emitter/conversions/attention.py",
             "emission.like(-math.inf", "emission.like(-1e9",
             (SPECIAL, "-k", "through_tvm and onnxruntime")),
    Breakage(8, "the relu of a group norm keeps NaN", f"{PACKAGE}/backends/dnnl/runtime/group_norm.h",
             "return x > 0.0f ? x : 0.0f;", "return x < 0.0f ? 0.0f : x;",
             (SPECIAL, "-k", "through_tvm and dnnl")),
    Breakage(9, "nodes are not held against their schema", f"{PACKAGE}/importing/onnx_models/reader.py",
             "    _require_sound(graph, name, opset, is_known)\n", "",
             (APART, "-k", "left_out_are_named and True or cycle")),
    Breakage(9, "a crash of the worker is not told", f"{PACKAGE}/command_line/supervision.py",
             "    return crashed(-code)\n", "    return 0\n",
             (COMMANDS, "-k", "crash or told")),
    Breakage(9, "the command runs in the program itself", f"{PACKAGE}/__main__.py",
             "main(in_child=True)", "main()",
             (COMMANDS, "-k", "crash")),
    Breakage(10, "what ONNX Runtime refuses ends bench", f"{PACKAGE}/command_line/peers.py",
             "    except FAILURES + _errors_of(state) as error:\n", "    except () as error:\n",
             (COMMANDS, "-k", "onnx_runtime_refuses")),
    Breakage(10, "closed streams stay closed", f"{PACKAGE}/command_line/run.py",
             "    _open_streams()\n    options", "    options",
             (COMMANDS, "-k", "closes_the_streams")),
    Breakage(10, "any number is a number", f"{PACKAGE}/command_line/options.py",
             "    if not digits.isdecimal() or len(digits) > len(str(_MOST)) or int(digits) > _MOST:\n",
             "    if False:\n",
             (COMMANDS, "-k", "numbers_that_make_no_sense")),
    Breakage(10, "huge inputs are filled", f"{PACKAGE}/inputs/made.py",
             "    if needed > _memory():\n", "    if False:\n",
             (COMMANDS, "-k", "no_machine_can_hold")),
    Breakage(10, "names of files hold any character", f"{PACKAGE}/command_line/options.py",
             "    if \"\\0\" in text or not text:\n", "    if False:\n",
             (COMMANDS, "-k", "no_file_can_have")),
    Breakage(10, "a compiler that says nothing is believed", f"{PACKAGE}/compilation/objects.py",
             "        if not triple:\n", "        if False:\n",
             (COMMANDS, "-k", "compiler_that_fails")),
    Breakage(10, "a folder is opened as a database", f"{PACKAGE}/measuring/store.py",
             "        if is_folder:\n", "        if False:\n",
             ("tests/measuring/test_store.py", COMMANDS,
              "-k", "folder_in_the_place or called_as_the_database")),
    Breakage(10, "a pool of processes that broke is a bug", f"{PACKAGE}/command_line/extract.py",
             "        except BrokenProcessPool as error:\n", "        except ZeroDivisionError as error:\n",
             (COMMANDS, "-k", "one_of_several_processes")),
    Breakage(11, "interrupts become errors on their way through TVM", f"{PACKAGE}/error_classes.py",
             'tvm_ffi.register_error("KeyboardInterrupt", KeyboardInterrupt)\n', "",
             (COMMANDS, "-k", "stays_one")),
    Breakage(11, "interrupts while loading print what Python prints", f"{PACKAGE}/_loading.py",
             "if IN_PROGRAM and", "if False and",
             (COMMANDS, "-k", "loads_says_nothing")),
    Breakage(11, "files are written in their place", f"{PACKAGE}/files.py",
             "Path(folder.name, file.name)\n        yield unfinished\n",
             "file\n        yield unfinished\n        return\n",
             ("tests/test_files.py",)),
    Breakage(11, "a crash leaves its folder", f"{PACKAGE}/command_line/run.py",
             "            sweep_unfinished(options.output, process)\n", "            pass\n",
             (COMMANDS, "-k", "half_written")),
    Breakage(11, "a model may be overwritten", f"{PACKAGE}/command_line/run.py",
             "        _require_apart(options)\n", "",
             (COMMANDS, "-k", "place_of_a_model")),
    Breakage(11, "the second interrupt is like the first", f"{PACKAGE}/command_line/supervision.py",
             "            self._send(signal.SIGKILL)\n", "            pass\n",
             (COMMANDS, "-k", "second_interrupt")),
    Breakage(12, "windows are not looked at", f"{PACKAGE}/backends/dnnl/ops/checks.py",
             "        if any(value < least for value in values):\n", "        if False:\n",
             (RULES,)),
    Breakage(12, "epsilons are not looked at", f"{PACKAGE}/backends/dnnl/ops/checks.py",
             'return None if math.isfinite(op.attrs["epsilon"]) else', "return None if True else",
             (RULES,)),
    Breakage(12, "a batch of nothing is computed", f"{PACKAGE}/backends/dnnl/runtime/region.h",
             "    if (frame.is_void()) return;\n", "",
             ("tests/backends/dnnl/test_dnnl_runtime.py", "-k", "batch_of_nothing")),
    Breakage(12, "a row may see fewer than no columns", f"{PACKAGE}/backends/dnnl/runtime/attention_blocks.h",
             "? std::abs(columns - rows) : 0", "? columns - rows : 0",
             ("tests/backends/dnnl/test_dnnl_numerics.py", "-k", "lower_tall")),
    Breakage(13, "extents may be less than nothing", f"{PACKAGE}/importing/trust.py",
             "int(extent) < 0", "False",
             (TRUST, "-k", "less_than_nothing")),
    Breakage(13, "extents may wrap", f"{PACKAGE}/importing/trust.py",
             "if size > _MOST_ELEMENTS else None", "if False else None",
             (TRUST, "-k", "do_not_wrap")),
    Breakage(13, "any number of threads", f"{PACKAGE}/surroundings.py",
             "int(number[:9]) > _ENOUGH_FOR_ANY_MACHINE", "False",
             ("tests/test_surroundings.py", STRANGERS, "-k", "threads_that_no_machine_has")),
    Breakage(14, "a region needs no symbol", f"{PACKAGE}/importing/trust.py",
             '"Codegen" in func.attrs and "global_symbol" not in func.attrs', "False",
             (TRUST, "-k", "without_symbol")),
    Breakage(14, "what a node reads may be made later, or never",
             f"{PACKAGE}/importing/onnx_models/reader.py",
             "unknown = [value for value in node.input if value and value not in known]", "unknown = []",
             (APART, "-k", "cycle")),
    Breakage(14, "a comma separates words of the linker", f"{PACKAGE}/compilation/executable.py",
             'for word in ("-Xlinker", "-rpath", "-Xlinker", each)]', 'for word in (f"-Wl,-rpath,{each}",)]',
             ("tests/backends/dnnl/test_dnnl_runtime.py", "-k", "comma")),
    Breakage(14, "a name may look like a line of the program", f"{PACKAGE}/command_line/run.py",
             'sep="\\n    "', 'sep="\\n"',
             (STRANGERS, "-k", "look_like_lines")),
    Breakage(14, "names reach the terminal as they are", f"{PACKAGE}/printable.py",
             "if character.isprintable() or", "if True or",
             (STRANGERS, "-k", "terminal or well_formed")),
    Breakage(14, "nesting has no bound", f"{PACKAGE}/functions/nesting.py",
             "            if max(depth, _depth_of(binding.var.ty)) > DEEPEST:\n", "            if False:\n",
             ("tests/passes/test_nesting.py",)),
    Breakage(14, "a pipe is waited for", f"{PACKAGE}/importing/files.py",
             "        if not stat.S_ISREG(os.fstat(file).st_mode):\n", "        if False:\n",
             (STRANGERS, "-k", "pipe")),
    Breakage(14, "a child may use any memory", f"{PACKAGE}/importing/confinement/limits.py",
             "(resource.RLIMIT_AS, _address_space() + self.memory)", "(resource.RLIMIT_AS, 2**62)",
             (APART, "-k", "bombs")),
    Breakage(14, "a child may take any time", f"{PACKAGE}/importing/confinement/isolation.py",
             "        end = time.monotonic() + limits.time\n", "        end = time.monotonic() + 3600\n",
             (APART, "-k", "never_ends")),
    Breakage(14, "weights may change after the child has ended",
             f"{PACKAGE}/importing/confinement/shared_memory.py",
             "    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)\n", "",
             (APART, "-k", "sealed")),
)  # fmt: skip


def noticed(breakage: Breakage, tree: Path) -> str:
    """What pytest says of the broken tree, in a line."""
    path = tree / breakage.file
    whole = path.read_text(encoding="utf-8")
    assert whole.count(breakage.old) == 1, f"{breakage.file} has changed: {breakage.old!r}"
    path.write_text(whole.replace(breakage.old, breakage.new), encoding="utf-8")
    # What runs on without its guard may run for long.
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--tb=no",
        "--maxfail=3",
        *breakage.tests,
    ]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    try:
        finished = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return "hangs"
    finally:
        path.write_text(whole, encoding="utf-8")
    if finished.returncode < 0:
        return f"the tests end with signal {-finished.returncode}"
    counts = re.findall(r"\d+ (?:failed|errors?)", finished.stdout.splitlines()[-1])
    return ", ".join(counts)


def is_asked_for(breakage: Breakage, words: list[str]) -> bool:
    """Whether one of the words is the breakage's item, or stands in what it breaks."""
    return not words or any(word in (str(breakage.item), *breakage.what.split()) for word in words)


def main(words: list[str]) -> int:
    """Print a line for each breakage; the number of those that nothing notices."""
    unnoticed = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        tree.mkdir()
        for name in (PACKAGE, "tests"):
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "setup.cfg"):
            shutil.copy(ROOT / name, tree / name)
        for breakage in BREAKAGES:
            if not is_asked_for(breakage, words):
                continue
            said = noticed(breakage, tree)
            unnoticed += not said
            print(f"{breakage.item:2} {breakage.what}: {said or 'NOT NOTICED'}", flush=True)
    return unnoticed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
