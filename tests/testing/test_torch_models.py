"""The models in PyTorch: seeded, with answers that can tell right from wrong, and imported as they are."""

from types import ModuleType

import pytest

from annotated_region.errors import ModelError
from annotated_region.testing.family_sizes import FAMILIES


@pytest.fixture
def models() -> ModuleType:
    """`annotated_region.testing.torch_models`."""
    pytest.importorskip("torch", reason="PyTorch is not installed (extra `torch`)")
    from annotated_region.testing import torch_models  # noqa: PLC0415

    return torch_models


@pytest.mark.parametrize("name", FAMILIES)
def test_an_answer_depends_on_input_and_seed(name: str, models: ModuleType) -> None:
    model, inputs = models.torch_model(name, "small"), models.example_inputs(name, "small")
    first = model(*inputs)
    assert 0.1 < first.std() < 3
    assert (first - model(*models.example_inputs(name, "small", seed=1))).abs().max() > 0.1
    assert (first - models.torch_model(name, "small", seed=1)(*inputs)).abs().max() > 0.1
    assert (first == models.torch_model(name, "small")(*inputs)).all()


def test_a_module_keeps_the_shape_of_the_answer(models: ModuleType) -> None:
    module = models.imported(models.torch_model("vit", "small"), models.example_inputs("vit", "small"))
    assert [int(extent) for extent in module["main"].ret_ty.shape.values] == [1, 1000]


def test_an_unknown_family_or_size_is_refused(models: ModuleType) -> None:
    with pytest.raises(ModelError, match="no model 'rnn' of size 'base'"):
        models.torch_model("rnn")
    with pytest.raises(ModelError, match="no model 'bert' of size 'huge'"):
        models.example_inputs("bert", "huge")
