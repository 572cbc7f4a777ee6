"""Serialization of the report of a check to plain data, and parsing of untrusted documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TypeVar

from annotated_region.checking.comparison import ResultCheck
from annotated_region.checking.program import CheckedOp
from annotated_region.checking.region_check import Culprit, RegionCheck
from annotated_region.documents import JsonValue, plain_value
from annotated_region.reports.json_form import plain_placement, read_placement
from annotated_region.reports.report import Report

__all__ = ["KIND", "Checked", "plain_check", "read_check"]

KIND = "check"

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class Checked:
    """The parts of a report; see `CheckReport`."""

    regions: tuple[RegionCheck, ...]
    whole: tuple[ResultCheck, ...]
    culprits: tuple[Culprit, ...]
    inputs: tuple[str, ...]
    extents: Mapping[str, int]
    notes: tuple[str, ...]
    reference: str
    placement: Report | None


def plain_check(checked: Checked, is_ok: bool) -> dict[str, object]:
    """The parts as dicts, lists, strings and numbers, with the derived `ok` and errors of regions.

    The placement has the fields of a report.
    """
    placement = checked.placement
    return {
        "ok": is_ok,
        "reference": checked.reference,
        "regions": [_plain_region(region) for region in checked.regions],
        "whole": [plain_value(asdict(result)) for result in checked.whole],
        "culprits": [plain_value(asdict(culprit)) for culprit in checked.culprits],
        "inputs": list(checked.inputs),
        "extents": dict(checked.extents),
        "notes": list(checked.notes),
        **({} if placement is None else plain_placement(placement.functions, placement.targets)),
    }


def _plain_region(region: RegionCheck) -> object:
    properties = {"ok": region.ok, "absolute": region.absolute, "relative": region.relative}
    return plain_value({**asdict(region), **properties})


def read_check(document: JsonValue) -> Checked:
    """Parse the output of `plain_check`.

    Raises
    ------
    DocumentError
        A field is missing or has the wrong type.
    """
    return Checked(
        tuple(_read_region(region) for region in document.field("regions").items()),
        _read_results(document.field("whole")),
        tuple(_read_culprit(culprit) for culprit in document.field("culprits").items()),
        document.field("inputs").texts(),
        {name: count.integer() for name, count in document.field("extents").named()},
        document.field("notes").texts(),
        document.field("reference").text(),
        Report(*read_placement(document)) if document.has("functions") else None,
    )


def _read_region(plain: JsonValue) -> RegionCheck:
    return RegionCheck(
        plain.field("symbol").text(),
        plain.field("target").text(),
        _read_ops(plain.field("ops")),
        plain.field("calls").integer(),
        _read_results(plain.field("results")),
        plain.field("error").text(),
    )


def _read_ops(plain: JsonValue) -> tuple[CheckedOp, ...]:
    return tuple(
        CheckedOp(op.field("name").text(), op.field("op").text(), op.field("origin").text())
        for op in plain.items()
    )


def _read_culprit(plain: JsonValue) -> Culprit:
    return Culprit(
        plain.field("symbol").text(),
        plain.field("target").text(),
        _read_ops(plain.field("ops")),
        plain.field("builds").integer(),
    )


def _read_results(plain: JsonValue) -> tuple[ResultCheck, ...]:
    return tuple(_read_result(result) for result in plain.items())


def _read_result(plain: JsonValue) -> ResultCheck:
    return ResultCheck(
        name=plain.field("name").text(),
        dtype=plain.field("dtype").text(),
        shape=_wholes(plain.field("shape")),
        absolute=plain.field("absolute").any_number(),
        relative=plain.field("relative").any_number(),
        cosine=plain.field("cosine").any_number(),
        where=_optional(plain.field("where"), _wholes),
        found=_optional(plain.field("found"), JsonValue.any_number),
        wanted=_optional(plain.field("wanted"), JsonValue.any_number),
        wrong=plain.field("wrong").integer(),
        nan=plain.field("nan").integer(),
        inf=plain.field("inf").integer(),
        allowed=plain.field("allowed").any_number(),
        reason=plain.field("reason").text(),
        failure=plain.field("failure").text(),
    )


def _wholes(plain: JsonValue) -> tuple[int, ...]:
    return tuple(each.integer() for each in plain.items())


def _optional(plain: JsonValue, read: Callable[[JsonValue], Read]) -> Read | None:
    return None if plain.plain is None else read(plain)
