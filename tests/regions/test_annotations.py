"""The annotation ops: made, typed, printed, parsed, legalized, and refused where they make no sense."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import tvm
from kits.host_machines import host_machine
from kits.regions.region_tables import function_of
from tvm import relax

import annotated_region as ar
from annotated_region.annotations import BEGIN, END, Annotation, Key, annotation_of

MATRIX = relax.TensorType([2, 4], "float32")
X = relax.Var("x", MATRIX)


@pytest.mark.parametrize(("make", "op"), [(ar.compiler_begin, BEGIN), (ar.compiler_end, END)])
def test_an_annotation_is_a_pure_call_with_the_type_of_its_argument(make: object, op: str) -> None:
    assert callable(make)
    call = relax.BlockBuilder().normalize(make(X, "dnnl"))
    assert call.op.name == op
    tvm.ir.assert_structural_equal(call.ty, MATRIX)
    assert call.op.get_attr("FPurity")
    assert annotation_of(call) == Annotation(op == BEGIN, Key("dnnl"))
    labelled = make(X, "dnnl", "left")
    assert annotation_of(labelled) == Annotation(op == BEGIN, Key("dnnl", "left"))


def test_tuples_shapes_and_symbolic_tensors_keep_their_types() -> None:
    rows = tvm.tirx.Var("n", "int64")
    for ty in (
        tvm.ir.TupleType([MATRIX, MATRIX]),
        relax.TensorType([rows, 4], "float32"),
        relax.ShapeType(ndim=2),
    ):
        call = relax.BlockBuilder().normalize(ar.compiler_begin(relax.Var("v", ty), "dnnl"))
        tvm.ir.assert_structural_equal(call.ty, ty, map_free_vars=True)


def test_a_number_is_annotated_as_a_constant() -> None:
    (argument,) = ar.compiler_begin(1.5, "dnnl").args
    assert float(argument.value.numpy()) == 1.5


def test_what_is_no_annotation() -> None:
    assert annotation_of(X) is None
    assert annotation_of(relax.op.nn.relu(X)) is None
    assert annotation_of(relax.Call(relax.ExternFunc("f"), [X])) is None
    assert annotation_of(ar.compiler_begin(X, "dnnl"), begin="other.begin", end="other.end") is None


def test_tokens_in_words_and_in_order() -> None:
    assert str(Annotation(True, Key("dnnl"))) == "compiler_begin for 'dnnl'"
    assert str(Annotation(False, Key("dnnl", "left"))) == "compiler_end for 'dnnl' (region 'left')"
    assert sorted([Key("b"), Key("a", "z"), Key("a")]) == [Key("a"), Key("a", "z"), Key("b")]


@pytest.mark.parametrize("compiler", ["", None, 3])
def test_a_target_is_a_text(compiler: Any) -> None:
    said = f'the target of an annotation is a non-empty string, not {compiler!r}; pass compiler="dnnl"'
    with pytest.raises(ar.MalformedAnnotationError, match=f"^{re.escape(said)}$"):
        ar.compiler_begin(X, compiler)


@pytest.mark.parametrize("label", ["", 3])
def test_a_label_is_a_text(label: Any) -> None:
    said = f'the label of a region is a non-empty string, not {label!r}; pass region="left", or nothing'
    with pytest.raises(ar.MalformedAnnotationError, match=f"^{re.escape(said)}$"):
        ar.compiler_end(X, "dnnl", label)


@pytest.mark.parametrize("value", [(X, X), [X], relax.Tuple([X, X])])
def test_a_tuple_is_annotated_field_by_field(value: object) -> None:
    with pytest.raises(
        ar.MalformedAnnotationError,
        match=r"^a tuple is annotated field by field; pass each of its values$",
    ):
        ar.compiler_begin(value, "dnnl")


@pytest.mark.parametrize("name", ['dn"nl', "back\\slash", "#"])
def test_odd_names_survive_printing_and_parsing(name: str) -> None:
    func = function_of("v = R.nn.relu(x)\nreturn v")
    (var,) = (binding.var for binding in func.body.blocks[0].bindings)
    written = ar.AnnotatedRegionSet.from_claims(func, {name: [var, ar.Composite(name, (var,))]}).annotate()
    mod = tvm.IRModule({"main": written})
    parsed = tvm.script.from_source(mod.script())
    tvm.ir.assert_structural_equal(parsed, mod)
    (region,) = ar.AnnotatedRegionSet(parsed["main"])
    assert (region.target, [inner.name for inner in region.composites]) == (name, [name])


def test_annotations_are_written_in_tvmscript_as_they_are_printed() -> None:
    func = function_of('b = begin(x, compiler="dnnl", region="left")\nreturn b')
    assert 'R.annotation.compiler_begin(x, compiler="dnnl", region="left")' in func.script()
    (binding,) = func.body.blocks[0].bindings
    assert annotation_of(binding.value) == Annotation(True, Key("dnnl", "left"))


def test_an_annotation_is_legalized_to_its_argument() -> None:
    func = function_of(
        """
        with R.dataflow():
            b = begin(x, compiler="dnnl")
            v = R.nn.relu(b)
            e = end(v, compiler="dnnl")
            R.output(e)
        return e
        """
    )
    legalized = relax.transform.LegalizeOps()(tvm.IRModule({"main": func}))
    assert "annotation" not in legalized.script()
    machine = host_machine(tvm.IRModule({"main": func}))
    data = np.linspace(-1, 1, 8, dtype="float32").reshape(2, 4)
    arguments = [tvm.runtime.tensor(each) for each in (data, data, np.asarray(True))]
    np.testing.assert_array_equal(machine["main"](*arguments).numpy(), np.maximum(data, 0))


def test_the_module_can_be_loaded_again() -> None:
    # Ops live as long as the process, and registering one twice is an error of TVM's. In a process of its
    # own, for what was loaded before keeps the old classes.
    program = (
        "import importlib, annotated_region.annotations as first;"
        "from tvm import relax;"
        "again = importlib.reload(first);"
        "x = relax.Var('x', relax.TensorType([2], 'float32'));"
        "print(again.annotation_of(again.compiler_begin(x, 'dnnl')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "compiler_begin for 'dnnl'"
