"""Options that have no effect on this machine, such as bfloat16 products that run in float32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from annotated_region.targets.backend import backend_of, unavailability

__all__ = ["remarks_on"]


def remarks_on(
    options: Mapping[str, Mapping[str, object]] | None, targets: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """By target, the deviations of its code generator from the options; see `Backend.remarks`.

    There are none for targets that cannot run on this machine, because their regions run elsewhere.

    Raises
    ------
    UnknownTargetError
        There are options for a target that is not registered.
    CodegenError
        An option or its value is unknown.
    """
    found = {}
    for target, given in (options or {}).items():
        backend = backend_of(target)
        if target in targets and unavailability(backend) is None:
            found[target] = tuple(backend.remarks({**backend.codegen_options, **given}))
    return {target: remarks for target, remarks in found.items() if remarks}
