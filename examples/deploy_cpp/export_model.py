"""Exports an ONNX model of floats as a library that run_model runs: regions on oneDNN, the rest by TVM.

python export_model.py model.onnx model.so
"""

from __future__ import annotations

import sys
from pathlib import Path

import onnx

import annotated_region as ar


def export(model: onnx.ModelProto, library: Path) -> None:
    """Partition, build and link."""
    partitioned = ar.partition(ar.from_onnx(model), ["dnnl"])
    ar.build(partitioned).export_library(str(library))


if __name__ == "__main__":
    export(onnx.load(sys.argv[1]), Path(sys.argv[2]))
