"""Makes an imported model fit for inference offload: folded, without leftovers, every weight at its user.

When it runs: first of all, on what an importer made. What it leaves is what targets' rules and patterns
are written for, the *normal form*:

*   No batch norm whose parameters are constant, and no dropout. A convolution or matrix product with its
    batch norm, bias and other arithmetic with constants is the op and, if there is a bias, an ``add``
    with the constant on the right, of shape (1, C, 1, 1) after a convolution (the channel axis as the
    layout has it), of shape (N,) after a matrix product::

        lv = R.nn.conv2d(x, weight, ...)
        lv1 = R.add(lv, bias)
        lv2 = R.add(lv1, shortcut)          # a residual connection
        lv3 = R.nn.relu(lv2)

*   A batch norm without such an op before it is ``multiply`` and ``add`` with constants of shape
    (1, C, 1, 1). ``add`` and ``multiply`` have a constant operand on the right.
*   No call has constants alone for arguments, if numpy can evaluate it exactly; every constant stands
    right in the call that uses it. So ONNX Gemm is ``matmul(x, weight)`` with the weight transposed.
*   ONNX ``Sum``, ``Mean``, ``Max`` and ``Min`` are chains of binary ops, not reductions of a ``stack``.
*   What the importer lowered by itself (ONNX ``Clip``, some ``Pad`` and ``Tile``) is ops again, wherever it
    is certain that TVM would lower these ops to the same code; ``Clip`` is ``relu`` or ``clip``.
*   A static shape as a tensor is a constant, and so is one number that was quantized.
*   Slices that the bounds of a function keep whole have the length that they have, and the function begins
    with a check of it; running sums of truth values are whole numbers; constant indices of `take` count from
    the front.
*   Masks and positions of symbolic lengths are as few operations as compute them from their places, such as
    ``less_equal(reshape(arange(n)), reshape(arange(n)))``, and positions are computed once.
*   GELU, SiLU and the norms of layers, groups, instances and root mean squares are one op each, not their
    parts, unless one of the given targets claims a part and not the op.
*   Words are looked up in a quantized table, and dequantized then.
*   No ``reshape``, ``broadcast_to``, ``astype``, ... that changes nothing, no tuple that is made and taken
    apart again, no dead code.
*   Zero padding is an attribute of the convolution.

What it leaves alone: functions with a ``Codegen`` or ``Primitive`` attribute, which a code generator
or a kernel owns; local functions; batch norms in training mode or with running statistics that are
read; integers where only floats may be reordered; whatever else has a shape or dtype that a rewrite
does not know.

The numbers change as they do with every inference compiler: weights are multiplied before and not after
the sum of products. Nothing else is reordered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tvm
from tvm import relax

from annotated_region.checked import checked_class
from annotated_region.errors import BuildError
from annotated_region.functions.modules import functions_to_partition, updated
from annotated_region.op_info.infer import proved_composition_of
from annotated_region.op_info.raising import LoweredCalls
from annotated_region.passes.host_repairs.negative_places import take_from_the_front
from annotated_region.passes.host_repairs.running_counts import count_in_whole_numbers
from annotated_region.passes.module_pass import module_pass
from annotated_region.passes.preparation import (
    fold_affine,
    fold_batch_norm,
    fold_constants,
    fold_padding,
    fold_shapes,
    join_bounds,
    join_norms,
    recognize_activations,
    recognize_norms,
    remove_identities,
    take_quantized,
    unstack_reductions,
)
from annotated_region.passes.preparation.elements import compute_elements
from annotated_region.passes.preparation.reads import without_dead_bindings
from annotated_region.passes.preparation.rewrites import table_of
from annotated_region.passes.preparation.settle_lengths import settle_lengths
from annotated_region.passes.preparation.share_positions import share_positions
from annotated_region.passes.preparation.sweep import sweep
from annotated_region.passes.region_session import RegionSession
from annotated_region.passes.session_pass import SessionPass
from annotated_region.targets.claimants import Claimants

__all__ = ["PrepareForInference"]

# In the order in which they are tried on an op.
REWRITES = (
    fold_constants.REWRITES
    + fold_shapes.REWRITES
    + remove_identities.REWRITES
    + compute_elements.REWRITES
    + join_bounds.REWRITES
    + unstack_reductions.REWRITES
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
    """Fold batch norms and constants, undo what importers add, and tidy up; see the module's text.

    Parameters
    ----------
    fold_with_tvm
        Also run TVM's ``FoldConstant``, for constant calls that numpy does not evaluate exactly. It
        compiles each of them, which takes a second for every ten or so.
    targets
        The targets that the module is prepared for, as `partition` takes them: where one of them would claim
        parts of an op, such as the error function in GELU, but not the op, the parts stay. With none, every
        op that is found in its parts takes their place.

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
    Linear in the number of bindings and in the size of the constants that are folded. The module
    handed in is not changed.
    """

    fold_with_tvm: bool = False
    targets: str | Sequence[str] = ()

    def run(
        self, mod: tvm.IRModule, _context: tvm.ir.transform.PassContext, session: RegionSession
    ) -> tvm.IRModule:
        """The prepared module."""
        session.require_well_formed(mod)
        claimants = Claimants.of(self.targets)
        prepared = _settled(_retyped(_tidied(_raised(mod))), claimants)
        if self.fold_with_tvm:
            prepared = _settled(_applied(prepared, relax.transform.FoldConstant()), claimants)
        return updated(
            prepared, {name: share_positions(function) for name, function in functions_to_partition(prepared)}
        )


def _retyped(mod: tvm.IRModule) -> tvm.IRModule:
    """`mod` with the lengths that its bounds settle, counts of whole numbers, and indices from the front."""
    functions = ((name, _counted(name, func)) for name, func in functions_to_partition(mod))
    return updated(mod, {name: take_from_the_front(settle_lengths(func)) for name, func in functions})


def _counted(name: tvm.ir.GlobalVar, function: relax.Function) -> relax.Function:
    try:
        return count_in_whole_numbers(name.name_hint, function)
    except BuildError:
        return function  # it is still right to ask what targets claim of it; `build` refuses it again


def _raised(mod: tvm.IRModule) -> tvm.IRModule:
    """`mod` with ops in the place of calls that lower to the same code again."""
    lowered = {
        name: LoweredCalls.of(func, mod, proved_composition_of) for name, func in functions_to_partition(mod)
    }
    return _updated(mod, {name: calls.raised() for name, calls in lowered.items() if calls.bindings})


TABLE = table_of(REWRITES)


def _settled(mod: tvm.IRModule, claimants: Claimants) -> tvm.IRModule:
    """`mod` after as many sweeps as find something to rewrite; see `weight` for why these come to an end."""
    while True:
        swept = {name: sweep(function, TABLE, claimants) for name, function in functions_to_partition(mod)}
        changed = {name: function for name, function in swept.items() if not function.same_as(mod[name])}
        if not changed:
            return mod
        mod = _tidied(_updated(mod, changed))


def _tidied(mod: tvm.IRModule) -> tvm.IRModule:
    """`mod` without aliases, tuples that are taken apart again, and dead code."""
    public = any(function.attrs.get("global_symbol") for _, function in mod.functions_items())
    # In a module of private functions alone nothing says which of them is dead.
    entries = None if public else [name.name_hint for name in mod.get_global_vars()]
    mod = _applied(mod, relax.transform.CanonicalizeBindings())
    alive = {name: without_dead_bindings(function) for name, function in functions_to_partition(mod)}
    return _applied(_updated(mod, alive), relax.transform.DeadCodeElimination(entries))


def _applied(mod: tvm.IRModule, *passes: tvm.transform.Pass) -> tvm.IRModule:
    """`mod` after TVM's `passes`; functions that are not ours to change are put back as they were."""
    result = tvm.transform.Sequential(passes)(mod)
    ours = {name for name, _ in functions_to_partition(mod)}
    left = {name.name_hint for name in result.get_global_vars()}
    foreign = [name for name in mod.get_global_vars() if name not in ours and name.name_hint in left]
    return _updated(result, {name: mod[name] for name in foreign})


def _updated(mod: tvm.IRModule, functions: Mapping[tvm.ir.GlobalVar, tvm.ir.BaseFunc]) -> tvm.IRModule:
    result = mod.clone()
    for name, function in functions.items():
        result.update_func(name, function)
    return result
