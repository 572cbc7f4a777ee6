"""Plugin for pytest: a fixture that checks a backend with the conformance kit, in one line of a test.

    def test_my_backend(check_backend):
        check_backend("my_backend")

It is a module of its own, outside of the package, because pytest imports the plugins of every installed
package: nothing of annotated-region, TVM or Hypothesis is imported before a test asks for the fixture.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from annotated_region.testing.conformance import Conformance

__all__ = ["check_backend"]

_COVERED = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer how many graphs to try, and which ones."""
    group = parser.getgroup("annotated-region", "conformance of backends of annotated-region")
    group.addoption(
        "--conformance-examples",
        type=int,
        metavar="N",
        help="how many graphs check_backend tries, whatever the test says",
    )
    group.addoption(
        "--conformance-start",
        type=int,
        metavar="N",
        help="another number makes check_backend try other graphs (default: 0)",
    )
    group.addoption(
        "--conformance-save",
        metavar="FOLDER",
        help="where check_backend leaves a graph that fails, as a program (default: the test's tmp_path)",
    )


@pytest.fixture
def check_backend(request: pytest.FixtureRequest) -> Callable[..., Conformance]:
    """The function `annotated_region.testing.conformance.check_backend`, for a test of a backend.

    A target that cannot run on this machine skips the test, with the reason; a graph on which it fails is
    shown without a traceback; what was covered stands at the end of the run.
    """
    from annotated_region.errors import BackendUnavailableError, ConformanceError  # noqa: PLC0415
    from annotated_region.testing import conformance  # noqa: PLC0415

    config = request.config
    chosen: dict[str, object] = {
        "examples": config.getoption("--conformance-examples"),
        "start": config.getoption("--conformance-start"),
    }
    given = {name: number for name, number in chosen.items() if number is not None}
    kept = config.getoption("--conformance-save") or request.getfixturevalue("tmp_path")

    def check(target: str, **options: object) -> Conformance:
        try:
            found: Conformance | str = conformance.check_backend(target, **{"save": kept, **options, **given})
        except BackendUnavailableError as error:
            pytest.skip(str(error))
        except ConformanceError as error:
            found = str(error)
        if isinstance(found, str):  # out here, or pytest would show the error a second time, as its cause
            pytest.fail(found, pytrace=False)
        config.stash.setdefault(_COVERED, []).append(str(found))
        return found

    return check


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what was covered."""
    covered = terminalreporter.config.stash.get(_COVERED, [])
    if covered:
        terminalreporter.section("conformance")
        for text in covered:
            terminalreporter.write_line(text)
