"""Untrusted modules may call tensor operations only, whichever command reads them."""

import pytest
import tvm
import tvm_ffi
from kits.passes.nested_modules import nested_tuples
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from annotated_region.errors import ModelError
from annotated_region.importing.trust import require_harmless
from annotated_region.importing.tvmscript.reader import module_from_tvmscript

CANARY = "annotated_region.tests.canary"
MODULE = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        {statement}
        return R.tanh(x)
"""
CALLS = {
    "a shell": 'y = R.call_pure_packed("rpc.CreatePipeClient", R.str("/bin/sh"), ty_args=[R.Tensor()])',
    "a library": 'y = R.call_pure_packed("ffi.Module.load_from_file.so", R.str("x"), ty_args=[R.Tensor()])',
    "an impure call": 'y = R.call_packed("ffi.Module.load_from_file.so", x, ty_args=[R.Tensor()])',
    "a canary": f'y = R.call_pure_packed("{CANARY}", x, ty_args=[R.Tensor((4,), "float32")])',
    "a function as a value": f'y = R.ExternFunc("{CANARY}")',
    "a function under another name": f'f = R.ExternFunc("{CANARY}")\n        y = f(x)',
    "inside of a tuple": f'y = (x, (R.ExternFunc("{CANARY}"),))',
}


@pytest.fixture(scope="module")
def canary():
    heard = []
    tvm_ffi.register_global_func(CANARY, lambda *arguments: heard.append(arguments), override=True)
    yield heard
    tvm_ffi.registry.remove_global_func(CANARY)


@pytest.mark.parametrize("call", CALLS)
def test_packed_functions_are_refused_by_name(call, canary):
    module = module_from_tvmscript(
        MODULE.format(statement=CALLS[call]).replace("@R.function", "@R.function(pure=False)"), "m.py"
    )
    with pytest.raises(
        ModelError,
        match=r"m\.py is rejected: in function 'main', .* (packed function '[\w.]+'|a named function)",
    ):
        require_harmless(module, "m.py")
    assert not canary


def test_what_lowering_leaves_may_be_called():
    viewed = (
        'R.call_pure_packed("vm.builtin.reshape", x, R.shape([2, 2]), ty_args=[R.Tensor((2, 2), "float32")])'
    )
    statement = f"y = {viewed}"
    require_harmless(module_from_tvmscript(MODULE.format(statement=statement), "m.py"), "m.py")


def kernel(what):
    """A module whose only kernel does more than its work."""

    @I.ir_module
    class Module:
        @T.prim_func(private=True, s_tir=True)
        def kernel(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
            T.evaluate(what(a))
            for i in range(4):
                with T.sblock("b"):
                    v = T.axis.spatial(4, i)
                    b[v] = T.exp(a[v])

        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            return R.call_tir(Module.kernel, (x,), out_ty=R.Tensor((4,), "float32"))

    return Module


KERNELS = {
    "tirx.call_extern": lambda a: T.call_extern("int32", "system", a.data),
    "tirx.call_pure_extern": lambda a: T.call_pure_extern("int32", "system", a.data),
    "tirx.tvm_call_packed": lambda a: T.call_packed(CANARY, a.data),
    "tirx.tvm_call_cpacked": lambda a: T.call_cpacked(CANARY, a.data),
}


@pytest.mark.parametrize("op", KERNELS)
def test_kernels_compute_and_do_no_more(op):
    with pytest.raises(ModelError, match=rf"in function 'kernel', it calls {op}"):
        require_harmless(kernel(KERNELS[op]), "m.py")
    require_harmless(kernel(lambda a: T.sqrt(a[0])), "m.py")


def test_nesting_has_a_bound():
    require_harmless(nested_tuples(20), "m")
    with pytest.raises(ModelError, match="more than 64 nested tuples"):
        require_harmless(nested_tuples(500), "m")


@pytest.mark.parametrize("shape", ["[-5, 3]", "[-9223372036854775808]"])
def test_no_extent_is_less_than_nothing(shape):
    text = f"""
@I.ir_module
class Module:
    @R.function
    def main() -> R.Object:
        y = R.zeros(R.shape({shape}), "float32")
        return y
"""
    with pytest.raises(ModelError, match=r"has the extent -\d+, and none is less than 0"):
        require_harmless(module_from_tvmscript(text, "m.py"), "m.py")


@pytest.mark.parametrize(
    "shape",
    ["(4294967296, 4294967296)", "(1, 4294967296, 4294967296, 4294967296)", '("n * 4294967296", 4294967296)'],
)
def test_extents_do_not_wrap(shape):
    text = f"""
n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor({shape}, "float32"), s: R.Shape(["n"])) -> R.Object:
        y = R.tanh(x)
        return y
"""
    with pytest.raises(ModelError, match="larger than any machine"):
        require_harmless(module_from_tvmscript(text, "m.py"), "m.py")


def test_a_region_without_symbol_is_refused():
    text = MODULE.format(statement='R.func_attr({"Codegen": "dnnl"})').replace(
        "@R.function", "@R.function(private=True)"
    )
    with pytest.raises(ModelError, match="Codegen makes it a region's, but no global_symbol names it"):
        require_harmless(module_from_tvmscript(text, "m.py"), "m.py")


def test_functions_that_are_not_in_the_file_are_refused():
    module = tvm.IRModule({"f": relax.ExternFunc(CANARY)})
    with pytest.raises(ModelError, match="in function 'f', it is a ExternFunc"):
        require_harmless(module, "m")
