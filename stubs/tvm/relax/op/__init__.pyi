"""Calls of Relax's ops.

Each takes expressions and attributes, which TVM checks when it infers the type of the call.
"""

from collections.abc import Callable

from ...ir import Call
from . import builtin as builtin
from . import image as image
from . import memory as memory
from . import nn as nn
from . import vision as vision

_Op = Callable[..., Call]

abs: _Op
acosh: _Op
add: _Op
arange: _Op
argmax: _Op
argmin: _Op
argsort: _Op
assert_op: _Op
astype: _Op
atan: _Op
bitwise_and: _Op
bitwise_not: _Op
broadcast_to: _Op
bucketize: _Op
call_dps_packed: _Op
call_pure_packed: _Op
call_tir: _Op
call_tir_inplace: _Op
ceil: _Op
clip: _Op
concat: _Op
cos: _Op
cumprod: _Op
cumsum: _Op
dequantize: _Op
divide: _Op
dynamic_strided_slice: _Op
einsum: _Op
equal: _Op
erf: _Op
exp: _Op
expand_dims: _Op
eye: _Op
eye_like: _Op
flatten: _Op
flip: _Op
floor: _Op
floor_divide: _Op
floor_mod: _Op
full: _Op
full_like: _Op
gather_elements: _Op
gather_nd: _Op
greater: _Op
greater_equal: _Op
hamming_window: _Op
index_put: _Op
index_tensor: _Op
isfinite: _Op
isnan: _Op
less: _Op
less_equal: _Op
log: _Op
log_add_exp: _Op
logical_and: _Op
logical_not: _Op
logical_or: _Op
logical_xor: _Op
matmul: _Op
max: _Op
maximum: _Op
mean: _Op
median: _Op
meshgrid: _Op
min: _Op
minimum: _Op
mod: _Op
multiply: _Op
negative: _Op
nonzero: _Op
not_equal: _Op
one_hot: _Op
ones: _Op
ones_like: _Op
outer: _Op
permute_dims: _Op
power: _Op
prod: _Op
quantize: _Op
repeat: _Op
reshape: _Op
reverse_sequence: _Op
left_shift: _Op
right_shift: _Op
round: _Op
rsqrt: _Op
scatter_elements: _Op
scatter_nd: _Op
shape_of: _Op
shape_to_tensor: _Op
sigmoid: _Op
sin: _Op
size: _Op
slice_scatter: _Op
sort: _Op
split: _Op
sqrt: _Op
square: _Op
squeeze: _Op
stack: _Op
strided_slice: _Op
subtract: _Op
sum: _Op
take: _Op
tanh: _Op
tensor_to_shape: _Op
tile: _Op
topk: _Op
tril: _Op
triu: _Op
trunc: _Op
variance: _Op
where: _Op
zeros: _Op
zeros_like: _Op
