"""Reads files that commands have saved: reports, checks, profiles and locks."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from annotated_region.checking.check_document import KIND as CHECK
from annotated_region.checking.check_report import CheckReport
from annotated_region.documents import LONGEST_DOCUMENT, kind_of_document, read_document
from annotated_region.errors import DocumentError
from annotated_region.importing.files import opened
from annotated_region.locking.lock import Lock
from annotated_region.profiling.profile_document import KIND as PROFILE
from annotated_region.profiling.times import Profile
from annotated_region.reports.report import Report

__all__ = ["BENCH", "Saved", "kind_of", "read_saved", "saved_profile"]

Saved = Report | Lock | CheckReport | Profile
BENCH = "bench"
"""The kind of the output of ``bench --by-region --json``: times of engines, and a profile."""

_LOCK, _REPORT = "lock", "report"
_NAMES: Mapping[type[Saved], str] = {Report: _REPORT, Lock: _LOCK, CheckReport: CHECK, Profile: PROFILE}


def kind_of(saved: Saved) -> str:
    """The kind of a saved file, for messages: ``"report"``, ``"lock"``, ``"check"`` or ``"profile"``."""
    return _NAMES[type(saved)]


def read_saved(file: Path) -> Saved:
    """The report, check, profile or lock in a file; all but locks are JSON.

    Raises
    ------
    DocumentError
        It is none of them, or malformed; the message has the file name.
    """
    text = _text(file)
    try:
        return _from_json(text) if text.lstrip().startswith(("{", "[")) else Lock.from_text(text)
    except DocumentError as error:
        raise DocumentError(f"{file}: {error}") from None


def saved_profile(file: Path) -> Profile:
    """The profile in a file.

    Raises
    ------
    DocumentError
        It is not a profile; the message has the file name.
    """
    saved = read_saved(file)
    if not isinstance(saved, Profile):
        raise DocumentError(
            f"{file} holds a {kind_of(saved)}, not a profile; bench --by-region --json prints one"
        )
    return saved


def _from_json(text: str) -> Saved:
    kind = kind_of_document(text)
    if kind not in _READERS:
        known = ", ".join(_READERS)
        raise DocumentError(f"this is a document of the kind {kind[:40]!a}, not {known}")
    return _READERS[kind](text)


def _profile_of_bench(text: str) -> Profile:
    return Profile.from_json(json.dumps(read_document(text, BENCH).field(PROFILE).plain))


_READERS: Mapping[str, Callable[[str], Saved]] = {
    _REPORT: Report.from_json,
    CHECK: CheckReport.from_json,
    PROFILE: Profile.from_json,
    BENCH: _profile_of_bench,
}


def _text(file: Path) -> str:
    with opened(file) as handle, os.fdopen(os.dup(handle), "rb") as stream:
        content = stream.read(LONGEST_DOCUMENT + 1)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise DocumentError(f"{file}: it is not UTF-8 text") from None
