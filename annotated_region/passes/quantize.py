"""Quantize: quantizes float convolutions and matrix products to int8, calibrated on sample inputs.

It runs before `partition`, on an imported module; it runs preparation itself, because batch norms must be
folded into weights before these are rounded. The result has the form of quantized ONNX models:
``quantize`` and ``dequantize`` pairs (QDQ) in front of the operands, which TVM compiles for any host, and
which the targets `dnnl`, `onnxruntime` and `openvino` compute in integer arithmetic::

    lv  = R.nn.conv2d(x, w)              x8  = R.quantize(x, s, z)     xf = R.dequantize(x8, s, z)
    lv1 = R.add(lv, bias)          ->    wf  = R.dequantize(w8, scales, zeros, axis=0)
    lv2 = R.nn.relu(lv1)                 lv  = R.nn.conv2d(xf, wf)
                                         lv1 = R.add(lv, bias)
                                         lv2 = R.nn.relu(lv1)      # rounded in front of its readers

Weights are quantized symmetrically per output channel, to -127 .. 127. Activations have one scale per tensor,
from their ranges on the calibration inputs (`annotated_region.quantizing.ranges`). Biases stay float: the
engines add them to the 32-bit accumulators at no extra cost, so rounding them would only lose precision.
`annotated_region.quantizing.plan` decides which values are quantized and which share a scale.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import numpy as np
import tvm
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from tvm import relax

from annotated_region.arguments import require_kind, target_names
from annotated_region.checked import checked_class
from annotated_region.compilation.executable import machine_of
from annotated_region.costs.model import HOST
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
TYPES = ("uint8", "int8")


@module_pass
@checked_class
@dataclass(frozen=True)
class Quantize(ModulePass):
    """Quantize weights and activations of ``main`` to 8 bits, calibrated on inputs; see the module docstring.

    Parameters
    ----------
    calibration_inputs
        The inputs of ``main`` for calibration: each is a dict of arrays by parameter name, a sequence of
        arrays in parameter order, or one array for a single parameter. A list, or any object that can be
        iterated over more than once. About a hundred representative inputs are usual; they are processed one
        at a time, so memory does not grow with their number. Symbolic extents are taken from the arrays, and
        may differ between inputs.
    ranges
        How the range of a value is derived from its observed distribution: ``"minmax"``, ``"percentile"``,
        ``"entropy"`` or ``"mse"`` (definitions and sources in `annotated_region.quantizing.ranges`).
    percentile
        For ``"percentile"``: the percentage of a tensor's values inside its range.
    activations
        The dtype of activations: ``"uint8"`` or ``"int8"``. The right operand of a product of two computed
        matrices is always int8.
    symmetric
        Whether the range of int8 activations is symmetric about 0, so that their zero point is 0.
    keep
        Products that stay in float: binding names, origins (an ONNX node, a PyTorch module), or op names,
        such as ``"relax.matmul"``.
    max_error
        Products stay in float if their relative error exceeds this bound: the root mean square of the error
        of the product with rounded operands, relative to that of the float result, over the first 64 inputs.
    accuracy
        Upper bound on the relative error of the whole result on the first eight inputs: the fewest products
        that achieve it stay in float, those with the largest error of their own first.
    correct_bias
        Whether biases are corrected for the mean error that rounding adds to the result of a product
        (`annotated_region.quantizing.bias_correction`); requires two inputs, another build and another run
        over the first 64 inputs.
    target
        What runs the float model during calibration, and the quantized model when errors are measured:
        ``"host"``, which is TVM, or a target available here, such as ``"dnnl"``, which is much faster.
    targets
        The targets that the module will be partitioned for, as in `PrepareForInference`.
    tap_bytes
        The maximum number of bytes of tapped values held at a time; a larger model is built and run more
        than once.
    progress
        Whether to show a progress bar on standard error if that is a terminal.

    Raises
    ------
    BackendUnavailableError
        The target cannot run here.
    BuildError, RunError
        The float model cannot be built, or fails when it runs.
    InputError
        There are no inputs, an input does not match the parameters, or a value is not finite.
    InvalidModuleError
        The module is not well formed, or has no function called main.
    PinError
        A name in `keep` matches no product.
    UsageError
        An option has a value other than those above.

    Notes
    -----
    Values are accumulated in histograms, not stored: memory is that of one run, plus 32 KB per quantized
    tensor. The same inputs give the same module. `accuracy` builds the model about ``log2(products)`` times.
    Ops that are already quantized, of half precision, or in branches and local functions are unchanged.

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
            raise UsageError(f"the calibration inputs are a single input; pass {instead}")
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
        """The quantized module, and a report of what was done to each product."""
        require_well_formed(mod)
        if MAIN not in {name.name_hint for name in mod.get_global_vars()}:
            raise InvalidModuleError("the module has no function main for calibration")
        prepared = PrepareForInference(targets=self.targets)(ReadOrigins()(mod))
        wishes = Wishes(
            RangeChoice(self.ranges, self.percentile, self.activations, self.symmetric),
            tuple(self.keep),
            self.max_error,
            self.accuracy,
            self.correct_bias,
            self.tap_bytes,
        )

        with _shown(self.progress) as tell, ExitStack() as builds:

            def built(func: relax.Function) -> Run:
                return _run_of(prepared, func, self.target, builds)

            quantizer = Quantizer(prepared[MAIN], self.calibration_inputs, built, wishes, tell)
            function, report = quantizer.quantized()
        result = prepared.clone()
        result.update_func(prepared.get_global_var(MAIN), function)
        return result, report


def _run_of(mod: tvm.IRModule, func: relax.Function, target: str, builds: ExitStack) -> Run:
    """A runner for the module with its main replaced by `func`; closing `builds` frees its memory."""
    changed = mod.clone()
    changed.update_func(mod.get_global_var(MAIN), without_dead_bindings(func))
    placed = changed if target == HOST else partition(changed, [target], prepare=False)
    machine = builds.enter_context(machine_of(build(placed, progress=False)))

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
    """A callback that shows the current step and the elapsed time on a terminal."""
    console = Console(stderr=True)
    if not wanted or not console.is_terminal:
        yield lambda _what: None
        return
    with Progress(TextColumn("{task.description}"), BarColumn(), console=console, transient=True) as bar:
        task = bar.add_task("calibrating", total=None)
        yield lambda what: bar.update(task, description=what)


def _require_one_of(name: str, value: object, known: Sequence[str]) -> None:
    if value not in known:
        raise UsageError(f"the argument {name} is {value!r}; pass one of {', '.join(map(repr, known))}")


def _require_within(name: str, value: object, low: float, high: float) -> None:
    require_kind(value, (int, float), f"the argument {name}", "a number")
    assert isinstance(value, int | float)
    if not low <= value <= high:
        raise UsageError(f"the argument {name} is {value}; pass a number from {low} to {high}")
