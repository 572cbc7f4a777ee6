"""Keeps measured times in an SQLite file that several processes may share."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from annotated_region.cache import cache_folder
from annotated_region.errors import ModelError

__all__ = ["CostStore", "default_path"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS measured (
    key TEXT PRIMARY KEY,
    seconds REAL NOT NULL CHECK (seconds >= 0),
    what TEXT NOT NULL
)
"""
_BUSY_SECONDS = 30.0


def default_path() -> Path:
    """The user's own file, in a folder that nobody else can read."""
    return cache_folder() / "costs.sqlite3"


class CostStore:
    """Seconds by key. What is in the file is data: numbers and labels, nothing that is run.

    Parameters
    ----------
    path
        The file; made when it is missing, in a private folder if that has to be made too.

    Raises
    ------
    ModelError
        The file is no cost database.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._connected() as connection:
            connection.execute(_SCHEMA)

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """A connection for one transaction: kept short, so that processes take turns."""
        connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS)
        try:
            with connection:
                yield connection
        except sqlite3.DatabaseError as error:
            raise ModelError(
                f"{self.path} is no cost database ({error}); remove it, or name another file"
            ) from error
        finally:
            connection.close()

    def get(self, key: str) -> float | None:
        """The seconds measured under `key`; None if there are none."""
        with self._connected() as connection:
            row = connection.execute("SELECT seconds FROM measured WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        if not isinstance(row[0], float | int) or not row[0] >= 0:
            raise ModelError(f"{self.path} holds {row[0]!r} where seconds should stand; remove it")
        return float(row[0])

    def put(self, measured: Mapping[str, tuple[float, str]]) -> None:
        """Keep (seconds, what was measured) by key; what another process measured meanwhile stays."""
        rows = [(key, seconds, what) for key, (seconds, what) in measured.items()]
        with self._connected() as connection:
            connection.executemany("INSERT OR IGNORE INTO measured VALUES (?, ?, ?)", rows)
