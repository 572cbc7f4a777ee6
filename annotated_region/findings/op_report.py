"""The report of one op: what it computes, where it went, who claims it and who does not, and why."""

from __future__ import annotations

from dataclasses import dataclass, field

from annotated_region.findings.wording import words_for_claims, words_for_work

__all__ = ["OpReport"]


@dataclass(frozen=True, slots=True)
class OpReport:
    """What became of one op.

    Attributes
    ----------
    name, op
        The variable that it is bound to, and what it computes.
    placed
        The target that got it, or "host".
    region
        The id of its region; None on the host.
    claims
        For each target that claims it, what claims it: the rule of its op, or patterns.
    declines
        For each target that does not, why.
    lost
        For each target that claims it and did not get it, to whom it was lost, and why.
    costs
        What the op costs by itself, in seconds, on the host and on each target that claims it alone; empty
        unless the policy goes by costs. The placement also counts launches, and what it takes to move values.
    origin
        What it was made from: an ONNX node, a PyTorch module and a line of its source, or the first name of
        the binding.
    key
        A name that means this op alone among those of its function, for pins and bans.
    inputs, output
        The types of its arguments and of its result, such as ``"float32[1, 3, 224, 224]"``.
    flops, bytes
        Its work: floating point operations, and bytes read and written; None if a shape is only known when
        it runs, or what it computes is not known.
    composite
        The pattern that claims it together with others in its region, and a sign that those others share:
        ``"dnnl.conv2d_bias_relu#3fa2c1"``; empty if it is there by itself.
    fingerprint
        Two digests, of the op alone and of it with its neighbours, by which locks find it in an edited model.
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

    @property
    def called(self) -> str:
        """What people call it: what it was made from, if that is known, else its name."""
        return self.origin or self.name

    @property
    def types(self) -> str:
        """The types of its arguments and of its result, in words."""
        return f"{', '.join(self.inputs)} -> {self.output}"

    @property
    def work(self) -> str:
        """Its work in words; empty if that is not known."""
        return words_for_work(self.flops, self.bytes)

    @property
    def chosen(self) -> str:
        """What claims it where it is: the pattern of its composite or its own rule; empty on the host."""
        pattern = self.composite.rpartition("#")[0]
        by = self.claims.get(self.placed, ())
        return pattern or (self.op if self.op in by else "")

    @property
    def first_reason(self) -> str:
        """To whom the first target that claims it lost it, or why the first one declines it; or empty."""
        for target, words in self.lost.items():
            return f"lost by {target} {words}"
        return next((f"declined by {target}: {why}" for target, why in self.declines.items()), "")

    @property
    def why(self) -> str:
        """Who claims it, who lost it, who declines it, and why."""
        return words_for_claims(self.claims, self.lost, self.declines, {self.placed: self.chosen})

    @property
    def told_origin(self) -> str:
        """What it was made from, if that is more than its name."""
        return "" if self.origin == self.name else self.origin
