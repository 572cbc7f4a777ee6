"""Statistics that norms return beside their result, which TVM 0.27's importer replaces by other numbers.

The results of index 1 and 2 of ``native_batch_norm`` in training are the mean and the reciprocal deviation of
the batch. The importer returns the new running mean and zeros. Reading them is rejected.
"""

from __future__ import annotations

from tvm import relax

from annotated_region.errors import ModelError
from annotated_region.importing.torch_converters.registry import converts
from annotated_region.importing.torch_converters.torch_node import TorchNode

_STATISTICS = (1, 2)


@converts("_native_batch_norm_legit_functional.default", "native_layer_norm.default")
def normalized_alone(node: TorchNode) -> relax.Expr | None:
    """The normalized tensor; rejected if the statistics beside it are read."""
    if any(user.args[1] in _STATISTICS and user.users for user in node.node.users):
        raise ModelError(
            "the mean and the deviation beside its result are not supported; compute them from the input"
        )
    return None
