"""The models in PyTorch: seeded, with answers that can tell right from wrong, and imported as they are."""

from types import ModuleType

import pytest
from kits.family_sizes import FAMILIES

from annotated_region.errors import ModelError


@pytest.mark.parametrize("name", FAMILIES)
def test_an_answer_depends_on_input_and_seed(name: str, torch_models: ModuleType) -> None:
    model, inputs = torch_models.torch_model(name, "small"), torch_models.example_inputs(name, "small")
    first = model(*inputs)
    assert 0.1 < first.std() < 3
    assert (first - model(*torch_models.example_inputs(name, "small", seed=1))).abs().max() > 0.1
    assert (first - torch_models.torch_model(name, "small", seed=1)(*inputs)).abs().max() > 0.1
    assert (first == torch_models.torch_model(name, "small")(*inputs)).all()


def test_a_module_keeps_the_shape_of_the_answer(torch_models: ModuleType) -> None:
    module = torch_models.imported(
        torch_models.torch_model("vit", "small"), torch_models.example_inputs("vit", "small")
    )
    assert [int(extent) for extent in module["main"].ret_ty.shape.values] == [1, 1000]


def test_an_unknown_family_or_size_is_refused(torch_models: ModuleType) -> None:
    with pytest.raises(ModelError, match="no model 'rnn' of size 'base'"):
        torch_models.torch_model("rnn")
    with pytest.raises(ModelError, match="no model 'bert' of size 'huge'"):
        torch_models.example_inputs("bert", "huge")
