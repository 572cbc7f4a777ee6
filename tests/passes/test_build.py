"""Building partitioned modules: the toy backend through both roads, and every error on the way."""

import shutil
import subprocess
import sys

import numpy as np
import pytest
import tvm
import tvm_ffi
from kits import toy_backend
from kits.host_machines import host_machine
from tvm import relax
from tvm.relax.dpl import is_op, wildcard
from tvm.script import ir as I
from tvm.script import relax as R

import annotated_region as ar
from annotated_region.compilation.code_generation import generate_code
from annotated_region.compilation.executable import targets_of
from annotated_region.host_targets import UNOPTIMIZED
from annotated_region.targets import backend as registry
from annotated_region.testing.registry import claim_ops, temporary_registrations

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        toy_backend.register()
        yield


@I.ir_module
class Regions:
    """One region a function; tanh stays on the host, so that regions are cut off from one another."""

    @R.function
    def single(x: R.Tensor((2, 4), "float32"), y: R.Tensor((2, 4), "float32")):
        with R.dataflow():
            a = R.add(x, y)
            b = R.nn.relu(a)
            R.output(b)
        return b

    @R.function
    def several(x: R.Tensor((2, 4), "float32")):
        with R.dataflow():
            a = R.negative(x)
            b = R.nn.relu(a)
            c = R.tanh(b)
            R.output(a, b, c)
        return (a, (b, c), a)

    @R.function
    def tuple_in(x: R.Tuple(R.Tensor((2, 4), "float32"), R.Tensor((2, 2), "float32"))):
        with R.dataflow():
            a = R.concat(x, axis=1)
            b = R.multiply(a, R.const(2.5, "float32"))
            R.output(b)
        return b

    @R.function
    def tuple_out(x: R.Tensor((2, 4), "float32")):
        with R.dataflow():
            a = R.negative(x)
            s = R.split(a, 2, axis=1)
            R.output(s)
        return s

    @R.function
    def dynamic(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 3), "float32")):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.nn.relu(a)
            R.output(b)
        return b

    @R.function(private=True)
    def helper(x: R.Tensor((2, 4), "float32")) -> R.Tensor((2, 4), "float32"):
        with R.dataflow():
            a = R.add(x, R.const(1.0, "float32"))
            R.output(a)
        return a

    @R.function
    def through_private(x: R.Tensor((2, 4), "float32")):
        cls = Regions
        a = cls.helper(x)
        return R.tanh(a)


RNG = np.random.default_rng(3)
ARGUMENTS = {
    "single": [RNG.standard_normal((2, 4), dtype="float32") for _ in range(2)],
    "several": [RNG.standard_normal((2, 4), dtype="float32")],
    "tuple_in": [tuple(RNG.standard_normal((2, width), dtype="float32") for width in (4, 2))],
    "tuple_out": [RNG.standard_normal((2, 4), dtype="float32")],
    "dynamic": [RNG.standard_normal(shape, dtype="float32") for shape in ((5, 4), (4, 3))],
    "through_private": [RNG.standard_normal((2, 4), dtype="float32")],
}


def given(value):
    if isinstance(value, tuple):
        return tvm.runtime.convert([given(part) for part in value])
    return tvm.runtime.tensor(value)


def flat(value):
    if hasattr(value, "numpy"):
        return [value.numpy()]
    return [leaf for part in value for leaf in flat(part)]


def answers(machine, names=tuple(ARGUMENTS)):
    return {name: flat(machine[name](*map(given, ARGUMENTS[name]))) for name in names}


