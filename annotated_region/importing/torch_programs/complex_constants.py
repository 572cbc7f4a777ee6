"""Programs with complex constants: their parts along a last axis, as Relax has no complex data types."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING

from annotated_region.errors import ModelError

if TYPE_CHECKING:
    import torch

__all__ = ["require_real_borders", "with_real_constants"]


def with_real_constants(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram | None:
    """A copy of a decomposed program with real constants; None if it has no complex ones."""
    if not any(map(_is_complex, (*program.state_dict.values(), *program.constants.values()))):
        return None
    result = copy.copy(program)
    # The constructor would check that the graph and the constants have one type.
    result._state_dict = _real(program.state_dict)
    result._constants = _real(program.constants)
    return result


def require_real_borders(program: torch.export.ExportedProgram) -> None:
    """Check that no input and no result is complex.

    Raises
    ------
    ModelError
        One is.
    """
    signature = program.graph_signature
    for names, what in ((signature.user_inputs, "input"), (signature.user_outputs, "result")):
        for node in program.graph.nodes:
            if node.name in names and _is_complex(node.meta.get("val")):
                raise ModelError(
                    f"the {what} {node.name} is complex, which TVM has no type for; use torch.view_as_real "
                    "and torch.view_as_complex"
                )


def _real(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    import torch  # noqa: PLC0415 - installed, since the program was loaded

    return {
        name: torch.view_as_real(value.detach().resolve_conj()).contiguous() if _is_complex(value) else value
        for name, value in tensors.items()
    }


def _is_complex(value: object) -> bool:
    return "complex" in str(getattr(value, "dtype", ""))
