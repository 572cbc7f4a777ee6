"""Stores measured times in an SQLite file that several processes may share.

A file may come from an untrusted source, and SQLite executes what it contains: unbounded views, triggers. So
its schema must be exactly the one created here, with nothing attached to the table.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path

from annotated_region.cache import private_cache_folder
from annotated_region.errors import ModelError
from annotated_region.measuring.timing import Time

__all__ = ["CostStore", "default_path"]

# Files of an earlier version had a table `measured` without spreads; it is ignored.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS times (
    key TEXT PRIMARY KEY,
    seconds REAL NOT NULL CHECK (seconds >= 0 AND seconds < 9e999),
    spread REAL NOT NULL CHECK (spread >= 0),
    what TEXT NOT NULL
)
"""
# Lists the table and everything attached to it; reading this executes nothing from the file.
_ATTACHED = "SELECT type, name, sql FROM sqlite_master WHERE tbl_name = 'times' ORDER BY name"
_BUSY_SECONDS = 30.0
# SQLite's errors for files that are not databases; all others concern the file system or locks.
_FOREIGN = frozenset((sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR))


def default_path() -> Path:
    """The user's own file, in a folder that other users cannot read.

    Raises
    ------
    ModelError
        There is no such folder, and it cannot be created.

    Warns
    -----
    CacheWarning
        The folder exists, but others may write to it.
    """
    folder = private_cache_folder()
    if folder is None:
        raise ModelError(
            "there is no private folder for the cost database; set XDG_CACHE_HOME to another one"
        )
    return folder / "costs.sqlite3"


@cache
def _expected() -> list[tuple[str, str, str | None]]:
    """The result of `_ATTACHED` for a new database."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(_SCHEMA)
        return connection.execute(_ATTACHED).fetchall()


class CostStore:
    """Times by key. The file is data, numbers and labels; nothing in it is executed.

    Parameters
    ----------
    path
        The file; created if missing, in a private folder if that must be created too.

    Raises
    ------
    ModelError
        The file is not a cost database, or cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            is_folder = path.is_dir()
        except (OSError, ValueError) as error:
            raise ModelError(f"the cost database {str(path)!r} cannot be made: {error}") from error
        if is_folder:
            raise ModelError(f"the cost database {path} is a folder; remove it, or name another file")
        with self._connected() as connection:
            connection.execute(_SCHEMA)
            attached = connection.execute(_ATTACHED).fetchall()
        if attached != _expected():
            raise ModelError(
                f"{path} is not a cost database (it has another table); remove it, or name another file"
            )

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """A connection for one short transaction, so that processes can take turns."""
        connection: sqlite3.Connection | None = None
        try:
            connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS)
            with connection:
                yield connection
        except sqlite3.DatabaseError as error:
            raise ModelError(self._complaint(error)) from error
        except UnicodeDecodeError as error:
            # SQLite's messages quote the file's content, which may not be valid text.
            raise ModelError(
                f"{self.path} is not a cost database; remove it, or name another file"
            ) from error
        finally:
            if connection is not None:
                connection.close()

    def _complaint(self, error: sqlite3.DatabaseError) -> str:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in _FOREIGN:
            return f"{self.path} is not a cost database ({error}); remove it, or name another file"
        return f"the cost database {self.path} cannot be used now: {error}"

    def get(self, key: str) -> Time | None:
        """The time stored under `key`; None if there is none."""
        with self._connected() as connection:
            row = connection.execute("SELECT seconds, spread FROM times WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        for number in row:
            if not isinstance(number, float | int) or not 0 <= number < float("inf"):
                raise ModelError(f"{self.path} has {number!r} instead of seconds; remove it")
        return Time(float(row[0]), float(row[1]))

    def put(self, measured: Mapping[str, tuple[Time, str]]) -> None:
        """Store pairs of a time and what was measured, by key; existing entries, also of other processes, are
        kept.

        Raises
        ------
        ModelError
            The file cannot be written.
        """
        rows = [(key, time.seconds, time.spread, what) for key, (time, what) in measured.items()]
        with self._connected() as connection:
            connection.executemany("INSERT OR IGNORE INTO times VALUES (?, ?, ?, ?)", rows)
