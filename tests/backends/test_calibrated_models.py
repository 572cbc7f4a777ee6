"""Calibrated networks beside ONNX Runtime's own quantizer: no larger errors, one region, no host op."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
import pytest
from kits.backends.dnnl.dnnl_harness import needs_onednn
from kits.family_models import family_model, inputs_of
from kits.quantized_models import TEXT_OPS, quantized_model
from kits.quantizing.small_networks import (
    answers,
    arrays_for,
    error_of,
    onnxruntime_answers,
    residual_network,
)

import annotated_region as ar

NETWORKS = ("residual", "mobilenet_v2", "bert")
CALIBRATION, TRIED = range(16), range(100, 132)


@cache
def model_of(name: str) -> onnx.ModelProto:
    return residual_network() if name == "residual" else family_model(name, "small")


@cache
def inputs(name: str, seeds: range) -> list[dict[str, np.ndarray]]:
    model = model_of(name)
    return arrays_for(model, seeds) if name == "residual" else [inputs_of(model, seed=seed) for seed in seeds]


@cache
def calibrated(name: str, ranges: str):
    quantize = ar.passes.Quantize(inputs(name, CALIBRATION), ranges=ranges, target="dnnl")
    return quantize.with_report(ar.from_onnx(model_of(name)))


@cache
def exact(name: str) -> list[np.ndarray]:
    return onnxruntime_answers(model_of(name), inputs(name, TRIED))


@cache
def error_of_onnxruntime(name: str, ranges: str) -> float:
    # All of BERT's ops would be ten times as far off: ONNX Runtime would round masked scores of -3e38, too.
    ops = TEXT_OPS if name == "bert" else None
    model = quantized_model(model_of(name), inputs(name, CALIBRATION), ranges=ranges, ops=ops)
    return error_of(onnxruntime_answers(model, inputs(name, TRIED)), exact(name))


@pytest.mark.sweep
@needs_onednn
@pytest.mark.parametrize("target", ["dnnl", "onnxruntime"])
@pytest.mark.parametrize("ranges", ["minmax", "entropy"])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_error_is_no_larger_than_that_of_onnx_runtimes_quantizer(name, ranges, target):
    found = error_of(answers(calibrated(name, ranges)[0], inputs(name, TRIED), target), exact(name))
    assert found > 1e-4, "nothing is rounded"
    assert found <= error_of_onnxruntime(name, ranges)


@needs_onednn
@pytest.mark.parametrize("name", NETWORKS)
def test_every_product_is_of_int8_in_one_region(name):
    mod, report = calibrated(name, "minmax")
    assert report.share == 100
    for target in ("dnnl", "onnxruntime"):
        (function,) = ar.explain(mod, [target]).functions
        assert [region.target for region in function.regions] == [target]
        assert not [op.name for op in function.ops if op.placed == "host"]
