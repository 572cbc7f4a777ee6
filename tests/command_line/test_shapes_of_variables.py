"""Tensors whose shape is a variable: commands say what their types are, and that there is nothing to run."""

import numpy as np
import pytest
from tvm import relax

from annotated_region.command_line import bench
from annotated_region.errors import ModelError
from annotated_region.findings.wording import words_for_type

TENSOR = relax.TensorType(relax.Var("s", relax.ShapeType(ndim=2)), "float32")


def test_partition_shows_the_type():
    assert words_for_type(TENSOR) == "float32[?, ?]"


def test_bench_has_no_numbers_for_it():
    with pytest.raises(ModelError, match="parameter 'x' has no fixed shape"):
        bench._numbers(relax.Var("x", TENSOR), np.random.default_rng(0))
