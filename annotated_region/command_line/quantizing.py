"""The model that a command works on: as in the file, or quantized to int8."""

from __future__ import annotations

import argparse
import sys

import tvm

from annotated_region.command_line.models import read_model
from annotated_region.costs.model import HOST
from annotated_region.errors import InputError
from annotated_region.inputs import inputs_in_stack, read_arrays
from annotated_region.passes.quantize import MAIN, Quantize
from annotated_region.printable import printable
from annotated_region.targets.backend import backend_of, unavailability

__all__ = ["model_of"]


def model_of(options: argparse.Namespace) -> tvm.IRModule:
    """The model that the arguments name, quantized if requested; prints the result on the standard error.

    Raises
    ------
    ModelError
        The file does not contain a model.
    InputError
        The calibration inputs do not fit, or arguments of ``--quantize`` are used without it.
    """
    mod = read_model(options.model, options.limits, dict(options.shape), dict(options.value))
    return _quantized(mod, options)


def _quantized(mod: tvm.IRModule, options: argparse.Namespace) -> tvm.IRModule:
    if options.quantize is None:
        if options.keep or options.accuracy is not None:
            raise InputError("--keep and --accuracy need --quantize with a file of inputs")
        return mod
    arrays = read_arrays(options.quantize)
    inputs = inputs_in_stack(mod[MAIN], arrays) if MAIN in _functions(mod) else [arrays]
    runner = next((name for name in options.targets if unavailability(backend_of(name)) is None), HOST)
    quantize = Quantize(
        inputs,
        ranges=options.ranges,
        keep=options.keep,
        accuracy=options.accuracy,
        target=runner,
        targets=options.targets,
    )
    made, report = quantize.with_report(mod)
    print(f"note: {printable(str(report))}", file=sys.stderr)
    return made


def _functions(mod: tvm.IRModule) -> set[str]:
    return {name.name_hint for name in mod.get_global_vars()}
