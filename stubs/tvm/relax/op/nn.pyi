"""Calls of the ops of neural networks.

Each takes expressions and attributes, which TVM checks when it infers the type of the call.
"""

from collections.abc import Callable

from ...ir import Call

_Op = Callable[..., Call]

adaptive_avg_pool2d: _Op
attention: _Op
avg_pool1d: _Op
avg_pool2d: _Op
avg_pool3d: _Op
batch_flatten: _Op
batch_norm: _Op
conv1d: _Op
conv1d_transpose: _Op
conv2d: _Op
conv2d_transpose: _Op
conv3d: _Op
conv3d_transpose: _Op
dropout: _Op
gelu: _Op
gelu_tanh: _Op
group_norm: _Op
instance_norm: _Op
layer_norm: _Op
leakyrelu: _Op
log_softmax: _Op
max_pool1d: _Op
max_pool2d: _Op
max_pool3d: _Op
pad: _Op
pixel_shuffle: _Op
prelu: _Op
relu6: _Op
relu: _Op
rms_norm: _Op
selu: _Op
silu: _Op
softmax: _Op
softplus: _Op
