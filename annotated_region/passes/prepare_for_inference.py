"""PrepareForInference: canonicalizes an imported model for offload: constants folded, parts of ops raised.

It runs first, on an imported module. The rules and patterns of targets are written for its result, the
*normal form*:

*   No batch norm with constant parameters, and no dropout. A convolution or matrix product followed by
    batch norm, bias and other arithmetic with constants becomes the op and, if there is a bias, an ``add``
    with the constant on the right, of shape (1, C, 1, 1) after a convolution (the channel axis depends on
    the layout), of shape (N,) after a matrix product::

        lv = R.nn.conv2d(x, weight, ...)
        lv1 = R.add(lv, bias)
        lv2 = R.add(lv1, shortcut)          # a residual connection
        lv3 = R.nn.relu(lv2)

*   A batch norm without such a producer becomes ``multiply`` and ``add`` with constants of shape
    (1, C, 1, 1). ``add`` and ``multiply`` have a constant operand on the right.
*   No call has only constant arguments, if numpy can evaluate it exactly; constants are direct operands of
    the calls that use them. ONNX Gemm, for example, becomes ``matmul(x, weight)`` with the transpose folded.
*   A scatter to a box of constant indices is a concatenation, as PyTorch's assignment to a slice.
*   ONNX ``Sum``, ``Mean``, ``Max`` and ``Min`` are chains of binary ops, not reductions of a ``stack``.
*   Ops that the importer has already lowered (ONNX ``Clip``, some ``Pad`` and ``Tile``) are raised, if it is
    proved that TVM lowers them to the same code; ``Clip`` becomes ``relu`` or ``clip``.
*   A static shape as a tensor is a constant, and so is a quantized scalar.
*   A slice whose length is determined by the bounds of its function has that length, and the function begins
    with a check of the bound; cumulative sums of booleans have an integer dtype; constant indices of `take`
    are nonnegative.
*   Masks and positions of symbolic length are computed from element indices in the fewest operations, such
    as ``less_equal(reshape(arange(n)), reshape(arange(n)))``, and positions are computed once.
*   GELU, SiLU, layer, group, instance and RMS norms are single ops, unless one of the given targets claims
    some of the parts but not the op.
*   A truncated quotient of integers that is corrected where it was rounded up is a ``floor_divide``.
*   Rows of a quantized table are taken before they are dequantized.
*   A weight that constant ops unpack from integers and scale is the form of `QuantizeWeights`.
*   No ``reshape``, ``broadcast_to``, ``astype``, ... without effect, no tuple that is only unpacked again, no
    dead code.
*   Zero padding is an attribute of the convolution.

Unchanged are functions with a ``Codegen`` or ``Primitive`` attribute, which a code generator or a kernel
owns; local functions; batch norms in training mode or with running statistics that are read; integers where
a rewrite is valid only for floats; and any shape or dtype that a rewrite does not handle.

As in other inference compilers, results change by rounding: weights are scaled before the sum of products
instead of after it. Nothing else is reordered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tvm
from tvm import relax

from annotated_region.checked import checked_class
from annotated_region.errors import BuildError
from annotated_region.functions.known_shapes import with_known_shapes
from annotated_region.functions.modules import (
    entries_of,
    functions_to_partition,
    passed,
    require_well_formed,
    updated,
)
from annotated_region.functions.solved_symbols import with_solved_symbols
from annotated_region.op_info.infer import proved_composition_of
from annotated_region.op_info.raising import LoweredCalls
from annotated_region.passes.host_repairs.negative_places import take_from_the_front
from annotated_region.passes.host_repairs.running_counts import count_in_whole_numbers
from annotated_region.passes.module_pass import module_pass
from annotated_region.passes.preparation import (
    assign_boxes,
    fold_affine,
    fold_batch_norm,
    fold_constants,
    fold_padding,
    fold_shapes,
    join_bounds,
    join_norms,
    recognize_activations,
    recognize_norms,
    recognize_quotients,
    remove_identities,
    spread_constants,
    take_quantized,
    unstack_reductions,
)
from annotated_region.passes.preparation.elements import compute_elements
from annotated_region.passes.preparation.reads import with_fields_read_directly, without_dead_bindings
from annotated_region.passes.preparation.resolve_lengths import resolve_lengths
from annotated_region.passes.preparation.rewrites import table_of
from annotated_region.passes.preparation.share_positions import share_positions
from annotated_region.passes.preparation.sweep import is_checking, sweep
from annotated_region.passes.region_session import RegionSession
from annotated_region.passes.session_pass import SessionPass
from annotated_region.passes.unpacked_weights.packing import pack_weights
from annotated_region.targets.claimants import Claimants

__all__ = ["PrepareForInference"]

# In the order in which they are tried.
REWRITES = (
    fold_constants.REWRITES
    + fold_shapes.REWRITES
    + remove_identities.REWRITES
    + spread_constants.REWRITES
    + recognize_quotients.REWRITES
    + compute_elements.REWRITES
    + join_bounds.REWRITES
    + unstack_reductions.REWRITES
    + assign_boxes.REWRITES
    + take_quantized.REWRITES
    + fold_padding.REWRITES
    + recognize_activations.REWRITES
    + recognize_norms.REWRITES
    + join_norms.REWRITES
    + fold_batch_norm.REWRITES
    + fold_affine.REWRITES
)


@module_pass
@checked_class
@dataclass(frozen=True)
class PrepareForInference(SessionPass):
    """Fold batch norms and constants, raise and canonicalize ops, remove dead code; see the module docstring.

    Parameters
    ----------
    fold_with_tvm
        Also run TVM's ``FoldConstant``, for constant calls that numpy does not evaluate exactly. It
        compiles each of them, at about ten per second.
    targets
        The targets that the module is prepared for, as in `partition`. If one of them claims some part of a
        composed op, such as the error function in GELU, but not the op, the parts are kept. Without targets,
        every recognized op replaces its parts.

    Raises
    ------
    InvalidModuleError
        The module is not well formed.
    RuleError
        A rule of a target failed.
    UnknownTargetError
        A target has no rule, pattern or backend.

    Notes
    -----
    Linear in the number of bindings and in the size of the constants that are folded. The input
    module is not changed.
    """

    fold_with_tvm: bool = False
    targets: str | Sequence[str] = ()

    def run(
        self, mod: tvm.IRModule, _context: tvm.ir.transform.PassContext, session: RegionSession
    ) -> tvm.IRModule:
        """The prepared module."""
        session.require_well_formed(mod)
        claimants = Claimants.of(self.targets)
        packed = pack_weights(_tidied(_raised(_known(mod))), claimants)
        prepared = _swept(_retyped(packed), claimants)
        if self.fold_with_tvm:
            prepared = _swept(_applied(prepared, relax.transform.FoldConstant()), claimants)
        shared = {name: share_positions(function) for name, function in functions_to_partition(prepared)}
        result = updated(prepared, shared)
        if is_checking():
            require_well_formed(result)
        session.vouch_for(result)
        return result


def _known(mod: tvm.IRModule) -> tvm.IRModule:
    """`mod` with shapes in the place of variables for shapes, where types are unknown without them."""
    return updated(mod, {name: with_known_shapes(func) for name, func in functions_to_partition(mod)})


def _retyped(mod: tvm.IRModule) -> tvm.IRModule:
    """`mod` with slice lengths resolved by bounds, integer counts, and nonnegative constant indices."""
    functions = ((name, _counted(name, func)) for name, func in functions_to_partition(mod))
    return updated(mod, {name: take_from_the_front(resolve_lengths(func)) for name, func in functions})


def _counted(name: tvm.ir.GlobalVar, function: relax.Function) -> relax.Function:
    try:
        return count_in_whole_numbers(name.name_hint, function)
    except BuildError:
        return function  # targets may still claim its ops; if the host keeps it, `build` raises the error


def _raised(mod: tvm.IRModule) -> tvm.IRModule:
    """`mod` with lowered calls raised to ops that provably lower to the same code."""
    lowered = {
        name: LoweredCalls.of(func, mod, proved_composition_of) for name, func in functions_to_partition(mod)
    }
    return _updated(mod, {name: calls.raised() for name, calls in lowered.items() if calls.bindings})


TABLE = table_of(REWRITES)


def _swept(mod: tvm.IRModule, claimants: Claimants) -> tvm.IRModule:
    """`mod` swept to a fixed point; see `weight` for the proof of termination."""
    while True:
        swept = {name: sweep(function, TABLE, claimants) for name, function in functions_to_partition(mod)}
        changed = {name: function for name, function in swept.items() if not function.same_as(mod[name])}
        if not changed:
            return mod
        mod = _tidied(_updated(mod, changed))


def _tidied(mod: tvm.IRModule) -> tvm.IRModule:
    """`mod` without aliases, tuples that are only unpacked, and dead code."""
    entries = entries_of(mod)
    direct = {
        name: with_solved_symbols(with_fields_read_directly(function))
        for name, function in functions_to_partition(mod)
    }
    mod = _applied(_updated(mod, direct), relax.transform.CanonicalizeBindings())
    alive = {name: without_dead_bindings(function) for name, function in functions_to_partition(mod)}
    return _applied(_updated(mod, alive), relax.transform.DeadCodeElimination(entries))


def _applied(mod: tvm.IRModule, *passes: tvm.transform.Pass) -> tvm.IRModule:
    """`mod` after TVM's `passes`, with functions that we do not partition restored."""
    result = passed(mod, *passes)
    ours = {name for name, _ in functions_to_partition(mod)}
    left = {name.name_hint for name in result.get_global_vars()}
    foreign = [name for name in mod.get_global_vars() if name not in ours and name.name_hint in left]
    return _updated(result, {name: mod[name] for name in foreign})


def _updated(mod: tvm.IRModule, functions: Mapping[tvm.ir.GlobalVar, tvm.ir.BaseFunc]) -> tvm.IRModule:
    result = mod.clone()
    for name, function in functions.items():
        result.update_func(name, function)
    return result
