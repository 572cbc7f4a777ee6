"""Serialization of a profile to plain data, and parsing of untrusted documents."""

from __future__ import annotations

from dataclasses import asdict

from annotated_region.documents import JsonValue
from annotated_region.profiling.parts import KernelTime, ProfileParts, RegionTime
from annotated_region.targets.backend import StepTime

__all__ = ["KIND", "plain_profile", "read_profile"]

KIND = "profile"


def plain_profile(parts: ProfileParts, total_of_parts: float) -> dict[str, object]:
    """The parts as dicts, sequences, strings and numbers, with their sum."""
    return {**asdict(parts), "sum": total_of_parts}


def read_profile(document: JsonValue) -> ProfileParts:
    """Parse the output of `plain_profile`.

    Raises
    ------
    DocumentError
        A field is missing or has the wrong type.
    """
    return ProfileParts(
        document.field("total").number(),
        tuple(_read_region(region) for region in document.field("regions").items()),
        tuple(_read_kernel(kernel) for kernel in document.field("host").items()),
        document.field("machine").number(),
        document.field("rounds").integer(),
        document.field("peak_bytes").integer(),
    )


def _read_region(plain: JsonValue) -> RegionTime:
    return RegionTime(
        plain.field("symbol").text(),
        plain.field("target").text(),
        plain.field("calls").integer(),
        plain.field("seconds").number(),
        plain.field("bytes_in").integer(),
        plain.field("bytes_out").integer(),
        tuple(
            StepTime(step.field("name").text(), step.field("seconds").number())
            for step in plain.field("steps").items()
        ),
        plain.field("ops").texts(),
    )


def _read_kernel(plain: JsonValue) -> KernelTime:
    return KernelTime(
        plain.field("name").text(), plain.field("calls").integer(), plain.field("seconds").number()
    )
