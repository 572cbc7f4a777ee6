"""Products of float16 on ONNX Runtime behind transpositions that move the first axis."""

from __future__ import annotations

from functools import partial
from itertools import permutations

import numpy as np
import pytest
from kits.backends import engine_kit
from kits.backends.engine_kit import call
from kits.backends.relax_kit import module, op_views, var
from tvm import relax
from tvm.relax import op

import annotated_region as ar
from annotated_region.backends.onnxruntime.native import native_settings
from annotated_region.backends.onnxruntime.session import SessionSettings

built = partial(engine_kit.built, "onnxruntime")
SHAPE = (2, 3, 4)


@pytest.mark.sweep
@pytest.mark.parametrize("between", [False, True], ids=["beside", "with an op between"])
@pytest.mark.parametrize("axes", list(permutations(range(3))), ids=str)
def test_a_product_behind_a_transposition(axes: tuple[int, ...], between: bool) -> None:
    """With the optimizer's merged operator the process ended while the model was loaded."""
    x = var("x", SHAPE, "float16")
    depth = SHAPE[axes[-1]]
    rng = np.random.default_rng(3)
    weight, data = (rng.standard_normal(shape).astype("float16") for shape in ((depth, 5), SHAPE))

    def make(builder: relax.BlockBuilder) -> relax.Expr:
        turned = builder.emit(op.permute_dims(x, list(axes)))
        if between:
            turned = builder.emit(op.abs(turned))
        return op.matmul(turned, relax.const(weight))

    mod = module([x], make)
    partitioned = ar.partition(mod, ["onnxruntime"], prepare=False)
    assert all(view.name == "relax.call_dps_packed" for view in op_views(partitioned))
    turned = data.transpose(axes).astype("float64")
    expected = (np.abs(turned) if between else turned) @ weight.astype("float64")
    (found,) = call(built(mod), data)
    np.testing.assert_allclose(found, expected, rtol=4e-3, atol=4e-3)


def test_a_pass_of_the_optimizer_may_be_turned_off() -> None:
    settings = SessionSettings.of({"disabled": ["GeluFusion"]})
    assert settings.disabled == ("GeluFusion",)
    disabled = native_settings(settings)["optimization.disable_specified_optimizers"]
    assert disabled.split(";")[-1] == "GeluFusion"
    assert SessionSettings.of(settings.to_dict()) == settings
