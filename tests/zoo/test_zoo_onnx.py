"""The zoo's ONNX graphs: partitioned, built and run, each target's answers are those of ONNX Runtime."""

from __future__ import annotations

import time

import numpy as np
import pytest
from kits.zoo.registry import ONNX_NETWORKS, onnx_network
from kits.zoo.zoo_kit import onnx_case, ran, watched

from annotated_region.backends.dnnl import installation
from annotated_region.errors import ModelError

LOOPING = ("speech",)
"""Networks with recurrent layers, which are loops of the host for any length."""
NAMES = [name for names in ONNX_NETWORKS.values() for name in names]

needs_onednn = pytest.mark.skipif(
    installation.unavailable() is not None, reason=str(installation.unavailable())
)


@pytest.mark.parametrize("target", [pytest.param("dnnl", marks=needs_onednn), "onnxruntime"])
@pytest.mark.parametrize("name", NAMES)
def test_a_network_agrees_with_onnx_runtime(name: str, target: str) -> None:
    model = onnx_network(name)
    forms = model.forms if target == "dnnl" else (model.forms[0], *model.forms[1:][-1:])
    for form in forms:
        case = onnx_case(model, form)
        found = ran(case, target)
        assert found.error <= case.tolerance, f"{case.label}: {found}"
        assert found.regions > 0, case.label
        if target == "onnxruntime" and not (name in LOOPING and "length" not in form.bound):
            # It has an op for whatever came from ONNX.
            assert (found.regions, found.host) == (1, ()), f"{case.label}: {found}"


@pytest.mark.parametrize("name", NAMES)
def test_answers_are_of_order_one_and_tell_calls_apart(name: str) -> None:
    model = onnx_network(name)
    case = onnx_case(model, model.forms[-1])
    for answers in case.expected:
        for answer in answers:
            assert np.isfinite(answer).all()
            assert 0.01 < np.abs(answer).max() < 50
            assert answer.size == 1 or answer.std() > 0.001


def test_each_form_fixes_what_its_calls_agree_on() -> None:
    for name in NAMES:
        for form in onnx_network(name).forms:
            assert all(call[symbol] == value for call in form.calls for symbol, value in form.bound.items())


def test_an_unknown_network_is_refused() -> None:
    with pytest.raises(ModelError, match=r"no network 'rnn' among onnx_families; choose one of llama_decode"):
        onnx_network("rnn")


def test_what_does_not_end_fails_with_its_name() -> None:
    with (
        pytest.raises(TimeoutError, match=r"snail for dnnl: no end within 0.05 s"),
        watched("snail for dnnl", 0.05),
    ):
        time.sleep(10)
