"""The SQLite file of measured times: shared, resumed, refused when it is something else."""

import math
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing

import pytest

import annotated_region as ar
from annotated_region.measuring import store as store_module
from annotated_region.measuring.store import CostStore, default_path
from annotated_region.measuring.timing import Time


def test_what_was_put_is_found_again_by_another_store(tmp_path):
    path = tmp_path / "deep" / "costs.sqlite3"
    CostStore(path).put({"one": (Time(0.25, 0.1), "conv")})
    again = CostStore(path)
    assert again.get("one") == Time(0.25, 0.1)
    assert again.get("unknown") is None


def test_the_first_measurement_stays(tmp_path):
    store = CostStore(tmp_path / "costs.sqlite3")
    store.put({"one": (Time(0.25, 0.0), "conv")})
    store.put({"one": (Time(0.5, 0.0), "conv")})
    assert store.get("one") == Time(0.25, 0.0)


@pytest.mark.parametrize("seconds", [math.inf, math.nan, -1.0])
def test_what_is_no_time_is_not_kept(tmp_path, seconds):
    store = CostStore(tmp_path / "costs.sqlite3")
    store.put({"never": (Time(seconds, 0.0), "refused")})
    assert store.get("never") is None


def test_what_an_earlier_version_kept_is_not_believed(tmp_path):
    path = tmp_path / "costs.sqlite3"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE measured (key TEXT PRIMARY KEY, seconds REAL, what TEXT)")
        connection.execute("INSERT INTO measured VALUES ('one', 9e999, 'conv')")
        connection.commit()
    store = CostStore(path)
    assert store.get("one") is None
    store.put({"one": (Time(0.5, 0.0), "conv")})
    assert store.get("one") == Time(0.5, 0.0)


def test_a_folder_in_the_place_of_the_file_is_named(tmp_path):
    with pytest.raises(
        ar.ModelError, match=r"the cost database .* is a folder; remove it, or name another file"
    ):
        CostStore(tmp_path)


@pytest.mark.parametrize("name", ["file/costs.sqlite3", "nul\0/costs.sqlite3"])
def test_a_place_where_no_file_can_be_is_named(tmp_path, name):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ar.ModelError, match="cannot be made"):
        CostStore(tmp_path / name)


@pytest.fixture
def read_only(tmp_path, monkeypatch):
    """A database that is read-only, for root as well."""
    path = tmp_path / "costs.sqlite3"
    CostStore(path).put({"one": (Time(0.25, 0.0), "conv")})
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda name, **options: connect(f"file:{name}?mode=ro", uri=True))
    return path


def test_a_read_only_database_is_read_and_nobody_is_told_to_remove_it(read_only):
    store = CostStore(read_only)
    assert store.get("one") == Time(0.25, 0.0)
    with pytest.raises(ar.ModelError, match=r"cannot be used now: attempt to write a readonly database$"):
        store.put({"two": (Time(0.5, 0.0), "conv")})


def test_a_locked_database_is_not_called_damaged(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "_BUSY_SECONDS", 0.01)
    store = CostStore(tmp_path / "costs.sqlite3")
    with closing(sqlite3.connect(store.path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(ar.ModelError, match=r"cannot be used now: database is locked$"):
            store.get("one")


def test_who_has_no_home_is_told_what_to_set(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("pathlib.Path.home", lambda: (_ for _ in ()).throw(RuntimeError("no home directory")))
    with pytest.raises(ar.ModelError, match="set XDG_CACHE_HOME"):
        default_path()


def test_a_file_that_is_no_database_is_refused(tmp_path):
    path = tmp_path / "costs.sqlite3"
    path.write_text("these are no costs, and long enough to be taken for a database header")
    with pytest.raises(ar.ModelError, match="is not a cost database"):
        CostStore(path)


COLUMNS = "1 AS key, 1.0 AS seconds, 0.0 AS spread, '' AS what"


@pytest.mark.parametrize(
    "hostile",
    [
        "CREATE VIEW times AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n FROM r) "
        f"SELECT {COLUMNS} FROM r",
        f"CREATE VIEW Times AS SELECT {COLUMNS}",
        "CREATE TABLE times (key, seconds AS (zeroblob(1000000000)), spread, what)",
        store_module._SCHEMA + ";CREATE TRIGGER t BEFORE INSERT ON times BEGIN DELETE FROM times; END",
    ],
    ids=["endless view", "view", "computed column", "trigger"],
)
def test_nothing_that_a_file_holds_is_run(tmp_path, hostile):
    path = tmp_path / "costs.sqlite3"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(hostile)
    with pytest.raises(ar.ModelError, match="is not a cost database"):
        CostStore(path).get("one")


def test_a_folder_that_others_may_write_to_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "annotated-region").mkdir()
    (tmp_path / "annotated-region").chmod(0o777)
    with (
        pytest.warns(ar.CacheWarning, match="is not used"),
        pytest.raises(ar.ModelError, match="no private folder for the cost database"),
    ):
        default_path()


def test_a_database_with_something_else_in_it_is_refused(tmp_path):
    path = tmp_path / "costs.sqlite3"
    connection = sqlite3.connect(path)
    connection.execute(store_module._SCHEMA)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute("INSERT INTO times VALUES ('one', 'soon', '0', 'conv')")
    connection.commit()
    connection.close()
    with pytest.raises(ar.ModelError, match="has 'soon' instead of seconds"):
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
from annotated_region.measuring.store import CostStore
from annotated_region.measuring.timing import Time
store = CostStore(Path(sys.argv[1]))
for number in range(40):
    store.put({f"{sys.argv[2]} {number}": (Time(float(number), 0.0), "unit")})
"""


def test_two_processes_share_the_file(tmp_path):
    path = tmp_path / "costs.sqlite3"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), name]) for name in ("left", "right")
    ]
    assert [writer.wait() for writer in writers] == [0, 0]
    store = CostStore(path)
    assert all(
        store.get(f"{name} {number}") == Time(number, 0.0)
        for name in ("left", "right")
        for number in range(40)
    )
