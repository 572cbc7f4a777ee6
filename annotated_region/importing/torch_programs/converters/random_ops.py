"""Random ops, which are refused.

TVM 0.27's importer replaces ``randn`` and ``randn_like`` by constants, which it draws during the import,
``bernoulli`` by its operand and ``exponential`` by zeros; it does not know the others.
"""

from __future__ import annotations

from tvm import relax

from annotated_region.errors import ModelError
from annotated_region.importing.torch_programs.converters.registry import converts
from annotated_region.importing.torch_programs.converters.torch_node import TorchNode


@converts(
    *("randn.default", "randn_like.default", "rand.default", "rand_like.default", "randperm.default"),
    *("randint.default", "randint.low", "randint_like.default", "randint_like.low_dtype", "uniform.default"),
    *("bernoulli.p", "bernoulli.default", "exponential.default", "multinomial.default"),
)
def random_numbers(_node: TorchNode) -> relax.Expr:
    """Always rejected."""
    raise ModelError("its result is random, and Relax has no random numbers; make them an input of the model")
