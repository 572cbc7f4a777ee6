"""Op infos as values: equal, hashable, JSON and back, and clear about what is no op info."""

from typing import Any

import pytest

import annotated_region as ar
from annotated_region.op_info import (
    ArgRole,
    Composition,
    Number,
    OpKind,
    Parameter,
    Result,
    Shape,
    Sources,
    Value,
)
from annotated_region.op_info.kinds import kind_of

INFO = ar.OpInfo(
    "relax.example",
    OpKind.OTHER,
    {"strides": (1, 2), "alpha": 0.3, "axis": None, "layout": "NCHW", "flags": (True, (1, 2))},
    (
        ArgRole("data", Parameter(0)),
        ArgRole("other", Result(1, 2)),
        ArgRole("scale", Number(0.1, "float32")),
        ArgRole("shape", Shape((2, -1))),
        ArgRole("parts", Sources((Parameter(1), Value(3, "int64"), Value("sum", None)))),
    ),
)


def test_an_info_survives_json():
    composition = Composition((INFO, INFO), (Result(1), Result(0, 1)))
    assert Composition.from_json(composition.to_json()) == composition
    assert ar.OpInfo.from_dict(INFO.to_dict()) == INFO


def test_infos_are_frozen_values():
    same = ar.OpInfo.from_dict(INFO.to_dict())
    assert len({INFO, same}) == 1
    attrs: Any = INFO.attrs
    with pytest.raises(TypeError, match="does not support item assignment"):
        attrs["alpha"] = 1.0


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"ops": [{}], "outputs": []}', '{"ops": 3, "outputs": []}']
)
def test_what_is_no_op_info_is_refused(text):
    with pytest.raises(ar.OpInfoError, match="this is not op info"):
        Composition.from_json(text)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("relax.nn.conv2d", OpKind.CONVOLUTION),
        ("relax.nn.conv2d_transpose", OpKind.CONVOLUTION),
        ("relax.nn.adaptive_avg_pool2d", OpKind.POOLING),
        ("relax.nn.softmax", OpKind.NORMALIZATION),
        ("relax.nn.batch_norm", OpKind.NORMALIZATION),
        ("relax.matmul", OpKind.CONTRACTION),
        ("relax.sum", OpKind.REDUCTION),
        ("relax.concat", OpKind.MOVEMENT),
        ("relax.vision.roi_pool", OpKind.OTHER),
    ],
)
def test_kinds(name, kind):
    assert kind_of(name) is kind
