"""The report of a function as plain data, and its parser for untrusted documents."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from annotated_region.costs.model import HOST
from annotated_region.documents import JsonValue, plain_value
from annotated_region.errors import DocumentError
from annotated_region.findings.function_report import (
    ApartReport,
    DissolvedReport,
    FunctionReport,
    OpReport,
    RegionReport,
    ValueReport,
)
from annotated_region.findings.verdicts import RegionVerdict, Verdict

__all__ = ["plain_placement", "read_function", "read_placement"]

_FIELDS = frozenset({"name", "ops", "regions", "values", "unavailable", "apart", "dissolved"})
"""The fields of a function; all others are details of the policy."""

_COMPOSITE = re.compile(r"(.+#[0-9a-f]{6})?", re.ASCII)
_PRINTS = re.compile(r"[0-9a-f]{8}\.[0-9a-f]{8}", re.ASCII)


def plain_placement(functions: Sequence[FunctionReport], targets: Mapping[str, str]) -> dict[str, object]:
    """The fields of a report: its targets with their versions, and its functions."""
    return {"targets": targets, "functions": [_plain_function(function) for function in functions]}


def read_placement(document: JsonValue) -> tuple[tuple[FunctionReport, ...], dict[str, str]]:
    """The inverse of `plain_placement`: the functions and the targets.

    Raises
    ------
    DocumentError
        A field is missing, has the wrong type, or contradicts another one.
    """
    functions = tuple(read_function(function) for function in document.field("functions").items())
    return functions, {target: version.text() for target, version in document.field("targets").named()}


def _plain_function(function: FunctionReport) -> dict[str, object]:
    """The report of a function as dicts, lists, strings and numbers."""
    return {
        "name": function.name,
        "ops": [_plain_op(op) for op in function.ops],
        "regions": [
            {
                "id": region.id,
                "target": region.target,
                "ops": region.ops,
                "inputs": region.inputs,
                "outputs": region.outputs,
                "composites": region.composites,
                **_plain_time(region),
                **_plain_verdict(region.checked),
            }
            for region in function.regions
        ],
        "values": [
            {
                "name": value.name,
                "producer": value.producer,
                "consumers": value.consumers,
                "result": value.result,
                "bytes": value.bytes,
                "type": value.type,
            }
            for value in function.values
        ],
        "unavailable": function.unavailable,
        "apart": [
            {"target": each.target, "left": each.left, "right": each.right, "between": each.between}
            for each in function.apart
        ],
        "dissolved": [each._asdict() for each in function.dissolved],
        **function.resolution,
    }


def _plain_time(region: RegionReport) -> dict[str, object]:
    """The profile of a region as fields; none if there is no profile."""
    if region.seconds is None:
        return {}
    return {"symbol": region.symbol, "seconds": region.seconds, "expected": region.expected}


def _plain_verdict(checked: RegionVerdict | None) -> dict[str, object]:
    """The verdict of a check on a region as fields; none if there is no verdict."""
    if checked is None:
        return {}
    plain = {
        "verdict": checked.verdict.value,
        "symbol": checked.symbol,
        "absolute": checked.absolute,
        "relative": checked.relative,
        "culprits": checked.culprits,
    }
    return {"check": plain_value(plain)}


def _plain_op(op: OpReport) -> dict[str, object]:
    return {
        "name": op.name,
        "op": op.op,
        "placed": op.placed,
        "region": op.region,
        "claims": op.claims,
        "declines": op.declines,
        "lost": op.lost,
        "lost_by_cost": op.lost_by_cost,
        "costs": op.costs,
        "origin": op.origin,
        "key": op.key,
        "inputs": op.inputs,
        "output": op.output,
        "flops": op.flops,
        "bytes": op.bytes,
        "composite": op.composite,
        "fingerprint": op.fingerprint,
    }


def read_function(plain: JsonValue) -> FunctionReport:
    """The report of a function in the form of `plain_placement`.

    Raises
    ------
    DocumentError
        A field is missing, has the wrong type, or contradicts another one.
    """
    regions = tuple(_read_region(region) for region in plain.field("regions").items())
    ops = tuple(_read_op(op) for op in plain.field("ops").items())
    _require_agreement(plain, ops, regions)
    return FunctionReport(
        plain.field("name").text(),
        ops,
        regions,
        _texts_by_name(plain.field("unavailable")),
        tuple(_read_apart(each) for each in plain.field("apart").items()),
        tuple(_read_dissolved(each) for each in plain.field("dissolved").items()),
        _read_resolution(plain),
        tuple(_read_value(value, len(ops)) for value in plain.field("values").items()),
    )


def _read_op(plain: JsonValue) -> OpReport:
    return OpReport(
        name=plain.field("name").text(),
        op=plain.field("op").text(),
        placed=plain.field("placed").text(),
        region=plain.field("region").optional_integer(),
        claims={target: by.texts() for target, by in plain.field("claims").named()},
        declines=_texts_by_name(plain.field("declines")),
        lost=_texts_by_name(plain.field("lost")),
        costs={place: seconds.number() for place, seconds in plain.field("costs").named()},
        origin=plain.field("origin").text(),
        key=plain.field("key").text(),
        inputs=plain.field("inputs").texts(),
        output=plain.field("output").text(),
        flops=plain.field("flops").optional_integer(),
        bytes=plain.field("bytes").optional_integer(),
        composite=_read_sign(plain.field("composite"), _COMPOSITE),
        fingerprint=_read_sign(plain.field("fingerprint"), _PRINTS),
        lost_by_cost=_read_lost_by_cost(plain),
    )


def _read_lost_by_cost(plain: JsonValue) -> tuple[str, ...]:
    """The targets that lost an op by its cost, whose costs are summed later; absent in older reports."""
    if not plain.has("lost_by_cost"):
        return ()
    said = plain.field("lost_by_cost").texts()
    lost, costs = (dict(plain.field(field).named()) for field in ("lost", "costs"))
    if said and (HOST not in costs or any(target not in lost or target not in costs for target in said)):
        raise plain.field("lost_by_cost").refused("targets of `lost` that have costs, as the host has")
    return said


def _read_sign(plain: JsonValue, form: re.Pattern[str]) -> str:
    sign = plain.text()
    if not form.fullmatch(sign):
        raise plain.refused(f"a string of the form {form.pattern}")
    return sign


def _read_region(plain: JsonValue) -> RegionReport:
    return RegionReport(
        plain.field("id").integer(),
        plain.field("target").text(),
        plain.field("ops").texts(),
        plain.field("inputs").texts(),
        plain.field("outputs").texts(),
        plain.field("composites").texts(),
        *_read_time(plain),
        _read_verdict(plain.field("check")) if plain.has("check") else None,
    )


def _read_verdict(plain: JsonValue) -> RegionVerdict:
    said = plain.field("verdict").text()
    verdict = next((verdict for verdict in Verdict if verdict.value == said), None)
    if verdict is None:
        raise plain.field("verdict").refused(f"one of {', '.join(verdict.value for verdict in Verdict)}")
    return RegionVerdict(
        verdict,
        plain.field("symbol").text(),
        plain.field("absolute").any_number(),
        plain.field("relative").any_number(),
        plain.field("culprits").texts(),
    )


def _read_time(plain: JsonValue) -> tuple[str, float | None, float | None]:
    """The profile of a region; absent in older reports, and in those without a profile."""
    if not plain.has("seconds"):
        return "", None, None
    expected = plain.field("expected")
    return (
        plain.field("symbol").text(),
        plain.field("seconds").number(),
        None if expected.plain is None else expected.number(),
    )


def _read_value(plain: JsonValue, ops: int) -> ValueReport:
    producer = plain.field("producer").optional_integer()
    consumers = tuple(consumer.integer() for consumer in plain.field("consumers").items())
    made_by = () if producer is None else (producer,)
    if any(position >= ops for position in (*made_by, *consumers)):
        raise DocumentError(f"{plain.where} has an op index out of range for {ops} ops")
    return ValueReport(
        plain.field("name").text(),
        producer,
        consumers,
        plain.field("result").boolean(),
        plain.field("bytes").optional_integer(),
        plain.field("type").text() if plain.has("type") else "",
    )


def _read_apart(plain: JsonValue) -> ApartReport:
    return ApartReport(
        plain.field("target").text(),
        plain.field("left").text(),
        plain.field("right").text(),
        plain.field("between").optional_text(),
    )


def _read_dissolved(plain: JsonValue) -> DissolvedReport:
    return DissolvedReport(
        plain.field("target").text(), plain.field("ops").texts(), plain.field("reason").text()
    )


def _read_resolution(plain: JsonValue) -> dict[str, object]:
    """The details of the policy; its totals are summed over functions, so they must be numbers."""
    said = plain.rest(_FIELDS)
    if "cost" in said:
        for name in ("cost", "lower_bound"):
            plain.field(name).number()
    return said


def _texts_by_name(plain: JsonValue) -> dict[str, str]:
    return {name: value.text() for name, value in plain.named()}


def _require_agreement(
    plain: JsonValue, ops: tuple[OpReport, ...], regions: tuple[RegionReport, ...]
) -> None:
    """Check that the regions of ops exist and have the targets of the ops."""
    target_of = {region.id: region.target for region in regions}
    if len(target_of) < len(regions):
        raise DocumentError(f"{plain.field('regions').where}: two regions have the same id")
    for number, op in enumerate(ops):
        if op.placed != (HOST if op.region is None else target_of.get(op.region)):
            raise DocumentError(
                f"{plain.field('ops').where}[{number}]: it is placed on {ascii(op.placed)[:60]}, but its "
                f"region {op.region} is not a region of that target"
            )
