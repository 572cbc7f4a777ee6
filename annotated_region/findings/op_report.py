"""The report of one op: what it computes, where it is placed, and which targets claim or decline it."""

from __future__ import annotations

from dataclasses import dataclass, field

from annotated_region.findings.wording import words_for_claims, words_for_work

__all__ = ["OpReport"]


@dataclass(frozen=True, slots=True)
class OpReport:
    """The findings about one op.

    Attributes
    ----------
    name, op
        The variable that it is bound to, and the op name.
    placed
        The target that runs it, or "host".
    region
        The id of its region; None on the host.
    claims
        For each target that claims it, the rule of its op, or the patterns, that do.
    declines
        For each target that declines it, the reason.
    lost
        For each target that claims it but did not get it, the place that did, and the reason.
    lost_by_cost
        The targets among those of `lost` that lost it to the host because the op alone costs less there.
    costs
        The cost of the op alone, in seconds, on the host and on each target that claims it alone; empty
        unless the policy uses costs. The placement also accounts for launches and transfers.
    origin
        An ONNX node, a PyTorch module and a line of its source, or the original name of the binding.
    key
        A name that is unique among the ops of its function, for pins and bans.
    inputs, output
        The types of its arguments and of its result, such as ``"float32[1, 3, 224, 224]"``.
    flops, bytes
        Its work: floating point operations, and bytes read and written; None if a shape is not static or the
        op is unknown.
    composite
        The pattern that claims it together with others in its region, and a suffix that those ops share:
        ``"dnnl.conv2d_bias_relu#3fa2c1"``; empty if it is claimed alone.
    fingerprint
        Two digests, of the op alone and of the op with its neighbours, with which locks find it in an edited
        model.
    """

    name: str
    op: str
    placed: str
    region: int | None
    claims: dict[str, tuple[str, ...]]
    declines: dict[str, str]
    lost: dict[str, str] = field(default_factory=dict)
    costs: dict[str, float] = field(default_factory=dict)
    origin: str = ""
    key: str = ""
    inputs: tuple[str, ...] = ()
    output: str = ""
    flops: int | None = None
    bytes: int | None = None
    composite: str = ""
    fingerprint: str = ""
    lost_by_cost: tuple[str, ...] = ()

    @property
    def called(self) -> str:
        """The display name: its origin if known, else its name."""
        return self.origin or self.name

    @property
    def types(self) -> str:
        """The types of its arguments and of its result, in words."""
        return f"{', '.join(self.inputs)} -> {self.output}"

    @property
    def work(self) -> str:
        """Its work in words; empty if unknown."""
        return words_for_work(self.flops, self.bytes)

    @property
    def chosen(self) -> str:
        """The claim in effect: the pattern of its composite or its own rule; empty on the host."""
        pattern = self.composite.rpartition("#")[0]
        by = self.claims.get(self.placed, ())
        return pattern or (self.op if self.op in by else "")

    @property
    def first_reason(self) -> str:
        """Why the first target that claims it lost it, else why the first one declines it, else empty."""
        for target, words in self.lost.items():
            return f"lost by {target} {words}"
        return next((f"declined by {target}: {why}" for target, why in self.declines.items()), "")

    @property
    def why(self) -> str:
        """All claims, losses and declines, with their reasons."""
        return words_for_claims(self.claims, self.lost, self.declines, {self.placed: self.chosen})

    @property
    def origin_phrase(self) -> str:
        """Its origin if that differs from its name, else empty."""
        return "" if self.origin == self.name else self.origin
