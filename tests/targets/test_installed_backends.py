"""Backends of others, broken or slow in every way: they harm nobody else, and the error names them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tvm_ffi
from kits.targets.installed_packages_kit import install

import annotated_region as ar
from annotated_region.passes import annotate_target
from annotated_region.targets import installed_backends
from annotated_region.targets.backend import backend_of
from annotated_region.testing.graphs import SIX_OPS, module_of
from annotated_region.testing.registry import claim_ops, temporary_registrations

ROOT = Path(__file__).parents[2]
RULE = "import annotated_region as ar\ndef register():\n    @ar.register_rule('{name}', 'relax.nn.relu')\n"
# A package for each way to be wrong: its code, and what asking for its target says.
BROKEN = {
    "raises_at_import": ("raise RuntimeError('out of order')", "RuntimeError: out of order"),
    "ends_the_process": ("raise SystemExit(3)", "SystemExit: 3"),
    "is_no_python": ("def (", "SyntaxError"),
    "imports_nothing": ("import a_library_that_is_missing", "No module named 'a_library_that_is_missing'"),
    "registers_nothing": ("", "has no attribute 'register'"),
    "raises_at_register": ("def register():\n    raise ValueError('not today')", "ValueError: not today"),
    "stops_half_way": (
        RULE + "    def relu(_op):\n        return True\n    raise ValueError('half way')",
        "ValueError: half way",
    ),
}


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of installed packages, forgotten when the test ends."""
    monkeypatch.syspath_prepend(str(tmp_path))
    installed_backends._entry_points.cache_clear()
    before = set(sys.modules)
    with temporary_registrations():
        yield tmp_path
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]
    monkeypatch.undo()
    installed_backends._entry_points.cache_clear()


def explained(*targets):
    return ar.explain(module_of(SIX_OPS), targets, prepare=False)


@pytest.mark.parametrize("name", BROKEN)
def test_the_error_of_a_broken_package_names_it(site, name):
    code, message = BROKEN[name]
    install(site, name, code.replace("{name}", name))
    with pytest.raises(ar.BackendUnavailableError) as caught:
        explained(name)
    assert f"the package '{name}' that provides target '{name}' could not be loaded: " in str(caught.value)
    assert message in str(caught.value)
    with pytest.raises(ar.BackendUnavailableError, match="could not be loaded"):
        explained(name)  # the second time, too


def test_nothing_is_imported_for_the_sake_of_another_target(site):
    """So a package that sleeps, hangs or raises is as good as absent for everybody else."""
    for name, (code, _message) in BROKEN.items():
        install(site, name, code.replace("{name}", name))
    install(site, "sleeps", "import time\ntime.sleep(20)")
    install(site, "whole", RULE.format(name="whole") + "    def relu(_op):\n        return True")
    assert {"sleeps", "whole", *BROKEN} <= set(ar.known_targets())
    assert str(explained("whole", "dnnl")).startswith("whole: 2 of 6 ops")
    with pytest.raises(ar.UnknownTargetError, match=r"known targets: .*'sleeps'"):
        explained("slep")
    assert [path.stem for path in site.glob("*.imported")] == ["whole"]


def test_the_same_in_a_process_of_its_own(tmp_path):
    for name, (code, _message) in BROKEN.items():
        install(tmp_path, name, code.replace("{name}", name))
    install(tmp_path, "sleeps", "import time\ntime.sleep(20)")
    install(tmp_path, "dnnl", "raise RuntimeError('a stranger of the same name')")
    program = (
        "import annotated_region as ar\nfrom annotated_region.testing.graphs import SIX_OPS, module_of\n"
        "print(ar.explain(module_of(SIX_OPS), ['dnnl']))"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.startswith("dnnl: 6 of 6 ops")
    assert not list(tmp_path.glob("*.imported"))


def test_a_rule_that_raises_is_named_and_the_others_go_on_without_it(site):
    install(site, "divides", RULE.format(name="divides") + "    def relu(_op):\n        return 1 / 0")
    with pytest.raises(ar.RuleError, match=r"rule of 'divides' for relax.nn.relu at 'a1' .* ZeroDivision"):
        explained("divides", "dnnl")
    assert str(explained("dnnl")).startswith("dnnl: 6 of 6 ops")


def test_a_slow_package_is_named_in_a_warning(site, monkeypatch):
    monkeypatch.setattr(installed_backends, "_PATIENCE", -1.0)
    install(site, "slow", RULE.format(name="slow") + "    def relu(_op):\n        return True")
    with pytest.warns(ar.SlowBackendWarning, match="the package 'slow' that provides target 'slow' took 0 s"):
        assert str(explained("slow")).startswith("slow: 2 of 6 ops")


def test_slow_rules_are_named_in_a_warning(monkeypatch):
    monkeypatch.setattr(annotate_target, "_PATIENCE", -1.0)
    with temporary_registrations():
        claim_ops("slow", "relax.nn.relu")
        with pytest.warns(ar.SlowBackendWarning, match="rules and patterns of 'slow' took 0 s for the 7"):
            explained("slow")


def test_a_target_that_cannot_say_whether_it_runs_does_not_run():
    def broken():
        raise OSError("no such device")

    with temporary_registrations():
        claim_ops("sick", "relax.nn.relu", "relax.tanh")
        ar.register_backend("sick", unavailable=broken)
        lines = str(explained("sick", "dnnl")).splitlines()
    assert lines[0].startswith("sick: 0 of 6 ops")
    assert "its availability check failed: OSError: no such device" in lines[0]
    assert lines[1].startswith("dnnl: 6 of 6 ops")


def test_a_limit_on_regions_that_raises_is_named():
    with temporary_registrations():
        claim_ops("sick", "relax.nn.relu", "relax.tanh")
        ar.register_backend("sick", accepts_region=lambda region: region.nothing)
        with pytest.raises(ar.RuleError, match=r"accepts_region of backend 'sick' failed in main"):
            explained("sick")


def test_a_code_generator_that_raises_is_named():
    def broken(*_arguments):
        raise IndexError("nothing there")

    with temporary_registrations():
        claim_ops("sick", "relax.nn.relu")
        tvm_ffi.register_global_func("relax.ext.sick", broken, override=True)
        partitioned = ar.partition(module_of(SIX_OPS), ["sick"], prepare=False)
        with pytest.raises(ar.CodegenError, match=r"generator of target 'sick' failed on .*nothing there"):
            ar.build(partitioned)


def test_a_rule_of_the_user_does_not_hide_the_package(site):
    install(site, "whole", RULE.format(name="whole") + "    def relu(_op):\n        return True")
    claim_ops("whole", "relax.tanh")
    assert str(explained("whole")).startswith("whole: 4 of 6 ops")
    assert backend_of("whole").name == "whole"
