"""Quantize: float convolutions and matrix products become products of int8, calibrated with inputs.

When it runs: before `partition`, on what an importer made; it prepares the module itself, because batch norms
are folded into weights before these are rounded. What it leaves is the form in which quantized models arrive
from ONNX: ``quantize`` and ``dequantize`` in front of what reads int8 (QDQ), which TVM compiles for any host,
and which the targets `dnnl`, `onnxruntime` and `openvino` compute on whole numbers::

    lv  = R.nn.conv2d(x, w)              x8  = R.quantize(x, s, z)     xf = R.dequantize(x8, s, z)
    lv1 = R.add(lv, bias)          ->    wf  = R.dequantize(w8, scales, zeros, axis=0)
    lv2 = R.nn.relu(lv1)                 lv  = R.nn.conv2d(xf, wf)
                                         lv1 = R.add(lv, bias)
                                         lv2 = R.nn.relu(lv1)      # rounded in front of its readers

Weights are rounded by output channel, symmetrically, to -127 .. 127. Values in between have one scale, from
what they are on the calibration inputs (`annotated_region.quantizing.ranges`). Biases stay floats: the
engines add them to sums of 32 bits in the same pass, and a rounded one would be less exact for nothing.
Which values are rounded and which share a scale: `annotated_region.quantizing.plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import tvm
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from tvm import relax

from annotated_region.arguments import require_kind, target_names
from annotated_region.checked import checked_class
from annotated_region.errors import BackendUnavailableError, InvalidModuleError, UsageError
from annotated_region.functions.modules import require_well_formed
from annotated_region.inputs import Arguments
from annotated_region.passes.build import build
from annotated_region.passes.module_pass import ModulePass, module_pass
from annotated_region.passes.pipeline import partition
from annotated_region.passes.preparation.reads import without_dead_bindings
from annotated_region.passes.prepare_for_inference import PrepareForInference
from annotated_region.passes.read_origins import ReadOrigins
from annotated_region.quantizing.calibration import Inputs, Run
from annotated_region.quantizing.method_names import RANGES
from annotated_region.quantizing.quantized_report import QuantizationReport
from annotated_region.quantizing.quantizer import Quantizer, Wishes
from annotated_region.quantizing.seen_values import RangeChoice
from annotated_region.targets.backend import backend_of, unavailability

__all__ = ["Quantize"]

MAIN = "main"
HOST = "host"
TYPES = ("uint8", "int8")


@module_pass
@checked_class
@dataclass(frozen=True)
class Quantize(ModulePass):
    """Round weights and values of ``main`` to 8 bits, by what calibration inputs show; see the module's text.

    Parameters
    ----------
    calibration_inputs
        What ``main`` is run with: each input is a dict of arrays by the names of the parameters, or the
        arrays in their order, or one array for a single parameter. A list, or any object that can be gone
        through more than once. A hundred inputs as the model meets them are usual; one by one, so that
        memory does not grow with their number. Symbolic extents are those of the arrays, and may differ
        from input to input.
    ranges
        How the range of a value follows from what was seen: ``"minmax"``, ``"percentile"``, ``"entropy"`` or
        ``"mse"`` (`annotated_region.quantizing.ranges` has the definitions and their sources).
    percentile
        For ``"percentile"``: how many of a hundred values of a tensor are inside its range.
    activations
        The type of what is no weight: ``"uint8"`` or ``"int8"``. The right operand of a product of two
        computed matrices is int8 in any case.
    symmetric
        Whether 0 is in the middle of the range of int8, so that its zero point is 0.
    keep
        Products that stay in float: names of bindings, what they come from (an ONNX node, a PyTorch module),
        or ops, such as ``"relax.matmul"``.
    max_error
        Products whose own result would be off by more than this share of it stay in float: the root of the
        mean square of its error, rounded operands against floats, over the first 64 inputs.
    accuracy
        The whole result is off by at most this share of it on the first eight inputs: as few products as do
        stay in float, those first whose own result suffers most.
    correct_bias
        Whether biases take back what rounding adds to a product's result on average
        (`annotated_region.quantizing.bias_correction`); it takes two inputs, another build and another run of
        the first 64 inputs.
    target
        What runs the float model while it is calibrated, and the quantized one where errors are measured:
        ``"host"``, which is TVM, or a target that runs here, such as ``"dnnl"``, which is much faster.
    targets
        What the module is partitioned for later, as `PrepareForInference` takes it.
    tap_bytes
        How many bytes of tapped values are held at a time; a larger model is built and run more than once.
    progress
        Whether to show a progress bar on a terminal's standard error output.

    Raises
    ------
    BackendUnavailableError
        The target cannot run here.
    BuildError, RunError
        The float model cannot be built, or fails when it runs.
    InputError
        There are no inputs, or one does not fit the parameters; a value is not finite.
    InvalidModuleError
        The module is not well formed, or has no function called main.
    PinError
        A name in `keep` fits no product.
    UsageError
        An option is none of those above.

    Notes
    -----
    Values are counted, not kept: memory is that of one run, and 32 KB for each tensor that is rounded. The
    same inputs give the same module. `accuracy` builds the model about ``log2(products)`` times. What is
    already quantized, of half precision, or in branches and local functions stays as it is.

    Examples
    --------
    >>> quantize = ar.passes.Quantize(images, target="dnnl")          # doctest: +SKIP
    >>> mod = ar.partition(quantize(mod), ["dnnl"])                   # doctest: +SKIP
    >>> mod, report = quantize.with_report(mod)                       # doctest: +SKIP
    """

    calibration_inputs: Inputs = field(repr=False, compare=False)
    ranges: str = "minmax"
    percentile: float = 99.99
    activations: str = "uint8"
    symmetric: bool = False
    keep: Sequence[str] = ()
    max_error: float | None = None
    accuracy: float | None = None
    correct_bias: bool = True
    target: str = HOST
    targets: str | Sequence[str] = ()
    tap_bytes: int = 1 << 30
    progress: bool = True

    def __post_init__(self) -> None:
        instead = "a list of inputs, each a dict of arrays by the names of the parameters"
        if isinstance(self.calibration_inputs, Mapping | np.ndarray):
            raise UsageError(f"the calibration inputs are a single input; hand in {instead}")
        _require_one_of("ranges", self.ranges, RANGES)
        _require_one_of("activations", self.activations, TYPES)
        _require_within("percentile", self.percentile, 50, 100)
        for name, share in (("max_error", self.max_error), ("accuracy", self.accuracy)):
            if share is not None:
                _require_within(name, share, 0, float("inf"))
        if self.target != HOST:
            reason = unavailability(backend_of(self.target))
            if reason is not None:
                raise BackendUnavailableError(f"target {self.target!r} cannot calibrate here: {reason}")
        target_names(self.targets)

    def transform_module(self, mod: tvm.IRModule, _context: tvm.ir.transform.PassContext) -> tvm.IRModule:
        """Called by TVM's pass manager."""
        return self.with_report(mod)[0]

    def with_report(self, mod: tvm.IRModule) -> tuple[tvm.IRModule, QuantizationReport]:
        """The quantized module, and what was done to each product."""
        require_well_formed(mod)
        if MAIN not in {name.name_hint for name in mod.get_global_vars()}:
            raise InvalidModuleError("the module has no function called main that calibration could run")
        prepared = PrepareForInference(targets=self.targets)(ReadOrigins()(mod))
        wishes = Wishes(
            RangeChoice(self.ranges, self.percentile, self.activations, self.symmetric),
            tuple(self.keep),
            self.max_error,
            self.accuracy,
            self.correct_bias,
            self.tap_bytes,
        )

        def built(func: relax.Function) -> Run:
            return _run_of(prepared, func, self.target)

        with _shown(self.progress) as tell:
            quantizer = Quantizer(prepared[MAIN], self.calibration_inputs, built, wishes, tell)
            function, report = quantizer.quantized()
        result = prepared.clone()
        result.update_func(prepared.get_global_var(MAIN), function)
        return result, report


