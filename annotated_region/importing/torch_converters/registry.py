"""The registry of converters of ATen's ops: by name, what a node becomes."""

from __future__ import annotations

from collections.abc import Callable

from tvm import relax

from annotated_region.importing.torch_converters.torch_node import TorchNode

__all__ = ["CONVERTERS", "TorchConverter", "converts"]

TorchConverter = Callable[[TorchNode], relax.Expr | None]
"""What a node becomes; None if it is to be converted as TVM does."""

CONVERTERS: dict[str, TorchConverter] = {}
"""By the name of an op of ATen with its overload, such as ``"add.Tensor"``."""


def converts(*names: str) -> Callable[[TorchConverter], TorchConverter]:
    """A decorator: the function converts the ops of these names."""

    def register(convert: TorchConverter) -> TorchConverter:
        assert not any(name in CONVERTERS for name in names), names
        CONVERTERS.update(dict.fromkeys(names, convert))
        return convert

    return register
