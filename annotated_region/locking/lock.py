"""Lock: who runs what of a model, for people to review, for git to keep, and to be replayed."""

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
    """Who runs what of a model: `Report.to_lock` makes one, ``ar.partition(..., lock=...)`` replays it.

    Attributes
    ----------
    targets
        The targets that took part, the most preferred first, each with the version of its library; ``"-"``
        where a target has no library of its own.
    functions
        In order of their names.
    """

    targets: Mapping[str, str] = field(default_factory=dict)
    functions: tuple[LockedFunction, ...] = ()

    def __str__(self) -> str:
        return text_of(self.targets, self.functions)

    @staticmethod
    @checked
    def from_text(text: str) -> Lock:
        """The lock that `str` wrote; the text may come from a stranger.

        Raises
        ------
        DocumentError
            It is no lock, or one that contradicts itself; the message names the line.
        UsageError
            It is no text.
        """
        return Lock(*read_text(text))

    @staticmethod
    @checked
    def read(path: str | Path) -> Lock:
        """The lock in a file.

        Raises
        ------
        ModelError
            There is no such file, or it is none that can be read.
        DocumentError
            It holds no lock.
        """
        file = Path(path)
        with opened(file) as handle, os.fdopen(os.dup(handle), "rb") as stream:
            content = stream.read(LONGEST_LOCK + 1)
        try:
            return Lock.from_text(content.decode("utf-8"))
        except UnicodeDecodeError:
            raise DocumentError(f"{file}: the lock is no text in UTF-8") from None
        except DocumentError as error:
            raise DocumentError(f"{file}: {error}") from None

    @checked
    def write(self, path: str | Path) -> None:
        """Write the text into a file, which is replaced as a whole; errors are `OSError`."""
        write_whole(path, str(self))

    @checked
    def diff(self, other: Lock) -> LockDiff:
        """What is otherwise in `other`: who moved, who was lost, who is new, and why as far as it says."""
        missing = tuple(target for target in self.targets if target not in other.targets)
        return LockDiff(lock_difference(self.functions, other.functions), missing)

    def function(self, name: str) -> LockedFunction | None:
        """What it says of a function; None if nothing."""
        return next((function for function in self.functions if function.name == name), None)


def as_lock(given: Lock | str | Path | None) -> Lock | None:
    """A lock that is given as itself or as the path of its file.

    Raises
    ------
    UsageError
        It is neither.
    """
    require_kind(given, (Lock, str, Path, type(None)), "the argument lock", "an ar.Lock or the path of one")
    return given if isinstance(given, Lock) or given is None else Lock.read(given)
