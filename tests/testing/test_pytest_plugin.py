"""The plugin for pytest: one line checks a backend, and nobody else pays for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kits.testing import numpy_backend

from annotated_region.testing import conformance

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
CONFTEST = """
from kits.testing import numpy_backend
import pytest
from annotated_region.testing.registry import temporary_registrations

@pytest.fixture(autouse=True)
def registered(request):
    with temporary_registrations():
        numpy_backend.register(getattr(request.module, "spoil", lambda _ops, result: result))
        yield
"""
TEST = (
    "def test_numpy(check_backend):\n"
    f"    {conformance.check_backend.__name__}({numpy_backend.NAME!r}, examples=3, dtypes=['float32'])\n"
)
"""What runs in this process has to be imported before: numpy cannot be imported twice."""


@pytest.fixture
def run(pytester, monkeypatch):
    """Runs pytest on a conftest and a test; the plugin is asked for by name, if it is not installed."""

    def run(test, *words, conftest=CONFTEST, start=pytester.runpytest_inprocess):
        pytester.makeconftest(conftest)
        pytester.makepyfile(test)
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "tests")]))
        return start("-p", "annotated_region_pytest", *words)

    return run


def test_a_test_in_one_line(run):
    result = run(TEST)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*= conformance =*", "numpy: 3 graphs agree with TVM; placed: *"])


def test_a_wrong_backend_fails_with_the_graph_and_without_a_traceback(run):
    result = run(f"def spoil(_ops, result):\n    return result + 1\n{TEST}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["numpy fails on this graph: result 0 has *", "*R.function*"])
    result.stdout.no_fnmatch_line("*conformance.py*")
    assert result.stdout.str().count("\nnumpy fails on this graph") == 1


def test_a_target_that_cannot_run_here_skips_its_test(run):
    conftest = CONFTEST.replace("result))\n", "result), unavailable=lambda: 'buy one')\n")
    result = run(TEST, "-rs", conftest=conftest)
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*numpy cannot be checked on this machine: buy one"])


def test_the_command_line_has_the_last_word(run):
    result = run(TEST, "--conformance-examples=2", "--conformance-start=7")
    result.stdout.fnmatch_lines(["numpy: 2 graphs agree with TVM; *"])


def test_nothing_is_imported_before_a_test_asks(run, pytester):
    heavy = "{'annotated_region', 'tvm', 'numpy'}"
    test = f"import sys\ndef test_nothing():\n    assert not {heavy} & set(sys.modules)\n"
    result = run(test, conftest="", start=pytester.runpytest_subprocess)
    result.assert_outcomes(passed=1)


def test_pytest_finds_the_plugin_by_itself():
    """In a process of its own, in an empty folder, as somebody else's test run."""
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "--help"], capture_output=True, text=True, timeout=120, check=True
    )
    assert "--conformance-examples=N" in finished.stdout
