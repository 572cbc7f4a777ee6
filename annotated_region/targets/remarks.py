"""What targets say of options on this machine: that products of bfloat16 run in float32, for instance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from annotated_region.targets.backend import backend_of, unavailability

__all__ = ["remarks_on"]


def remarks_on(
    options: Mapping[str, Mapping[str, object]] | None, targets: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """By target, what its code generator does otherwise here than its options ask for; see `Backend.remarks`.

    Targets that cannot run here say nothing, because their regions run elsewhere.

    Raises
    ------
    UnknownTargetError
        Options are given for a target that is not registered.
    CodegenError
        An option or its value is unknown.
    """
    found = {}
    for target, given in (options or {}).items():
        backend = backend_of(target)
        if target in targets and unavailability(backend) is None:
            found[target] = tuple(backend.remarks({**backend.codegen_options, **given}))
    return {target: remarks for target, remarks in found.items() if remarks}
