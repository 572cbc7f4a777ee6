"""The allowlist of untrusted TVMScript: syntax, imports, members of ``I``, ``R``, ``T``.

Everything else is rejected. Deliberately excluded: members that take Python functions (``emit_te``,
``call_py_func``, ``macro``, ``rewriter``), that format text at run time (``print``, ``assert_op``), that
belong to lowered modules (``vm``, ``memory``, ``builtin``, ``call_tir``) and that communicate with other
processes (``ccl``).
"""

from __future__ import annotations

import ast
import re

__all__ = ["IMPORTS", "MODULE_WORDS", "RELAX_WORDS", "ROOTS", "SCALAR_TYPES", "SYNTAX", "TIR_WORDS"]

SYNTAX: tuple[type[ast.AST], ...] = (
    ast.Module, ast.ClassDef, ast.FunctionDef, ast.arguments, ast.arg, ast.Assign, ast.AnnAssign, ast.With,
    ast.withitem, ast.If, ast.Return, ast.Expr, ast.Pass, ast.Call, ast.keyword, ast.Attribute, ast.Name,
    ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.Subscript, ast.Slice, ast.BinOp, ast.UnaryOp,
    ast.Compare, ast.Load, ast.Store, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.USub,
    ast.UAdd, ast.Not, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE,
)  # fmt: skip
IMPORTS = frozenset(
    {
        "from __future__ import annotations",
        "from typing import TypeVar",
        "from tvm.script import ir as I",
        "from tvm.script import relax as R",
        "from tvm.script import tirx as T",
    }
)
ROOTS = frozenset({"I", "R", "T", "cls", "TypeVar"})
MODULE_WORDS = frozenset({"module_attrs", "module_global_infos", "vdevice", "dummy_global_info"})
SCALAR_TYPES = re.compile(r"(bool|u?int\d+|b?float\d+)")
TIR_WORDS = frozenset({"min", "max", "floordiv", "floormod", "truncdiv", "truncmod", "ceildiv"})
_TYPES = "Any Callable Object Prim Shape Tensor Tuple"
_VALUES = "const dtype prim_value shape str tuple null_value"
_STATEMENTS = "func_attr match_cast output annotation.compiler_begin annotation.compiler_end"
# These calls are checked in the IR, by the name of the callee; see `annotated_region.importing.trust`.
_CALLS = "ExternFunc call_packed call_pure_packed"
_ARITHMETIC = """
    abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_not bitwise_or bitwise_xor ceil clip
    cos cosh divide equal erf ewise_fma exp floor floor_divide floor_mod greater greater_equal isfinite
    isinf isnan left_shift less less_equal log log_add_exp logical_and logical_not logical_or logical_xor
    maximum minimum mod multiply negative not_equal power right_shift round rsqrt sigmoid sign sin sinh sqrt
    square subtract tan tanh trunc where
"""
_REDUCTIONS = "argmax argmin cumprod cumsum max mean median min prod std sum variance"
_TENSORS = """
    arange argsort astype broadcast_to bucketize collapse_sum_like collapse_sum_to concat dequantize
    dynamic_strided_slice einsum expand_dims eye eye_like flatten flip full full_like gather_elements
    gather_nd hamming_window hint_on_device index_put index_tensor layout_transform linear matmul meshgrid
    multinomial_from_uniform nonzero one_hot ones ones_like outer permute_dims quantize repeat reshape
    reverse_sequence scatter_elements scatter_nd shape_of shape_to_tensor size slice_scatter sort split
    squeeze stack stop_lift_params strided_slice take tensor_to_shape tile to_vdevice topk tril triu unique
    wrap_param zeros zeros_like
"""
_NETWORKS = """
    nn.adaptive_avg_pool1d nn.adaptive_avg_pool2d nn.adaptive_avg_pool3d nn.attention nn.attention_bias
    nn.attention_var_len nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d nn.batch_flatten nn.batch_norm nn.conv1d
    nn.conv1d_transpose nn.conv2d nn.conv2d_transpose nn.conv3d nn.conv3d_transpose
    nn.cross_entropy_with_logits nn.dropout nn.gelu nn.gelu_tanh nn.group_norm nn.instance_norm
    nn.layer_norm nn.leakyrelu nn.log_softmax nn.max_pool1d nn.max_pool2d nn.max_pool3d nn.nll_loss nn.pad
    nn.pixel_shuffle nn.prelu nn.relu nn.relu6 nn.rms_norm nn.selu nn.silu nn.softmax nn.softplus
"""
_IMAGES = """
    image.affine_grid image.grid_sample image.resize2d image.resize3d vision.all_class_non_max_suppression
    vision.get_valid_counts vision.multibox_transform_loc vision.non_max_suppression vision.roi_align
    vision.roi_pool
"""
_GRADIENTS = """
    grad.avg_pool2d_backward grad.end_checkpoint grad.max_pool2d_backward grad.nll_loss_backward grad.no_grad
    grad.start_checkpoint grad.take_backward
"""
RELAX_WORDS = frozenset(
    word
    for words in (
        _TYPES, _VALUES, _STATEMENTS, _CALLS, _ARITHMETIC, _REDUCTIONS, _TENSORS, _NETWORKS, _IMAGES,
        _GRADIENTS,
    )
    for word in words.split()
)  # fmt: skip
