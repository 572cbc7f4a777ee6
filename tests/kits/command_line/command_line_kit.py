"""What the tests of the command line share: a small model as a file, and the program as a process."""

from __future__ import annotations

import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from annotated_region.__main__ import main

__all__ = ["called", "program", "small_model"]


def small_model(folder: Path, name: str = "small.onnx", channels: int = 4) -> Path:
    """An ONNX file: a convolution, a relu, a tanh, and the sum of these two."""
    weight = np.random.default_rng(0).standard_normal((channels, 3, 3, 3), dtype=np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Tanh", ["r"], ["t"]),
        helper.make_node("Add", ["r", "t"], ["y"]),
    ]
    shape = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, 8, 8])]
    result = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, channels, 8, 8])]
    graph = helper.make_graph(nodes, "small", shape, result, [numpy_helper.from_array(weight, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path = folder / name
    path.write_bytes(model.SerializeToString())
    return path


def program(*words: str | Path, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The program as a user starts it, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "annotated_region", *map(str, words)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def called(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """The same without a process, for the many ways in which input can be wrong."""
    output, errors = StringIO(), StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        try:
            code = main([str(word) for word in words])
        except SystemExit as end:
            code = int(end.code or 0)
    return subprocess.CompletedProcess(words, code, output.getvalue(), errors.getvalue())
