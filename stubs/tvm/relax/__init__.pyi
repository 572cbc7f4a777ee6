"""Relax: expressions, types, and what builds, analyzes and runs them."""

from ..ir import Call as Call
from ..ir import Expr as Expr
from ..ir import GlobalVar as GlobalVar
from ..ir import Span as Span
from ..ir import Tuple as Tuple
from ..ir import TupleGetItem as TupleGetItem
from ..ir import TupleType as TupleType
from ..ir import Type as Type
from ..ir import Var as Var
from ..ir.transform import Pass
from ..runtime.vm import VirtualMachine as VirtualMachine
from . import analysis as analysis
from . import backend as backend
from . import dpl as dpl
from . import expr as expr
from . import expr_functor as expr_functor
from . import frontend as frontend
from . import op as op
from . import script as script
from . import transform as transform
from . import utils as utils
from .block_builder import BlockBuilder as BlockBuilder
from .expr import Binding as Binding
from .expr import BindingBlock as BindingBlock
from .expr import DataflowBlock as DataflowBlock
from .expr import DataflowVar as DataflowVar
from .expr import ExternFunc as ExternFunc
from .expr import Function as Function
from .expr import If as If
from .expr import MatchCast as MatchCast
from .expr import SeqExpr as SeqExpr
from .expr import ShapeExpr as ShapeExpr
from .expr import VarBinding as VarBinding
from .expr import const as const
from .expr import prim_value as prim_value
from .op import call_dps_packed as call_dps_packed
from .op import call_pure_packed as call_pure_packed
from .op import call_tir as call_tir
from .type import AnyType as AnyType
from .type import FuncType as FuncType
from .type import ShapeType as ShapeType
from .type import TensorType as TensorType
from .vm_build import VMExecutable as VMExecutable

def get_pipeline(name: str = "zero") -> Pass: ...
