"""ONNX files of a folder, from whatever exporter, against ONNX Runtime without its optimizer.

    PYTHONPATH=.:tests python tests/importing/onnx_models/model_files_campaign.py --models FOLDER

Inputs are drawn, unless there is a file of the same name that ends in ``.npz``, with an array for each. A
model with extents that have names, or none, is called twice, with 2 and with 3 for all of them.

Each case runs in a child of its own. Results go to ``<state>/<target>.jsonl``, a line a case; what stands
there is not run again unless ``--again`` asks for its kind.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from kits.importing.case_campaign import Case, options_of, run_cases
from kits.importing.drawn_nodes.answers import answers_of
from kits.importing.node_checks import Call, Kind, Outcome, checked_module

import annotated_region as ar

UNKNOWN = (2, 3)
"""What extents without a number are in each call."""
FEW = 3
"""Integers are drawn below it, because most are places."""


def main() -> int:
    """Run what is asked for, and print the counts."""
    parser = options_of(__doc__, "build/model_files")
    parser.add_argument("--models", type=Path, required=True, help="a folder with files that end in .onnx")
    options = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1", TVM_NUM_THREADS="1")
    return run_cases(options, _cases(options.target, options.models))


def _cases(target: str, folder: Path) -> Iterator[Case]:
    for file in sorted(folder.glob("*.onnx")):
        yield file.stem, partial(checked, file, target)


def checked(file: Path, target: str) -> Outcome:
    """What becomes of the model of a file on a target."""
    model = onnx.load(file)
    calls: list[Call] = []
    for inputs in _inputs(model, file.with_suffix(".npz")):
        wanted = answers_of(model, inputs)
        if wanted is None:
            return Outcome(Kind.NO_REGION, "ONNX Runtime refuses it, or the inputs that are drawn for it")
        calls.append((tuple(inputs.values()), tuple(wanted)))
    return checked_module(lambda: ar.from_onnx(model), calls, target)


def _inputs(model: onnx.ModelProto, kept: Path) -> Iterator[dict[str, np.ndarray]]:
    """The inputs of each call, by name."""
    constants = {each.name for each in model.graph.initializer}
    given = [each for each in model.graph.input if each.name not in constants]
    if kept.exists():
        with np.load(kept) as arrays:
            dtypes = [_dtype(each) for each in given]
            names = [each.name for each in given]
            yield {
                name: array.astype(dtype)
                for name, array, dtype in zip(names, arrays.values(), dtypes, strict=True)
            }
        return
    is_fixed = all(each.HasField("dim_value") for value in given for each in _extents(value))
    for unknown in UNKNOWN[:1] if is_fixed else UNKNOWN:
        rng = np.random.default_rng(unknown)
        yield {each.name: _drawn(rng, each, unknown) for each in given}


def _drawn(rng: np.random.Generator, value: onnx.ValueInfoProto, unknown: int) -> np.ndarray:
    shape = tuple(each.dim_value if each.HasField("dim_value") else unknown for each in _extents(value))
    dtype = _dtype(value)
    if dtype.kind in "iu":
        return np.asarray(rng.integers(0, FEW, shape)).astype(dtype)
    if dtype.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    return np.asarray(rng.standard_normal(shape)).astype(dtype)


def _extents(value: onnx.ValueInfoProto) -> Sequence[Any]:
    extents: Sequence[Any] = value.type.tensor_type.shape.dim
    return extents


def _dtype(value: onnx.ValueInfoProto) -> np.dtype[Any]:
    dtype: np.dtype[Any] = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    return dtype


if __name__ == "__main__":
    sys.exit(main())
