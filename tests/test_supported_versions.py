"""Pairs of TVM and its FFI that crash are refused when the package is imported."""

import configparser
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

import annotated_region as ar
from annotated_region.supported_versions import REQUIREMENTS, require_working_pair

ROOT = Path(__file__).parents[1]
REMEDY = "python -m pip install 'apache-tvm>=0.27,<0.28' 'apache-tvm-ffi>=0.1.14.post0,<0.1.15'"


def check(tvm, ffi):
    require_working_pair({"apache-tvm": tvm, "apache-tvm-ffi": ffi}.__getitem__)


@pytest.mark.parametrize("tvm", ["0.27.0", "0.27.0.post1", "0.27.1"])
@pytest.mark.parametrize("ffi", ["0.1.14.post0", "0.1.14.post1"])
def test_pairs_that_work_pass(tvm, ffi):
    check(tvm, ffi)


@pytest.mark.parametrize("tvm", ["0.28.0", "0.28.dev12+g0123abc", "1.0"])
def test_a_newer_tvm_is_left_to_pip(tvm):
    check(tvm, "0.1.15.post2")


@pytest.mark.parametrize(
    ("tvm", "ffi", "problem"),
    [
        (
            "0.27.0.post1",
            "0.1.15",
            r"0\.27\.0\.post1 crashes with apache-tvm-ffi 0\.1\.15 when it serializes",
        ),
        ("0.27.0", "0.1.15.post2", r"apache-tvm 0\.27\.0 crashes with apache-tvm-ffi 0\.1\.15\.post2"),
        ("0.27.0", "0.1.15rc1", "crashes with apache-tvm-ffi 0.1.15rc1"),
        ("0.27.0", "0.2.0", "crashes with apache-tvm-ffi 0.2.0"),
        ("0.27.0", "0.1.14", r"does not work with apache-tvm-ffi 0\.1\.14, which is too old"),
        ("0.26.0", "0.1.14.post0", r"apache-tvm 0\.26\.0 is installed, which is too old"),
        ("unknown", "0.1.14.post0", "'unknown' is not a version number"),
    ],
)
def test_other_pairs_are_refused_with_the_pip_line(tvm, ffi, problem):
    with pytest.raises(ar.VersionError, match=problem) as caught:
        check(tvm, ffi)
    assert str(caught.value).endswith(f"; run: {REMEDY}")
    assert isinstance(caught.value, ImportError)


def test_a_tvm_that_pip_does_not_know_passes():
    def version_of(name):
        raise PackageNotFoundError(name)

    require_working_pair(version_of)


def test_the_import_itself_fails(tmp_path):
    information = tmp_path / "apache_tvm_ffi-0.1.15.post2.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: apache-tvm-ffi\nVersion: 0.1.15.post2\n"
    )
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    run = subprocess.run(
        [sys.executable, "-c", "import annotated_region.grouping"],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1].endswith(REMEDY)


def test_the_metadata_ask_for_the_same():
    metadata = configparser.ConfigParser()
    metadata.read(ROOT / "setup.cfg")
    assert set(REQUIREMENTS) <= set(metadata["options"]["install_requires"].split())
