"""Lock: the placement of a model as text, to be reviewed, versioned and replayed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from annotated_region.arguments import require_kind
from annotated_region.checked import checked
from annotated_region.errors import DocumentError
from annotated_region.files import write_whole
from annotated_region.importing.files import opened
from annotated_region.locking.lock_diff import LockDiff, lock_difference
from annotated_region.locking.locked_ops import LockedFunction
from annotated_region.locking.text_form import LONGEST_LOCK, read_text, text_of

__all__ = ["Lock", "as_lock"]


@dataclass(frozen=True, slots=True)
class Lock:
    """The placement of a model: `Report.to_lock` creates a lock, ``ar.partition(..., lock=...)`` replays it.

    Attributes
    ----------
    targets
        The requested targets in the order of preference, each with the version of its library; ``"-"``
        for a target without a library.
    functions
        The locked functions, sorted by name.
    """

    targets: Mapping[str, str] = field(default_factory=dict)
    functions: tuple[LockedFunction, ...] = ()

    def __str__(self) -> str:
        return text_of(self.targets, self.functions)

    @staticmethod
    @checked
    def from_text(text: str) -> Lock:
        """Parse the text of a lock, which may be untrusted.

        Raises
        ------
        DocumentError
            The text is not a lock, or is inconsistent; the message names the line.
        UsageError
            The argument is not a string.
        """
        return Lock(*read_text(text))

    @staticmethod
    @checked
    def read(path: str | Path) -> Lock:
        """The lock in a file.

        Raises
        ------
        ModelError
            The file does not exist, or cannot be read.
        DocumentError
            It does not contain a lock.
        """
        file = Path(path)
        with opened(file) as handle, os.fdopen(os.dup(handle), "rb") as stream:
            content = stream.read(LONGEST_LOCK + 1)
        try:
            return Lock.from_text(content.decode("utf-8"))
        except UnicodeDecodeError:
            raise DocumentError(f"{file}: the lock is not UTF-8 text") from None
        except DocumentError as error:
            raise DocumentError(f"{file}: {error}") from None

    @checked
    def write(self, path: str | Path) -> None:
        """Write the text to a file, atomically; raises `OSError`."""
        write_whole(path, str(self))

    @checked
    def diff(self, other: Lock) -> LockDiff:
        """The differences of `other`: ops moved, removed and added, with the known reasons."""
        missing = tuple(target for target in self.targets if target not in other.targets)
        return LockDiff(lock_difference(self.functions, other.functions), missing)

    def function(self, name: str) -> LockedFunction | None:
        """The locked function of a name; None if there is none."""
        return next((function for function in self.functions if function.name == name), None)


def as_lock(given: Lock | str | Path | None) -> Lock | None:
    """A lock, given as a `Lock` or as the path of its file.

    Raises
    ------
    UsageError
        The argument is neither.
    """
    require_kind(given, (Lock, str, Path, type(None)), "the argument lock", "an ar.Lock or the path of one")
    return given if isinstance(given, Lock) or given is None else Lock.read(given)
