"""Faults planted at random are found: their region, their ops, and in few builds."""

from __future__ import annotations

import pytest
from fault_models import MODELS, prepared_model
from faulty_backend import NAME
from planted_faults import FOUND, RIGHT, campaign, counted

import annotated_region as ar
from annotated_region.backends.dnnl import installation

pytest.importorskip("onnx", reason="the models are made with the package onnx")
needs_onednn = pytest.mark.skipif(
    installation.unavailable() is not None, reason=str(installation.unavailable())
)


@pytest.mark.parametrize("name", ["mixer", "gpt2_decode"])
def test_faults_of_a_target_are_found(name):
    with campaign():
        assert counted(name, NAME, faults=4, seed=1) == {RIGHT: 1, FOUND: 4}


@needs_onednn
def test_faults_in_generated_code_are_found():
    with campaign():
        assert counted("mixer", "dnnl", faults=2, seed=1) == {RIGHT: 1, FOUND: 2}


@pytest.mark.campaign
@pytest.mark.parametrize("name", MODELS)
def test_three_hundred_faults_are_found(name):
    with campaign():
        assert counted(name, NAME, faults=20, seed=0) == {RIGHT: 1, FOUND: 20}


@needs_onednn
@pytest.mark.campaign
@pytest.mark.parametrize("name", MODELS)
def test_ninety_faults_in_generated_code_are_found(name):
    with campaign():
        assert counted(name, "dnnl", faults=6, seed=0) == {RIGHT: 1, FOUND: 6}


@needs_onednn
@pytest.mark.campaign
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", MODELS)
def test_there_is_no_alarm_without_a_fault(name, precision):
    mod, inputs = prepared_model(name)
    report = ar.check(mod, ["dnnl"], inputs=inputs, prepare=False, options={"dnnl": {"precision": precision}})
    assert report.ok, str(report)
