"""Exported programs taken apart into core ops of ATen, also where a view no longer fits its tensor.

What only assertions read is left out: TVM's importer ignores them, and lacks some ops behind them, as where
models of texts and images check that there is an image for each place of one.

``torch.export`` leaves out a copy of a tensor that is contiguous, and records that a view reads it. The parts
of `scaled_dot_product_attention` give a result of the same values in another order of memory; with a symbolic
batch, as that of GPT-2, PyTorch 2.13 and 2.14 then refuse the view: "Cannot view a tensor with ...".
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from annotated_region.errors import ModelError
from annotated_region.importing.torch_programs.branches import compute_both_branches
from annotated_region.importing.torch_programs.masks import assign_by_masks
from annotated_region.importing.torch_programs.row_scatters import scatter_all_rows
from annotated_region.importing.torch_programs.selections import compute_all_rows
from annotated_region.printable import first_line

if TYPE_CHECKING:
    import torch

__all__ = ["decomposed"]

_IGNORED = {"aten._assert_scalar.default", "aten._assert_tensor_metadata.default"}


def decomposed(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """A copy of the program in core ops without assertions; views that PyTorch refuses read copies.

    Raises
    ------
    ModelError
        PyTorch cannot decompose the program.
    """
    try:
        made = _decomposed(program)
    except NameError:  # of a check that PyTorch 2.14 cannot run
        made = _decomposed(_without_guards(program))
    for node in made.graph.nodes:
        if str(node.target) in _IGNORED and not node.users:
            made.graph.erase_node(node)
    compute_both_branches(made)
    assign_by_masks(made.graph)
    compute_all_rows(made.graph)
    scatter_all_rows(made.graph)
    made.graph.eliminate_dead_code()
    return made


def _without_guards(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program without what its own module checks in each call, which is read before (`guards`).

    PyTorch runs these checks while it decomposes a program, which may fix extents. 2.14 knows no ``L`` in
    ``L['k']['x'].size()``, as it writes for the arguments in ``**k``.
    """
    unguarded = copy.copy(program)
    unguarded._guards_code = []
    return unguarded


def _decomposed(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    try:
        return program.run_decompositions()
    except ValueError:  # a view that does not fit; other causes fail again
        exporting = importlib.import_module("torch.export")  # installed, since there is a program
        views = (node.target for node in program.graph.nodes if str(node.target) == "aten.view.default")
        table = exporting.default_decompositions()
        table.update(dict.fromkeys(views, _copying_view))  # the operator | would drop half of the table
    except RuntimeError as error:
        raise _refusal(error) from error
    try:
        return program.run_decompositions(table)
    except (RuntimeError, ValueError) as error:
        raise _refusal(error) from error


def _copying_view(given: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """``view`` of a contiguous tensor as it is, and of a contiguous copy of any other."""
    return NotImplemented if given.is_contiguous() else given.contiguous().view(shape)


def _refusal(error: Exception) -> ModelError:
    return ModelError(f"PyTorch cannot decompose the program: {first_line(error)}")
