"""The models of the families: valid, seeded, and with answers that can tell right from wrong."""

import numpy as np
import onnx
import onnxruntime
import pytest
from kits.family_models import FAMILIES, family_model, inputs_of

from annotated_region.errors import ModelError


def answer(model: onnx.ModelProto, seed: int) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, inputs_of(model, seed))[0])


@pytest.mark.parametrize("name", FAMILIES)
def test_a_model_is_valid_and_its_answer_depends_on_input_and_seed(name: str) -> None:
    model = family_model(name, "small")
    onnx.checker.check_model(model, full_check=True)
    first = answer(model, 0)
    assert 0.3 < first.std() < 3
    assert np.abs(first - answer(model, 1)).max() > 0.1
    assert np.abs(first - answer(family_model(name, "small", seed=1), 0)).max() > 0.1
    np.testing.assert_array_equal(first, answer(family_model(name, "small"), 0))


def test_an_unknown_family_or_size_is_refused() -> None:
    with pytest.raises(ModelError, match=r"no model 'rnn' of size 'base'; choose one of bert, vit, gpt2"):
        family_model("rnn")
    with pytest.raises(ModelError, match="no model 'bert' of size 'huge'"):
        family_model("bert", "huge")
