"""Faults planted at random are found: region, ops, in few builds; without a fault there is no alarm.

``AR_CAMPAIGN_EXAMPLES=1 pytest -m campaign`` plants 300 in fifteen models, and 90 in generated code.
"""

from __future__ import annotations

import os

import pytest
from kits.checking.fault_models import MODELS
from kits.checking.faults import INT8_FAULTS
from kits.checking.faulty_backend import NAME
from kits.checking.planting import FOUND, PRECISIONS, RIGHT, campaign, checked_without_fault, counted

from annotated_region.backends.dnnl import installation

pytest.importorskip("onnx", reason="the models are made with the package onnx")
needs_onednn = pytest.mark.skipif(
    installation.unavailable() is not None, reason=str(installation.unavailable())
)

IS_LONG = "AR_CAMPAIGN_EXAMPLES" in os.environ
SOME = MODELS if IS_LONG else ("mixer",)
FAULTS, FAULTS_IN_CODE, FAULTS_OF_INT8 = (20, 6, 6) if IS_LONG else (4, 2, 1)


@pytest.mark.campaign
@pytest.mark.parametrize("name", SOME)
def test_faults_of_a_target_are_found(name):
    with campaign():
        assert counted(name, NAME, FAULTS, seed=0).outcomes == {RIGHT: 1, FOUND: FAULTS}


@needs_onednn
@pytest.mark.campaign
@pytest.mark.parametrize("name", SOME)
def test_faults_in_generated_code_are_found(name):
    with campaign():
        assert counted(name, "dnnl", FAULTS_IN_CODE, seed=0).outcomes == {RIGHT: 1, FOUND: FAULTS_IN_CODE}


@pytest.mark.campaign
@pytest.mark.parametrize("name", [name for name in SOME if name != "efficientnet"])
def test_exchanged_operands_are_found(name):
    """All models but one have an op that is not commutative."""
    with campaign():
        tally = counted(name, NAME, FAULTS, seed=0, kinds=["exchanged"])
    assert tally.outcomes == {RIGHT: 1, FOUND: FAULTS}
    assert tally.kinds == {"exchanged": FAULTS}


@needs_onednn
@pytest.mark.campaign
@pytest.mark.parametrize("target", ["dnnl", "onnxruntime"])
@pytest.mark.parametrize("name", SOME)
def test_faults_of_int8_are_found(name, target):
    pytest.importorskip("onnxruntime", reason="its quantizer makes the models of int8")
    with campaign():
        tally = counted(name, target, FAULTS_OF_INT8, seed=0, kinds=INT8_FAULTS)
    assert tally.outcomes == {RIGHT: 1, FOUND: FAULTS_OF_INT8}


@needs_onednn
@pytest.mark.campaign
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", SOME)
def test_there_is_no_alarm_without_a_fault(name, precision):
    if precision == "int8":
        pytest.importorskip("onnxruntime", reason="its quantizer makes the models of int8")
    report = checked_without_fault(name, "dnnl", precision)
    assert report.ok, str(report)


@pytest.mark.campaign
@pytest.mark.parametrize("name", SOME)
def test_there_is_no_alarm_of_int8_in_onnx_runtime(name):
    pytest.importorskip("onnxruntime", reason="its quantizer makes the models of int8")
    report = checked_without_fault(name, "onnxruntime", "int8")
    assert report.ok, str(report)