def same(left, right):
    assert left.keys() == right.keys()
    for name in left:
        for a, b in zip(left[name], right[name], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


@pytest.fixture(scope="module")
def expected():
    """What TVM computes without any region."""
    return answers(host_machine(Regions))


def targets_called(mod):
    """The functions of a module that call generated code."""
    return {name.name_hint for name, func in mod.functions_items() if "call_dps_packed" in str(func)}


@needs_compiler
def test_the_toy_backend_runs_every_shape_of_region(expected, tmp_path):
    partitioned = ar.partition(Regions, ["toy"], prepare=False)
    library = tmp_path / "regions.so"
    ar.build(partitioned).export_library(str(library))
    loaded = tvm.runtime.load_module(str(library))
    same(answers(relax.VirtualMachine(loaded, tvm.cpu())), expected)


@needs_compiler
def test_the_same_regions_run_by_tvms_own_passes(expected, tmp_path):
    partitioned = ar.partition(Regions, ["toy"], prepare=False)
    generated = relax.transform.RunCodegen()(partitioned)
    library = tmp_path / "regions.so"
    executable = tvm.compile(generated, UNOPTIMIZED)
    executable.export_library(str(library), options=list(toy_backend.build_options().compile_options))
    loaded = tvm.runtime.load_module(str(library))
    same(answers(relax.VirtualMachine(loaded, tvm.cpu())), expected)


@needs_compiler
def test_a_composite_region_runs(tmp_path):
    both = is_op("relax.nn.relu")(is_op("relax.add")(wildcard(), wildcard()))
    ar.register_pattern("toy", "toy.add_relu", both)
    partitioned = ar.partition(tvm.IRModule({"single": Regions["single"]}), ["toy"], prepare=False)
    assert "toy.add_relu" in partitioned["toy_single_0"].script()
    library = tmp_path / "composite.so"
    ar.build(partitioned).export_library(str(library))
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(library)), tvm.cpu())
    x, y = ARGUMENTS["single"]
    (answer,) = answers(machine, ["single"])["single"]
    np.testing.assert_array_equal(answer, np.maximum(x + y, 0))


PROGRAM = """
import sys, numpy as np, tvm
from tvm import relax
machine = relax.VirtualMachine(tvm.runtime.load_module(sys.argv[1]), tvm.cpu())
answer = machine["several"](tvm.runtime.tensor(np.full((2, 4), -2.0, "float32")))
assert "annotated_region" not in sys.modules
print(float(answer[0].numpy().sum()), float(answer[1][0].numpy().sum()))
"""


