"""Views that are copied (``view_copy``), which TVM 0.27's importer lacks; tensors of Relax have no aliases.

Tensors without values (``empty``) are zeros, also of symbolic extents, which the importer refuses.
"""

from __future__ import annotations

from collections.abc import Mapping

from tvm import relax

from annotated_region.importing.torch_programs.converters.bounds import bound_in
from annotated_region.importing.torch_programs.converters.registry import CONVERTERS, converts
from annotated_region.importing.torch_programs.converters.torch_node import TorchNode, extents_of_tensor
from annotated_region.tvm_adapter.types import expect

_VIEWS: Mapping[str, str] = {
    "as_strided_copy.default": "as_strided.default",
    "expand_copy.default": "expand.default",
    "permute_copy.default": "permute.default",
    "select_copy.int": "select.int",
    "slice_copy.Tensor": "slice.Tensor",
    "split_copy.Tensor": "split.Tensor",
    "split_with_sizes_copy.default": "split_with_sizes.default",
    "squeeze_copy.dims": "squeeze.dims",
    "transpose_copy.int": "transpose.int",
    "unbind_copy.int": "unbind.int",
    "unsqueeze_copy.default": "unsqueeze.default",
    "view_copy.default": "view.default",
}


@converts(*_VIEWS)
def copied(node: TorchNode) -> relax.Expr:
    """What the view is, which is not copied."""
    name = _VIEWS[node.name]
    convert = CONVERTERS.get(name)
    own = None if convert is None else convert(node)
    return expect(relax.Expr, node.importer.create_convert_map()[name](node.node)) if own is None else own


@converts("narrow_copy.default")
def copied_rows(node: TorchNode) -> relax.Expr:
    """A number of rows along an axis, behind a first one."""
    data = node.tensor(0)
    axis, start, count = (node.argument(place) for place in (1, 2, 3))
    assert isinstance(axis, int)
    assert isinstance(count, int | relax.Expr)
    first = bound_in(extents_of_tensor(data)[axis], start, node.given(2))
    return node.emit(relax.op.strided_slice(data, [axis], [first], [first + count], assume_inbound=True))


@converts("copy.default")
def assigned(node: TorchNode) -> relax.Expr | None:
    """The source as it is where PyTorch knows that its extents are those of the target.

    TVM's importer repeats it to those, which may be written otherwise.
    """
    target, source = (getattr(each, "meta", {}).get("val") for each in node.node.args[:2])
    if list(getattr(target, "shape", ())) != list(getattr(source, "shape", [None])):
        return None
    return node.cast(node.tensor(1), node.dtype)


@converts("empty.memory_format", "empty_permuted.default", "new_empty.default")
def zeros(node: TorchNode) -> relax.Expr:
    """Zeros of the extents that a tensor without values has."""
    extents = node.argument(1 if node.name.startswith("new") else 0, "size")
    assert isinstance(extents, list)
    return node.emit(relax.op.zeros(relax.ShapeExpr(extents), node.dtype))
