"""Compiles a partitioned module with repaired host functions; a failure names the op at fault."""

from __future__ import annotations

from collections.abc import Mapping

import tvm
from tvm import relax

from annotated_region.compilation.culprit import unbuildable_part
from annotated_region.compilation.executable import LinkedExecutable, compile_module
from annotated_region.errors import BuildError
from annotated_region.functions.known_shapes import with_known_shapes
from annotated_region.functions.modules import functions_to_partition, require_well_formed, updated
from annotated_region.passes.host_repairs import (
    broadcasts,
    counted_axes,
    double_norms,
    empty_parts,
    empty_sums,
    half_floats,
    infinite_extremes,
    infinite_fills,
    integer_sorts,
    negative_places,
    norm_axes,
    partial_scatters,
    pixel_shuffles,
    result_types,
    sums_of_exponentials,
    truth_values,
    unequal_nan,
    unknown_slices,
)
from annotated_region.passes.host_repairs.broken_equations import name_equations
from annotated_region.passes.host_repairs.empty_constants import without_empty_constants
from annotated_region.passes.host_repairs.running_counts import count_in_whole_numbers
from annotated_region.passes.preparation.resolve_lengths import resolve_lengths
from annotated_region.passes.preparation.rewrites import table_of
from annotated_region.passes.preparation.sweep import sweep
from annotated_region.serial import one_at_a_time

__all__ = ["compile_for_host", "repaired"]

TABLE = table_of(
    half_floats.REWRITES
    + infinite_extremes.REWRITES
    + infinite_fills.REWRITES
    + negative_places.REWRITES
    + broadcasts.REWRITES
    + partial_scatters.REWRITES
    + double_norms.REWRITES
    + norm_axes.REWRITES
    + pixel_shuffles.REWRITES
    + empty_sums.REWRITES
    + integer_sorts.REWRITES
    + counted_axes.REWRITES
    + truth_values.REWRITES
    + unequal_nan.REWRITES
    + sums_of_exponentials.REWRITES
    + result_types.REWRITES
    + empty_parts.REWRITES
    + unknown_slices.REWRITES
)


def repaired(mod: tvm.IRModule) -> tvm.IRModule:
    """The module with those parts of its host functions rewritten that TVM cannot compile.

    External functions, which belong to a code generator, are unchanged, and so is `mod`.

    Raises
    ------
    BuildError
        A call cannot be repaired; the message names it.
    InvalidModuleError
        The module is not well formed.

    Notes
    -----
    Linear in the number of bindings.
    """
    require_well_formed(mod)
    functions = {name: _repaired(name.name_hint, func) for name, func in functions_to_partition(mod)}
    return name_equations(updated(mod, functions))


def _repaired(name: str, function: relax.Function) -> relax.Function:
    counted = count_in_whole_numbers(name, with_known_shapes(function))
    # A rewrite matches only ops that need its repair, and its result never does.
    return without_empty_constants(sweep(resolve_lengths(counted), TABLE, lowers_weight=False))


@one_at_a_time
def compile_for_host(
    mod: tvm.IRModule,
    target: str | tvm.target.Target = "llvm",
    options: Mapping[str, Mapping[str, object]] | None = None,
) -> LinkedExecutable:
    """Compile a partitioned module; parameters and errors are those of `annotated_region.build`.

    Raises
    ------
    RegionRejectedError
        A code generator rejects a region.
    """
    whole = repaired(mod)
    try:
        return compile_module(whole, target, options, checked=mod)
    except BuildError as error:
        culprit = unbuildable_part(whole)
        if culprit is None:
            raise
        variable, op, _function = culprit
        raise BuildError(f"{error}; it is {op} ({variable}) that TVM cannot compile") from error
