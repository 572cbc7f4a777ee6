"""Tensors whose shape is a variable: commands print their types, and report that nothing can run."""

import pytest
from tvm import relax

from annotated_region.errors import InputError
from annotated_region.findings.wording import words_for_type
from annotated_region.inputs import arguments_for

TENSOR = relax.TensorType(relax.Var("s", relax.ShapeType(ndim=2)), "float32")


def test_partition_shows_the_type():
    assert words_for_type(TENSOR) == "float32[?, ?]"


def test_nothing_can_be_made_for_it():
    x = relax.Var("x", TENSOR)
    func = relax.Function([x], relax.SeqExpr([], x), TENSOR)
    with pytest.raises(InputError, match=r"parameter 'x' is of type .*; only tensors of known rank"):
        arguments_for(func)