@needs_compiler
def test_an_exported_library_runs_in_a_fresh_process_without_this_package(tmp_path):
    library = tmp_path / "regions.so"
    ar.build(ar.partition(Regions, ["toy"], prepare=False)).export_library(str(library))
    command = [sys.executable, "-c", PROGRAM, str(library)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.split() == ["16.0", "16.0"]


def test_private_functions_call_generated_code_too():
    partitioned = ar.partition(Regions, ["toy"], prepare=False)
    generated = generate_code(partitioned, {})
    assert "helper" in targets_called(generated)
    # TVM's own pass runs this region on the host without a word.
    assert "helper" not in targets_called(relax.transform.RunCodegen()(partitioned))


def test_a_function_that_calls_itself_can_be_built():
    # TVM's own pass crashes on this one.
    @I.ir_module
    class Recursive:
        @R.function
        def main(x: R.Tensor((4,), "float32"), again: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
            cls = Recursive
            if again:
                a = R.add(x, x)
                b = cls.main(a, R.const(False, "bool"))
            else:
                b = R.negative(x)
            return b

    generated = generate_code(ar.partition(Recursive, ["toy"], prepare=False), {})
    assert generated["main"].script().count("call_dps_packed") == 2
    assert [name.name_hint for name in generated.get_global_vars()] == ["main"]


@tvm_ffi.register_global_func("relax.ext.noting_constants", override=True)
def _noting_constants(functions, _options, names):
    create = tvm.get_global_func("runtime.CSourceModuleCreate")
    symbols = [str(function.attrs["global_symbol"]) for function in functions]
    return [create("// nothing", "cc", symbols, sorted(names.values()))]


@I.ir_module
class Scaled:
    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        with R.dataflow():
            a = R.multiply(x, R.const(2.0, "float32"))
            b = R.tanh(a)
            c = R.add(b, R.const(3.0, "float32"))
            R.output(c)
        return c


def constants_of(mod):
    return {str(name): float(value.numpy()) for name, value in mod.attrs["const_name_to_constant"].items()}


def test_code_generated_before_keeps_its_module_and_its_constants():
    claim_ops("noting_constants", "relax.multiply")
    first = generate_code(ar.partition(Scaled, ["noting_constants"], prepare=False), {})
    claim_ops("noting_constants", "relax.add")
    partitioned = ar.partition(first, ["noting_constants"], prepare=False)
    second = generate_code(partitioned, {})
    assert sorted(constants_of(second).values()) == [2.0, 3.0]
    assert len(second.attrs["external_mods"]) == 2
    assert len(targets_called(second)) == 1
    assert "noting_constants_main_0" in str(second["main"])
    assert "noting_constants_main_1" in str(second["main"])


def test_a_weight_that_two_regions_use_is_stored_once():
    claim_ops("noting_constants", "relax.add", "relax.multiply")
    x = relax.Var("x", relax.TensorType([2], "float32"))
    weight = relax.const(np.array([5.0, 6.0], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        a = builder.emit(relax.op.add(x, weight))
        b = builder.emit(relax.op.tanh(a))
        c = builder.emit(relax.op.multiply(b, weight))
        builder.emit_func_output(c)
    partitioned = ar.partition(builder.get(), ["noting_constants"], prepare=False)
    assert len(partitioned.functions) == 3
    assert len(generate_code(partitioned, {}).attrs["const_name_to_constant"]) == 1


def test_targets_are_taken_in_the_order_of_their_functions():
    claim_ops("another", "relax.tanh")
    partitioned = ar.partition(Scaled, ["toy", "another"], prepare=False)
    assert targets_of(partitioned) == ("another", "toy")
    assert targets_of(Scaled) == ()


# -- errors ----------------------------------------------------------------------------------------


def partitioned_for(target, **backend):
    ar.register_backend(target, **backend)
    claim_ops(target, "relax.multiply", "relax.add")
    return ar.partition(Scaled, [target], prepare=False, cross_compile=True)


def test_a_backend_that_cannot_run_here_says_what_to_install():
    mod = partitioned_for("absent", unavailable=lambda: "its library is missing; pip install absent")
    with pytest.raises(ar.BackendUnavailableError, match=r"'absent'.*pip install absent"):
        ar.build(mod)


def test_a_target_without_a_code_generator_says_how_to_register_one():
    with pytest.raises(ar.BackendUnavailableError, match=r"'silent' has no code generator.*ext\.silent"):
        ar.build(partitioned_for("silent"))


def test_a_target_that_nobody_registered_is_named():
    mod = partitioned_for("passing")
    with temporary_registrations():
        del registry._BACKENDS["passing"]
        with pytest.raises(ar.UnknownTargetError, match=r"unknown target 'passing'.*register_rule"):
            ar.build(mod)


def test_a_module_that_is_not_well_formed_is_refused():
    x = relax.Var("x", relax.TensorType([2], "float32"))
    stray = relax.Var("stray", relax.TensorType([2], "float32"))
    broken = relax.Function([x], relax.SeqExpr([], stray), stray.ty).with_attr("global_symbol", "main")
    with pytest.raises(ar.InvalidModuleError, match=r"not well formed: .*[^.]; repair it"):
        ar.build(tvm.IRModule({"main": broken}))


def test_a_module_without_functions_is_refused():
    with pytest.raises(
        ar.InvalidModuleError, match="the module has no function of Relax, so there is nothing to build"
    ):
        ar.build(tvm.IRModule())


def test_what_is_no_module_is_refused():
    with pytest.raises(ar.InvalidModuleError, match=r"the argument mod is .*; pass an IRModule"):
        ar.build(3)


def test_a_result_of_unknown_shape_is_refused():
    @I.ir_module
    class Unknown:
        @R.function
        def main(x: R.Tensor(dtype="float32", ndim=2)):
            with R.dataflow():
                a = R.nn.relu(x)
                R.output(a)
            return a

    with pytest.raises(ar.BuildError, match=r"toy_main_0: result 0 .* known only at run time.*match_cast"):
        ar.build(ar.partition(Unknown, ["toy"], prepare=False))


def test_without_a_compiler_the_remedy_is_named(monkeypatch, tmp_path):
    executable = ar.build(ar.partition(Scaled, ["toy"], prepare=False))
    monkeypatch.setattr("tvm.support.cc.get_cc", lambda: None)
    with pytest.raises(ar.BackendUnavailableError, match=r"no C\+\+ compiler found.*apt-get install g\+\+"):
        executable.export_library(str(tmp_path / "never.so"))


@needs_compiler
def test_code_that_the_compiler_refuses_is_a_build_error(tmp_path):
    ar.register_backend("toy", build_options=lambda: ar.BuildOptions(("-std=c++17",), ("-lno_such_library",)))
    executable = ar.build(ar.partition(Scaled, ["toy"], prepare=False))
    with pytest.raises(ar.BuildError, match=r"could not build the external functions"):
        executable.export_library(str(tmp_path / "never.so"))


def refusing(symbols, names):
    """A code generator that refuses some regions, and leaves the others to the toy backend."""
    toy = tvm.get_global_func("relax.ext.toy")

    def generate(functions, options, constants):
        for func in functions:
            if str(func.attrs["global_symbol"]) in symbols:
                raise ar.RegionRejectedError("too few ops", names(str(func.attrs["global_symbol"])))
        return toy(functions, options, constants)

    return generate


@pytest.fixture
def toy_generator():
    toy = tvm.get_global_func("relax.ext.toy")
    yield lambda generate: tvm.register_global_func("relax.ext.toy", generate, override=True)
    tvm.register_global_func("relax.ext.toy", toy, override=True)


def loaded(executable, path):
    executable.export_library(str(path))
    return relax.VirtualMachine(tvm.runtime.load_module(str(path)), tvm.cpu())


@needs_compiler
def test_what_a_code_generator_refuses_the_host_runs(toy_generator, expected, tmp_path):
    mod = ar.partition(Regions, ["toy"], prepare=False)
    refused = {"toy_several_0", "toy_dynamic_0"}
    assert refused < {name.name_hint for name in mod.get_global_vars()}
    toy_generator(refusing(refused, lambda symbol: symbol))
    with pytest.warns(
        ar.RegionRejectedWarning, match=r"'toy' refuses toy_\w+_0; the host will run it.*too few"
    ) as seen:
        executable = ar.build(mod)
    assert len(seen) == 2
    same(answers(loaded(executable, tmp_path / "some.so")), expected)


@pytest.fixture
def second():
    """Another target, which notes what it is given and runs it with the toy backend's code."""
    ar.register_backend("second", build_options=toy_backend.build_options)
    claim_ops("second", "relax.nn.relu", "relax.multiply")
    given = []

    def generate(functions, options, constants):
        given.extend(functions)
        return toy_backend.generate(functions, options, constants)

    tvm.register_global_func("relax.ext.second", generate, override=True)
    yield given
    tvm_ffi.registry.remove_global_func("relax.ext.second")


@needs_compiler
def test_what_one_target_refuses_another_one_is_offered(toy_generator, second, expected, tmp_path):
    mod = ar.partition(Regions, ["toy"], prepare=False)
    toy_generator(refusing({"toy_several_0"}, lambda symbol: symbol))
    said = r"refuses toy_several_0; second and, for other ops, the host will run it"
    with pytest.warns(ar.RegionRejectedWarning, match=said):
        executable = ar.build(mod, alternatives=["toy", "second"])
    # The first op of the two goes to the host, since the second target does not claim it.
    (region,) = second
    assert [str(binding.value.op.name) for binding in region.body.blocks[0].bindings] == ["relax.nn.relu"]
    same(answers(loaded(executable, tmp_path / "some.so")), expected)


@needs_compiler
def test_what_is_refused_is_placed_again_under_the_policy(toy_generator, second, expected, tmp_path):
    """A launch of the second target costs more than the host takes for all it could run."""
    mod = ar.partition(Regions, ["toy"], prepare=False)
    toy_generator(refusing({"toy_several_0"}, lambda symbol: symbol))
    dear = ar.LeastCost(ar.UnitCost(region=1000.0))
    with pytest.warns(ar.RegionRejectedWarning, match="refuses toy_several_0; the host will run it"):
        executable = ar.build(mod, alternatives=["toy", "second"], policy=dear)
    assert not second
    same(answers(loaded(executable, tmp_path / "some.so")), expected)


@needs_compiler
def test_a_region_that_everybody_refuses_is_asked_for_once_each(toy_generator, expected, tmp_path):
    ar.register_backend("second", build_options=toy_backend.build_options)
    claim_ops("second", *toy_backend.OPS)
    asked = []

    def refuse(functions, _options, _constants):
        asked.append(str(functions[0].attrs["global_symbol"]))
        raise ar.RegionRejectedError("never", asked[-1])

    toy_generator(refuse)
    tvm.register_global_func("relax.ext.second", refuse, override=True)
    mod = ar.partition(tvm.IRModule({"single": Regions["single"]}), ["toy"], prepare=False)
    with pytest.warns(ar.RegionRejectedWarning) as seen:
        executable = ar.build(mod, alternatives=["second", "toy"])
    tvm_ffi.registry.remove_global_func("relax.ext.second")
    assert [("toy" in str(each.message), "host" in str(each.message)) for each in seen] == [
        (True, True),
        (True, True),
    ]
    assert len(asked) == 2
    single = answers(relax.VirtualMachine(executable, tvm.cpu()), ["single"])
    same(single, {"single": expected["single"]})


def test_constants_that_a_target_took_as_arguments_are_constants_to_the_next_one(toy_generator, second):
    toy_backend.register(bind_constants=False)
    ar.register_rule("second", "relax.add")(lambda op: isinstance(op.args[1], tvm.ir.GenericConst))
    mod = ar.partition(Scaled, ["toy"], prepare=False)
    toy_generator(refusing({"toy_main_0", "toy_main_1"}, lambda symbol: symbol))
    with pytest.warns(ar.RegionRejectedWarning, match="second"):
        ar.build(mod, alternatives=["second"])
    # It is asked for the first one again when the second one is refused.
    assert {str(func.attrs["global_symbol"]): len(func.params) for func in second} == {
        "second_toy_main_0_0": 1,
        "second_toy_main_1_0": 1,
    }


def test_a_refusal_that_names_no_region_fails_the_build(toy_generator):
    mod = ar.partition(Regions, ["toy"], prepare=False)
    toy_generator(refusing({"toy_several_0"}, lambda _symbol: None))
    with pytest.raises(ar.RegionRejectedError, match="too few ops"):
        ar.build(mod)


def test_a_backend_whose_check_fails_is_named():
    def failing():
        raise OSError("no such driver")

    mod = partitioned_for("shaky")
    ar.register_backend("shaky", unavailable=failing)
    with pytest.raises(ar.BackendUnavailableError, match=r"'shaky'.*OSError: no such driver"):
        ar.build(mod)


def test_options_for_a_target_that_nobody_registered_are_an_error():
    with pytest.raises(ar.UnknownTargetError, match="unknown target 'dnl'"):
        ar.build(Scaled, options={"dnl": {"precision": "bf16"}})