def _run_of(mod: tvm.IRModule, func: relax.Function, target: str) -> Run:
    """Builds a module with another main, and runs that."""
    changed = mod.clone()
    changed.update_func(mod.get_global_var(MAIN), without_dead_bindings(func))
    placed = changed if target == HOST else partition(changed, [target], prepare=False)
    machine = relax.VirtualMachine(build(placed), tvm.cpu())

    def run(arguments: Arguments) -> list[np.ndarray]:
        return list(_arrays(machine[MAIN](*arguments.tensors())))

    return run


def _arrays(answer: object) -> Iterator[np.ndarray]:
    if isinstance(answer, tvm.runtime.Tensor):
        yield answer.numpy()
        return
    assert isinstance(answer, tvm.ir.Array | list | tuple), "a result is a tensor, or a tuple of results"
    for part in answer:
        yield from _arrays(part)


@contextmanager
def _shown(wanted: bool) -> Iterator[Callable[[str], None]]:
    """What to call with what is being done, so that a terminal shows it and how long it has taken."""
    console = Console(stderr=True)
    if not wanted or not console.is_terminal:
        yield lambda _what: None
        return
    with Progress(TextColumn("{task.description}"), BarColumn(), console=console, transient=True) as bar:
        task = bar.add_task("calibrating", total=None)
        yield lambda what: bar.update(task, description=what)


def _require_one_of(name: str, value: object, known: Sequence[str]) -> None:
    if value not in known:
        raise UsageError(f"the argument {name} is {value!r}; hand in one of {', '.join(map(repr, known))}")


def _require_within(name: str, value: object, low: float, high: float) -> None:
    require_kind(value, (int, float), f"the argument {name}", "a number")
    assert isinstance(value, int | float)
    if not low <= value <= high:
        raise UsageError(f"the argument {name} is {value}; hand in a number from {low} to {high}")
