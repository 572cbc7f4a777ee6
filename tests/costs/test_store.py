"""The SQLite file of measured times: shared, resumed, refused when it is something else."""

import math
import sqlite3
import stat
import subprocess
import sys

import pytest

import annotated_region as ar
from annotated_region.costs.store import CostStore, default_path


def test_what_was_put_is_found_again_by_another_store(tmp_path):
    path = tmp_path / "deep" / "costs.sqlite3"
    CostStore(path).put({"one": (0.25, "conv"), "never": (math.inf, "refused")})
    again = CostStore(path)
    assert again.get("one") == 0.25
    assert again.get("never") == math.inf
    assert again.get("unknown") is None


def test_the_first_measurement_stays(tmp_path):
    store = CostStore(tmp_path / "costs.sqlite3")
    store.put({"one": (0.25, "conv")})
    store.put({"one": (0.5, "conv")})
    assert store.get("one") == 0.25


def test_a_file_that_is_no_database_is_refused(tmp_path):
    path = tmp_path / "costs.sqlite3"
    path.write_text("these are no costs, and long enough to be taken for a database header")
    with pytest.raises(ar.ModelError, match="is no cost database"):
        CostStore(path)


def test_a_database_with_something_else_in_it_is_refused(tmp_path):
    path = tmp_path / "costs.sqlite3"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE measured (key TEXT, seconds TEXT, what TEXT)")
    connection.execute("INSERT INTO measured VALUES ('one', 'soon', 'conv')")
    connection.commit()
    connection.close()
    with pytest.raises(ar.ModelError, match="holds 'soon' where seconds should stand"):
        CostStore(path).get("one")


def test_the_default_file_is_in_a_private_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = default_path()
    assert path == tmp_path / "annotated-region" / "costs.sqlite3"
    CostStore(path)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


WRITER = """
import sys
from pathlib import Path
from annotated_region.costs.store import CostStore
store = CostStore(Path(sys.argv[1]))
for number in range(40):
    store.put({f"{sys.argv[2]} {number}": (float(number), "unit")})
"""


def test_two_processes_share_the_file(tmp_path):
    path = tmp_path / "costs.sqlite3"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), name]) for name in ("left", "right")
    ]
    assert [writer.wait() for writer in writers] == [0, 0]
    store = CostStore(path)
    assert all(store.get(f"{name} {number}") == number for name in ("left", "right") for number in range(40))
