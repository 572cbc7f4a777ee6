"""The report of a check, as text and as data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from annotated_region.checked import checked
from annotated_region.checking.check_diff import CheckDiff, difference
from annotated_region.checking.check_document import KIND, Checked, plain_check, read_check
from annotated_region.checking.comparison import ResultCheck
from annotated_region.checking.failure import Failure
from annotated_region.checking.region_check import Culprit, RegionCheck
from annotated_region.checking.reproducer import write_reproducer
from annotated_region.costs.model import HOST
from annotated_region.documents import read_document, written_document
from annotated_region.errors import DrawingError, ReproducerError
from annotated_region.reports.report import Report

__all__ = ["CheckReport", "Culprit", "RegionCheck"]

_SHOWN = 8


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The result of `annotated_region.check`.

    Attributes
    ----------
    regions
        The checks of all regions, ordered by the names of their functions.
    whole
        The results of the whole program on its targets, compared with the host's; empty if a region raised.
    culprits
        For each failing region, a minimal failing set of its ops.
    inputs
        A description of the inputs that were made because none were given, one line per parameter.
    extents
        The values of symbolic extents.
    notes
        What was not checked, and why.
    reference
        What computed the reference results: the host, or a target.
    placement
        The report on the placement, as from `explain`, with the verdict on each region; None in older saved
        checks, which do not contain it.
    """

    regions: tuple[RegionCheck, ...]
    whole: tuple[ResultCheck, ...]
    culprits: tuple[Culprit, ...] = ()
    inputs: tuple[str, ...] = ()
    extents: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    failures: Mapping[str, Failure] = field(default_factory=dict, repr=False, compare=False)
    reference: str = HOST
    placement: Report | None = field(default=None, repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """Whether every region and the whole program are within their tolerances."""
        return all(region.ok for region in self.regions) and all(result.ok for result in self.whole)

    @property
    def culprit(self) -> Culprit | None:
        """The minimal failing set of the first failing region; None if no region fails."""
        return self.culprits[0] if self.culprits else None

    @checked
    def save_reproducer(self, folder: str | Path) -> Path:
        """Write a reproducer of the first fault to a new folder: module, inputs, both results, scripts.

        Parameters
        ----------
        folder
            The folder to create; its parent must exist.

        Returns
        -------
        The folder.

        Raises
        ------
        ReproducerError
            No region fails, or `folder` exists.
        OSError
            The folder cannot be written.
        """
        failing = next((region for region in self.regions if region.symbol in self.failures), None)
        if failing is None and any(not region.ok for region in self.regions):
            raise ReproducerError("a loaded report has no arrays; check again, then save")
        if failing is None:
            raise ReproducerError("no region fails, so there is nothing to reproduce")
        return write_reproducer(Path(folder), self.failures[failing.symbol])

    def __str__(self) -> str:
        bad = [region for region in self.regions if not region.ok]
        checked = [region for region in self.regions if region.calls]
        lines = [f"made {words}" for words in self.inputs]
        lines += [str(region) for region in bad]
        lines += [f"smallest failing set: {culprit}" for culprit in self.culprits]
        lines += [f"the whole program: {each.name}: {each.failure}" for each in self.whole if not each.ok]
        if not bad and self.whole and not self.ok:
            lines.append("every region is right by itself: the error accumulates over the regions")
        right = len([region for region in checked if region.ok])
        lines.append(f"{right} of {len(checked)} regions are within their tolerances")
        return "\n".join([*lines, *self.notes[:_SHOWN]])

    @checked
    def diff(self, other: CheckReport) -> CheckDiff:
        """What is different in `other`: regions that are right or wrong now, and errors of another size.

        Examples
        --------
        >>> print(ar.CheckReport.from_json(before).diff(ar.check(mod, ["dnnl"])))     # doctest: +SKIP
        """
        return difference(self.regions, other.regions)

    @checked
    def draw(self, path: str | Path) -> Path:
        """Draw the placement into a file, with each region in the colour of its verdict, beside its error.

        Parameters
        ----------
        path
            Where to, and in which form, as for `Report.draw`.

        Raises
        ------
        DrawingError
            The check was saved without its placement, the ending is none that is known, or the layout engine
            is not installed.

        Examples
        --------
        >>> ar.CheckReport.from_json(text).draw("check.html")     # doctest: +SKIP
        """
        if self.placement is None:
            raise DrawingError("this check was saved without its placement; check again, then draw")
        from annotated_region.drawing import draw  # noqa: PLC0415 - it loads networkx, which takes long

        return draw(self.placement.functions, f"{self}\n\n{self.placement}", Path(path))

    def to_dict(self) -> dict[str, object]:
        """The same as plain data; NaN and infinity, which JSON lacks, are strings."""
        plain: dict[str, object] = json.loads(self.to_json())
        return plain

    @checked
    def to_json(self, indent: int | None = None) -> str:
        """The same as JSON, without the arrays that a reproducer needs."""
        checked = Checked(
            self.regions,
            self.whole,
            self.culprits,
            self.inputs,
            self.extents,
            self.notes,
            self.reference,
            self.placement,
        )
        return written_document(KIND, plain_check(checked, self.ok), indent)

    @staticmethod
    @checked
    def from_json(text: str) -> CheckReport:
        """Parse the output of `to_json`; the text may be untrusted.

        The report has no arrays, so no reproducer can be made from it.

        Raises
        ------
        DocumentError
            The text is not a valid report of a check; the message gives the position.
        UsageError
            `text` is not a string.
        """
        checked = read_check(read_document(text, KIND))
        return CheckReport(
            checked.regions,
            checked.whole,
            checked.culprits,
            checked.inputs,
            checked.extents,
            checked.notes,
            reference=checked.reference,
            placement=checked.placement,
        )
