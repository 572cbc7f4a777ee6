"""The registry of converters of ATen ops, by op name."""

from __future__ import annotations

from collections.abc import Callable

from tvm import relax

from annotated_region.importing.torch_programs.converters.torch_node import TorchNode

__all__ = ["CONVERTERS", "TorchConverter", "converts"]

TorchConverter = Callable[[TorchNode], relax.Expr | None]
"""Converts a node; returns None to leave it to TVM's importer."""

CONVERTERS: dict[str, TorchConverter] = {}
"""Converters by the name of an ATen op with its overload, such as ``"add.Tensor"``."""


def converts(*names: str) -> Callable[[TorchConverter], TorchConverter]:
    """A decorator that registers a function as the converter of these ops."""

    def register(convert: TorchConverter) -> TorchConverter:
        assert not any(name in CONVERTERS for name in names), names
        CONVERTERS.update(dict.fromkeys(names, convert))
        return convert

    return register
