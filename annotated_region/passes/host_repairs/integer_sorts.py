"""Sorts small and unsigned integers, and booleans, as int32 or int64, because TVM has no kernel for them.

::

    lv = sort(x)      of uint8      =>      lv_wide  = astype(x, "int32")
                                            lv_wide1 = sort(lv_wide)
                                            lv       = astype(lv_wide1, "uint8")

TVM 0.27.0 builds ``sort`` and ``argsort`` of int8, uint8, int16, uint16, uint32, uint64 and bool, and
``topk`` of these but bytes; a call fails: "Unsupported input dtype". The wider type holds the same numbers in
the same order. For uint64 there is none. The repair can be removed with the first TVM for which
``tests/passes/host_repairs/test_integer_sorts.py`` passes without it.
"""

from __future__ import annotations

from tvm import relax

from annotated_region.errors import BuildError
from annotated_region.passes.preparation.editor import Editor, Rewrite
from annotated_region.passes.preparation.tensors import dtype_of
from annotated_region.targets.op_view import OpView

__all__ = ["REWRITES"]

_WIDER = dict.fromkeys(("bool", "int8", "uint8", "int16", "uint16"), "int32") | {"uint32": "int64"}
_BYTES = ("int8", "uint8")


def sort_in_wider_type(view: OpView, editor: Editor) -> relax.Expr | None:
    """The same order of the same numbers in a type that TVM sorts.

    Raises
    ------
    BuildError
        The numbers are of uint64.
    """
    dtype = str(dtype_of(view.arg_types[0]))
    is_topk = view.name == "relax.topk"
    if dtype == "uint64":
        raise BuildError(f"{view.name} of uint64: TVM cannot sort uint64; convert the operand to int64 first")
    if dtype not in _WIDER or (is_topk and dtype in _BYTES):
        return None
    wide = editor.emit(relax.op.astype(view.args[0], _WIDER[dtype]), "wide")
    found = relax.Call(view.call.op, [wide], view.call.attrs)
    results = view.attrs["ret_type"] if is_topk else "indices" if view.name == "relax.argsort" else "values"
    if results == "indices":
        return found
    made = editor.emit(found, "wide")
    if results == "values":
        return relax.op.astype(made, dtype)
    numbers, places = (editor.emit(relax.TupleGetItem(made, field), "wide") for field in (0, 1))
    return relax.Tuple([editor.emit(relax.op.astype(numbers, dtype), "narrow"), places])


REWRITES: list[tuple[tuple[str, ...], Rewrite]] = [
    (("relax.sort", "relax.argsort", "relax.topk"), sort_in_wider_type)
]
