"""Malformed annotations: each error names function, target and edge, and says what to write instead."""

from __future__ import annotations

import re
from typing import Any

import pytest
import tvm
from kits.regions.region_tables import function_of
from tvm import relax

import annotated_region as ar
from annotated_region.annotations import BEGIN, END
from annotated_region.functions.rewriting import typed

# For each case: the body of a function named main, and what is said of it.
CASES = {
    "a begin without an end": (
        """
        b = begin(x, compiler="t")
        v = R.nn.relu(b)
        return v
        """,
        "main: target 't', edge 'v' -> the result: the value leaves the region; write compiler_end on this "
        "edge",
    ),
    "an end without a begin": (
        """
        v = R.nn.relu(x)
        e = end(v, compiler="t")
        return e
        """,
        "main: target 't', edge 'x' -> 'v': the value comes from outside; write compiler_begin on this edge",
    ),
    "a begin inside its own region": (
        """
        b = begin(x, compiler="t")
        v = R.nn.relu(b)
        inner = begin(v, compiler="t")
        w = R.add(inner, v)
        e = end(w, compiler="t")
        return e
        """,
        "main: target 't', edge 'v' -> 'w': compiler_begin is inside its own region; drop it",
    ),
    "an end inside its own region": (
        """
        b = begin(x, compiler="t")
        v = R.nn.relu(b)
        inner = end(v, compiler="t")
        w = R.add(inner, v)
        e = end(w, compiler="t")
        return e
        """,
        "main: target 't', edge 'v' -> 'w': compiler_end is inside its own region; drop it",
    ),
    "a region entered around its begin": (
        """
        b = begin(x, compiler="t")
        v = R.add(b, y)
        e = end(v, compiler="t")
        return e
        """,
        "main: target 't', edge 'y' -> 'v': the value comes from outside; write compiler_begin on this edge",
    ),
    "a region entered around the begin of the same value": (
        """
        b = begin(x, compiler="t")
        v = R.add(b, x)
        e = end(v, compiler="t")
        return e
        """,
        "main: target 't', edge 'x' -> 'v': the value comes from outside; write compiler_begin on this edge",
    ),
    "an output that crosses next to one that is annotated": (
        """
        b = begin(x, compiler="t")
        v = R.nn.relu(b)
        e = end(v, compiler="t")
        return e, v
        """,
        "main: target 't', edge 'v' -> the result: the value leaves the region; write compiler_end on this "
        "edge",
    ),
    "a region left and entered again": (
        """
        b = begin(x, compiler="t")
        v = R.nn.relu(b)
        out = end(v, compiler="t")
        back = begin(out, compiler="t")
        w = R.add(back, v)
        e = end(w, compiler="t")
        return e
        """,
        "main: target 't', edge 'v' -> 'w': the region is left and entered again, but other edges join "
        "both ends inside; drop both annotations, or annotate the other edges too",
    ),
    "a begin right after another region of the target": (
        """
        b = begin(x, compiler="t")
        v = R.nn.relu(b)
        e = end(v, compiler="t")
        inner = begin(v, compiler="t")
        w = R.tanh(inner)
        f = end(w, compiler="t")
        return e, f
        """,
        "main: target 't', edge 'v' -> 'w': compiler_begin is after a value of another region of the "
        "same target; write compiler_end before it",
    ),
    "an end right before another region of the target": (
        """
        b = begin(x, compiler="t")
        v = R.nn.relu(b)
        e = end(v, compiler="t")
        other = begin(y, compiler="t")
        w = R.add(e, other)
        f = end(w, compiler="t")
        return f
        """,
        "main: target 't', edge 'v' -> 'w': compiler_end is before another region of the same target; "
        "write compiler_begin after it",
    ),
    "begin twice": (
        """
        b = begin(x, compiler="t")
        again = begin(b, compiler="t")
        v = R.nn.relu(again)
        e = end(v, compiler="t")
        return e
        """,
        "main: target 't', edge 'x' -> 'v': the chain 'begin begin' is not valid; between two nodes it is "
        "empty (same side), 'end' (producer inside), 'begin' (consumer inside) or 'end begin' (two "
        "regions)",
    ),
    "begin and end on one edge": (
        """
        b = begin(x, compiler="t")
        e = end(b, compiler="t")
        v = R.nn.relu(e)
        return v
        """,
        "main: target 't', edge 'x' -> 'v': the chain 'begin end' is not valid; between two nodes it is "
        "empty (same side), 'end' (producer inside), 'begin' (consumer inside) or 'end begin' (two "
        "regions)",
    ),
    "a region that spans two blocks": (
        """
        b = begin(x, compiler="t")
        v = R.nn.relu(b)
        with R.dataflow():
            w = R.tanh(v)
            e = end(w, compiler="t")
            R.output(e)
        return e
        """,
        "main: target 't', edge 'v' -> 'w': the region leaves main (block 0), but a region stays in one "
        "block; write compiler_end and compiler_begin on this edge",
    ),
    "a region that enters a branch": (
        """
        b = begin(x, compiler="t")
        v = R.nn.relu(b)
        if c:
            w = R.tanh(v)
            r = end(w, compiler="t")
        else:
            r = x
        return r
        """,
        "main: target 't', edge 'v' -> 'w': the region leaves main (block 0), but a region stays in one "
        "block; write compiler_end and compiler_begin on this edge",
    ),
    "a label in two blocks": (
        """
        b = begin(x, compiler="t", region="r")
        v = R.nn.relu(b)
        e = end(v, compiler="t", region="r")
        with R.dataflow():
            d = begin(e, compiler="t", region="s")
            w = R.tanh(d)
            f = end(w, compiler="t", region="s")
            g = begin(y, compiler="t", region="r")
            u = R.tanh(g)
            h = end(u, compiler="t", region="r")
            R.output(f, h)
        return f, h
        """,
        "main: target 't' (region 'r'), edge 'y' -> 'u': the label is used in main (block 0) and in main "
        "(block 1), but a region stays in one block; give them two labels",
    ),
    "a label that ends and begins again": (
        """
        b = begin(x, compiler="t", region="r")
        v = R.nn.relu(b)
        e = end(v, compiler="t", region="r")
        again = begin(e, compiler="t", region="r")
        w = R.nn.relu(again)
        f = end(w, compiler="t", region="r")
        return f
        """,
        "main: target 't' (region 'r'), edge 'v' -> 'w': the label ends and begins again, but all "
        "nodes with one label form one region; drop both, or give the second region another label",
    ),
    "a begin that nobody uses": (
        """
        b = begin(x, compiler="t")
        v = R.nn.relu(x)
        return v
        """,
        "main: target 't', edge 'x' -> none: the result of compiler_begin is never used; use it or drop it",
    ),
    "a begin before an end that nobody uses": (
        """
        b = begin(x, compiler="t")
        v = R.nn.relu(b)
        e = end(v, compiler="t")
        other = begin(e, compiler="u")
        unused = end(other, compiler="s")
        return e
        """,
        "main: target 'u', edge 'v' -> none: the result of compiler_begin is never used; use it or drop it",
    ),
    "a begin before the result": (
        """
        b = begin(x, compiler="t")
        return b
        """,
        "main: target 't', edge 'x' -> the result: compiler_begin is before the result of the "
        "function, which is outside; drop it",
    ),
    "an end after a parameter": (
        """
        e = end(x, compiler="t")
        v = R.nn.relu(e)
        return v
        """,
        "main: target 't', edge 'x' -> 'v': compiler_end follows a value that is made outside; drop it, or "
        "write compiler_begin",
    ),
    "an end after a bare constant": (
        """
        e = end(R.const(1.0, "float32"), compiler="t")
        v = R.add(x, e)
        return v
        """,
        "main: target 't', edge 'e' -> 'v': compiler_end follows a constant, which belongs to its user; "
        "drop it",
    ),
    "an end after a bound constant": (
        """
        k = R.const(1.0, "float32")
        e = end(k, compiler="t")
        v = R.add(x, e)
        return v
        """,
        "main: target 't', edge 'k' -> 'v': 'k' is a constant, which belongs to its users, so no region "
        "holds it; drop the annotation",
    ),
    "an If inside": (
        """
        b = begin(x, compiler="t")
        v = R.nn.relu(b)
        if c:
            w = R.tanh(x)
            r = w
        else:
            r = x
        u = R.add(r, v)
        e = end(u, compiler="t")
        return e
        """,
        "main: target 't', edge 'r' -> 'u': 'r' is an If, and no region holds one; write compiler_begin on "
        "this edge",
    ),
    "a MatchCast inside": (
        """
        b = begin(x, compiler="t")
        v = R.nn.relu(b)
        m = R.match_cast(v, R.Tensor((2, 4), "float32"))
        e = end(m, compiler="t")
        return e
        """,
        "main: target 't', edge 'v' -> 'm': 'm' is a MatchCast, and no region holds one; write "
        "compiler_end on this edge",
    ),
    "a call of a local function inside": (
        """
        @R.function
        def f(p: R.Tensor((2, 4), "float32")) -> R.Tensor((2, 4), "float32"):
            q = R.nn.relu(p)
            return q
        b = begin(x, compiler="t")
        v = f(b)
        e = end(v, compiler="t")
        return e
        """,
        "main: target 't', edge 'x' -> 'v': 'v' is an impure call, and no region holds one; drop the "
        "annotation",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_malformed_annotations(case: str) -> None:
    body, said = CASES[case]
    with pytest.raises(ar.MalformedAnnotationError, match=f"^{re.escape(said)}$"):
        ar.AnnotatedRegionSet(function_of(body))


def test_the_place_of_a_region_in_a_branch_is_told_in_words() -> None:
    func = function_of(
        """
        if c:
            b = begin(x, compiler="t", region="r")
            v = R.nn.relu(b)
            r = end(v, compiler="t", region="r")
        else:
            d = begin(x, compiler="t", region="r")
            w = R.nn.relu(d)
            r = end(w, compiler="t", region="r")
        return r
        """
    )
    said = (
        "main: target 't' (region 'r'), edge 'x' -> 'w': the label is used in the true branch of 'r' in main "
        "(block 1) and in the false branch of 'r' in main (block 2), but a region stays in one block; give "
        "them two labels"
    )
    with pytest.raises(ar.MalformedAnnotationError, match=f"^{re.escape(said)}$"):
        ar.AnnotatedRegionSet(func)


def test_a_function_without_a_symbol_goes_by_the_name_that_is_given() -> None:
    func = function_of('b = begin(x, compiler="t")\nv = R.nn.relu(b)\nreturn v').without_attr("global_symbol")
    with pytest.raises(ar.MalformedAnnotationError, match=r"^inner: target 't'"):
        ar.AnnotatedRegionSet(func, "inner")
    with pytest.raises(ar.MalformedAnnotationError, match=r"^the function: target 't'"):
        ar.AnnotatedRegionSet(func)


MATRIX = relax.TensorType([2, 4], "float32")


def function_around(value: relax.Expr, x: relax.Var, cast: bool = False) -> relax.Function:
    """A function that binds `value` and uses it, made without the parser's help."""
    b = relax.Var("b", MATRIX)
    binding = relax.MatchCast(b, value, MATRIX) if cast else relax.VarBinding(b, value)
    v = relax.Var("v", MATRIX)
    use = relax.VarBinding(v, relax.Call(tvm.ir.Op.get("relax.nn.relu"), [b], ret_ty=MATRIX))
    body = typed(relax.SeqExpr([relax.BindingBlock([binding, use])], v), MATRIX)
    attrs = tvm.ir.make_node("ir.DictAttrs", global_symbol="main")
    return relax.Function([x], body, MATRIX, True, attrs)


def annotation(op: str, values: list[relax.Expr], **attrs: object) -> relax.Call:
    return relax.Call(tvm.ir.Op.get(op), values, tvm.ir.make_node("ir.DictAttrs", **attrs), ret_ty=MATRIX)


X = relax.Var("x", MATRIX)
BY_HAND = {
    "no target": (
        annotation(BEGIN, [X]),
        "main: binding 'b': compiler_begin names no target; write compiler_begin(x, compiler=\"<target>\")",
    ),
    "a target that is no text": (
        annotation(END, [X], compiler=3),
        "main: binding 'b': compiler_end names no target; write compiler_end(x, compiler=\"<target>\")",
    ),
    "an empty label": (
        annotation(BEGIN, [X], compiler="t", region=""),
        "main: binding 'b': compiler_begin for 't' has the label ''; write region=\"<label>\", or leave it "
        "out",
    ),
    "a label that is no text": (
        annotation(BEGIN, [X], compiler="t", region=7),
        "main: binding 'b': compiler_begin for 't' has the label 7; write region=\"<label>\", or leave it "
        "out",
    ),
    "no value": (
        annotation(BEGIN, [], compiler="t"),
        "main: binding 'b': compiler_begin takes one value, not 0; write compiler_begin(x, "
        'compiler="<target>")',
    ),
    "two values": (
        annotation(BEGIN, [X, X], compiler="t"),
        "main: binding 'b': compiler_begin takes one value, not 2; write compiler_begin(x, "
        'compiler="<target>")',
    ),
    "a tuple written out": (
        annotation(BEGIN, [relax.Tuple([X, X])], compiler="t"),
        "main: binding 'b' annotates a tuple as a whole; annotate its fields one by one, or bind the tuple "
        "to a variable first",
    ),
}


@pytest.mark.parametrize("case", BY_HAND)
def test_malformed_calls_to_the_annotation_ops(case: str) -> None:
    call, said = BY_HAND[case]
    with pytest.raises(ar.MalformedAnnotationError, match=f"^{re.escape(said)}$"):
        ar.AnnotatedRegionSet(function_around(call, X))


def test_an_annotation_inside_a_cast() -> None:
    said = "main: binding 'b': an annotation is inside a MatchCast; bind it to a variable of its own first"
    with pytest.raises(ar.MalformedAnnotationError, match=f"^{re.escape(said)}$"):
        ar.AnnotatedRegionSet(function_around(annotation(BEGIN, [X], compiler="t"), X, cast=True))


def test_the_same_attributes_on_another_number_of_values_are_read_anew() -> None:
    # Attribute objects that annotations share are converted once; the count of values is no part of them.
    good = annotation(BEGIN, [X], compiler="t")
    first, second = relax.Var("first", MATRIX), relax.Var("second", MATRIX)
    bad = relax.Call(good.op, [X, X], good.attrs, ret_ty=MATRIX)
    bindings = [relax.VarBinding(first, good), relax.VarBinding(second, bad)]
    body = typed(relax.SeqExpr([relax.BindingBlock(bindings)], second), MATRIX)
    with pytest.raises(ar.MalformedAnnotationError, match="binding 'second': compiler_begin takes one value"):
        ar.AnnotatedRegionSet(relax.Function([X], body, MATRIX))


def test_a_module_with_malformed_annotations_is_left_as_it_is() -> None:
    func = function_of('b = begin(x, compiler="t")\nv = R.nn.relu(b)\nreturn v')
    mod = tvm.IRModule({"main": func})
    before = mod.script()
    steps: tuple[Any, ...] = (ar.passes.MergeCompilerRegions(), ar.passes.PartitionGraph())
    for step in steps:
        with pytest.raises(ar.MalformedAnnotationError, match="write compiler_end on this edge"):
            step(mod)
    assert mod.script() == before
