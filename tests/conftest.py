"""How Hypothesis runs: a small repeatable profile, and a long one for campaigns; what these count; PyTorch.

``AR_CAMPAIGN_EXAMPLES=5000 pytest -m campaign`` runs every property with 5000 examples; add
``--hypothesis-seed=N`` to repeat a run. ``--one-in=3`` thins the tests that are marked as sweeps.
"""

from __future__ import annotations

import gc
import importlib
import inspect
import os
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from zlib import crc32

import pytest
import tvm
from hypothesis import HealthCheck, settings

from annotated_region.backends.dnnl.rewriting.rewriter import verification
from annotated_region.compilation import executable
from annotated_region.host_targets import UNOPTIMIZED, HostTarget, host_target
from annotated_region.passes.preparation.sweep import checking
from annotated_region.testing.dnnl_verifier import verify

_COMMON = settings(deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
_EXAMPLES = int(os.environ.get("AR_CAMPAIGN_EXAMPLES", "1000"))

settings.register_profile("default", _COMMON, max_examples=25, derandomize=True)
settings.register_profile("campaign", _COMMON, max_examples=_EXAMPLES, print_blob=True)
settings.load_profile("campaign" if "AR_CAMPAIGN_EXAMPLES" in os.environ else "default")

# For each script that it parses, TVM asks `inspect` for the module of every frame of the stack. For frames
# without a file, `inspect` searches all loaded modules, in vain and anew each time: half of collecting.
_NO_FILES = (
    "<ast>",  # what TVM evaluates of a script
    "<string>",
    "<frozen runpy>",
    "<frozen importlib._bootstrap>",
    "<frozen importlib._bootstrap_external>",
)
inspect.modulesbyfile.update(dict.fromkeys(_NO_FILES, ""))

_COUNTED: Counter[str] = Counter()


def pytest_addoption(parser: pytest.Parser) -> None:
    what = "of each sweep, the first form and one in N of the others"
    parser.addoption("--one-in", type=int, default=1, metavar="N", help=what)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "campaign: a property that gains from more examples")
    config.addinivalue_line("markers", "sweep: many forms of one thing; `make test` runs one in three")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Thins sweeps by their names, so that a form is in each run or in none."""
    one_in = config.getoption("--one-in")
    begun, kept, left_out = set(), [], []
    for item in items:
        sweep = item.nodeid.partition("[")[0]
        is_first = sweep not in begun
        begun.add(sweep)
        is_chosen = is_first or crc32(item.nodeid.encode()) % one_in == 0
        (kept if is_chosen or item.get_closest_marker("sweep") is None else left_out).append(item)
    if left_out:
        items[:] = kept
        config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None]:
    """Keeps the garbage collector off the objects that collecting makes: to look at all takes a second."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        # Builds make hundreds of thousands of objects, nearly all without cycles.
        gc.set_threshold(5_000)


@pytest.fixture(autouse=True, scope="session")
def _graphs_are_verified() -> Iterator[None]:
    """Between any two passes of the dnnl backend; at every step the measures of these and of preparation."""
    with verification(verify), checking():
        yield


_ABOUT_REGIONS = {"backends", "importing", "checking"}
"""Rooms about regions, imported models and faults; the others, and campaigns, build as users do."""


@pytest.fixture(autouse=True, scope="module")
def _host_code_is_not_optimized(request: pytest.FixtureRequest) -> Iterator[None]:
    """Where the host computes little, LLVM's optimizations take a fifth of the time of a test."""
    room = request.path.relative_to(Path(__file__).parent).parts[0]
    if room not in _ABOUT_REGIONS or "AR_CAMPAIGN_EXAMPLES" in os.environ:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executable, "host_target", _unoptimized)
        yield


def _unoptimized(given: HostTarget) -> tvm.target.Target:
    return UNOPTIMIZED if given == "llvm" else host_target(given)


@pytest.fixture(scope="session")
def tally() -> Counter[str]:
    """What a run counts, shown at its end."""
    return _COUNTED


@pytest.fixture
def with_torch() -> None:
    """Skips a test where PyTorch is not installed: it is no part of the extra `test`."""
    pytest.importorskip("torch", reason="PyTorch is not installed (extra `torch`)")


@pytest.fixture
def torch_models(with_torch: None) -> ModuleType:
    """`kits.torch_models`, for the tests that need PyTorch."""
    return importlib.import_module("kits.torch_models")


@pytest.fixture
def torch_functions(with_torch: None) -> ModuleType:
    """`kits.importing.torch_functions`, for the tests that need PyTorch."""
    return importlib.import_module("kits.importing.torch_functions")


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):  # one of several processes, of pytest-xdist
        session.config.workeroutput["counted"] = dict(_COUNTED)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    _COUNTED.update(getattr(node, "workeroutput", {}).get("counted", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for what, count in _COUNTED.items():
        terminalreporter.write_line(f"{what}: {count}")
