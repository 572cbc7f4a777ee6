"""Nodes that all dialects of TVM share."""

from tvm_ffi import Array as Array
from tvm_ffi import Map as Map

from . import _ffi_api as _ffi_api
from . import instrument as instrument
from . import transform as transform
from . import utils as utils
from .attrs import Attrs as Attrs
from .attrs import DictAttrs as DictAttrs
from .attrs import make_node as make_node
from .base import Node as Node
from .base import SourceName as SourceName
from .base import Span as Span
from .base import assert_structural_equal as assert_structural_equal
from .base import save_json as save_json
from .expr import Call as Call
from .expr import Constant as Constant
from .expr import Expr as Expr
from .expr import GenericConst as GenericConst
from .expr import GlobalVar as GlobalVar
from .expr import Range as Range
from .expr import StringImm as StringImm
from .expr import TensorLoad as TensorLoad
from .expr import TensorRegion as TensorRegion
from .expr import Tuple as Tuple
from .expr import TupleGetItem as TupleGetItem
from .expr import Var as Var
from .function import BaseFunc as BaseFunc
from .module import IRModule as IRModule
from .op import Op as Op
from .op import register_op_attr as register_op_attr
from .type import FuncType as FuncType
from .type import PrimType as PrimType
from .type import TupleType as TupleType
from .type import Type as Type
