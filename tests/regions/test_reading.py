"""Regions recovered from annotations: a table of literal functions, and a reader by definition."""

from __future__ import annotations

import pytest
from hypothesis import given
from kits.regions import region_oracles as oracle
from kits.regions.region_tables import function_of
from tvm import relax

import annotated_region as ar
from annotated_region.dataflow.walk import read_dataflow
from annotated_region.regions.reading import read_regions
from annotated_region.testing import annotated_functions

# For each case: a body, and the regions as target, nodes, inputs, outputs and composites.
CASES = {
    "a region around one op": (
        """
        b = begin(x, compiler="t")
        v = R.nn.relu(b)
        e = end(v, compiler="t")
        return e
        """,
        ["t: v <- x -> v"],
    ),
    "an output that is used five times": (
        """
        b = begin(x, compiler="t")
        v = R.nn.relu(b)
        e = end(v, compiler="t")
        p = R.tanh(e)
        q = R.negative(e)
        r = R.add(e, e)
        return p, q, r, e
        """,
        ["t: v <- x -> v"],
    ),
    "no inputs": (
        """
        z = R.zeros(R.shape([2, 4]), dtype="float32")
        e = end(z, compiler="t")
        v = R.add(x, e)
        return v
        """,
        ["t: z <-  -> z"],
    ),
    "no outputs": (
        """
        b = begin(x, compiler="t")
        v = R.nn.relu(b)
        return y
        """,
        ["t: v <- x -> "],
    ),
    "an end that nobody uses": (
        """
        z = R.zeros(R.shape([2, 4]), dtype="float32")
        e = end(z, compiler="t")
        return x
        """,
        ["t: z <-  -> "],
    ),
    "two regions of one target side by side": (
        """
        b = begin(x, compiler="t")
        v = R.nn.relu(b)
        e = end(v, compiler="t")
        d = begin(e, compiler="t")
        w = R.tanh(d)
        f = end(w, compiler="t")
        return f
        """,
        ["t: v <- x -> v", "t: w <- v -> w"],
    ),
    "two targets that overlap without nesting": (
        """
        b = begin(x, compiler="t")
        v = R.nn.relu(b)
        d = begin(v, compiler="u")
        w = R.tanh(d)
        e = end(w, compiler="t")
        k = R.negative(e)
        f = end(k, compiler="u")
        return f
        """,
        ["t: v w <- x -> w", "u: w k <- v -> k"],
    ),
    "two targets on one node": (
        """
        b = begin(x, compiler="t")
        d = begin(b, compiler="u")
        v = R.nn.relu(d)
        e = end(v, compiler="t")
        f = end(e, compiler="u")
        return f
        """,
        ["t: v <- x -> v", "u: v <- x -> v"],
    ),
    "two labels of one target on one node": (
        """
        b = begin(x, compiler="t", region="p")
        v = R.nn.relu(b)
        d = begin(v, compiler="t", region="q")
        w = R.tanh(d)
        e = end(w, compiler="t", region="p")
        k = R.negative(e)
        f = end(k, compiler="t", region="q")
        return f
        """,
        ["t: v w <- x -> w", "t: w k <- v -> k"],
    ),
    "one label on unconnected nodes": (
        """
        b = begin(x, compiler="t", region="p")
        v = R.nn.relu(b)
        e = end(v, compiler="t", region="p")
        d = begin(y, compiler="t", region="p")
        w = R.tanh(d)
        f = end(w, compiler="t", region="p")
        return e, f
        """,
        ["t: v w <- x y -> v w"],
    ),
    "a composite inside a region": (
        """
        b = begin(x, compiler="t")
        v = R.nn.relu(b)
        d = begin(v, compiler="t", region="pair#0")
        w = R.tanh(d)
        k = R.negative(w)
        g = end(k, compiler="t", region="pair#0")
        e = end(g, compiler="t")
        return e
        """,
        ["t: v w k <- x -> k [pair: w k]"],
    ),
    "a composite by itself, in two overlapping ways": (
        """
        b = begin(x, compiler="t", region="pair#0")
        v = R.nn.relu(b)
        d = begin(v, compiler="t", region="pair#1")
        w = R.tanh(d)
        e = end(w, compiler="t", region="pair#0")
        k = R.negative(e)
        f = end(k, compiler="t", region="pair#1")
        return f
        """,
        ["t: v w <- x -> w [pair: v w]", "t: w k <- v -> k [pair: w k]"],
    ),
    "a label with a sharp but no number is no composite": (
        """
        b = begin(x, compiler="t", region="my #label")
        v = R.nn.relu(b)
        e = end(v, compiler="t", region="my #label")
        return e
        """,
        ["t: v <- x -> v"],
    ),
    "a tuple argument, field by field": (
        """
        b = begin(x, compiler="t")
        d = begin(y, compiler="t")
        v = R.concat((b, d), axis=1)
        e = end(v, compiler="t")
        return e
        """,
        ["t: v <- x y -> v"],
    ),
    "one value in two fields and once more, all annotated alike": (
        """
        b = begin(x, compiler="t")
        v = R.concat((b, b), axis=1)
        w = R.split(v, 2, axis=1)
        k = w[0]
        e = end(k, compiler="t")
        return e
        """,
        ["t: v w k <- x -> k"],
    ),
    "the fields of a split inside, and one outside": (
        """
        b = begin(x, compiler="t")
        s = R.split(b, 2, axis=1)
        p = s[0]
        e = end(p, compiler="t")
        f = end(s, compiler="t")
        q = f[1]
        return e, q
        """,
        ["t: s p <- x -> s p"],
    ),
    "a bound tuple inside": (
        """
        b = begin(x, compiler="t")
        v = R.nn.relu(b)
        w = v, v
        k = R.concat(w, axis=1)
        e = end(k, compiler="t")
        return e
        """,
        ["t: v w k <- x -> k"],
    ),
    "another name for a value, inside and outside": (
        """
        b = begin(x, compiler="t")
        v = R.nn.relu(b)
        w = v
        e = end(w, compiler="t")
        k = e
        return k
        """,
        ["t: v w <- x -> w"],
    ),
    "constants belong to whoever uses them": (
        """
        k = R.const(2.0, "float32")
        b = begin(x, compiler="t")
        v = R.add(b, k)
        e = end(v, compiler="t")
        w = R.multiply(e, k)
        d = begin(w, compiler="u")
        u = R.add(d, R.const(1.0, "float32"))
        f = end(u, compiler="u")
        return f
        """,
        ["t: v <- x -> v", "u: u <- w -> u"],
    ),
    "a constant that is annotated all the same": (
        """
        k = R.const(2.0, "float32")
        a = begin(k, compiler="t")
        c1 = begin(R.const(3.0, "float32"), compiler="t")
        v = R.add(a, c1)
        e = end(v, compiler="t")
        return e
        """,
        ["t: v <-  -> v"],
    ),
    "both branches of a conditional, and its operands": (
        """
        d = begin(x, compiler="t")
        v = R.nn.relu(d)
        e = end(v, compiler="t")
        if c:
            b = begin(e, compiler="t")
            p = R.tanh(b)
            r = end(p, compiler="t")
        else:
            a = begin(e, compiler="u")
            q = R.negative(a)
            r = end(q, compiler="u")
        k = begin(r, compiler="t")
        w = R.nn.relu(k)
        f = end(w, compiler="t")
        return f
        """,
        ["t: v <- x -> v", "t: p <- v -> p", "u: q <- v -> q", "t: w <- r -> w"],
    ),
    "a conditional in a conditional": (
        """
        if c:
            if c:
                b = begin(x, compiler="t")
                p = R.tanh(b)
                r = end(p, compiler="t")
            else:
                r = x
            s = r
        else:
            s = y
        return s
        """,
        ["t: p <- x -> p"],
    ),
    "a local function": (
        """
        @R.function
        def f(p: R.Tensor((2, 4), "float32")) -> R.Tensor((2, 4), "float32"):
            b = R.annotation.compiler_begin(p, compiler="t")
            q = R.nn.relu(b)
            e = R.annotation.compiler_end(q, compiler="t")
            return e
        v = f(x)
        return v
        """,
        ["t: q <- p -> q"],
    ),
    "several blocks, a cast between them": (
        """
        with R.dataflow():
            b = begin(x, compiler="t")
            v = R.nn.relu(b)
            e = end(v, compiler="t")
            R.output(e)
        m = R.match_cast(e, R.Tensor((2, 4), "float32"))
        with R.dataflow():
            d = begin(m, compiler="t")
            w = R.nn.relu(d)
            f = end(w, compiler="t")
            R.output(f)
        return f
        """,
        ["t: v e <- x -> e", "t: w f <- m -> f"],
    ),
    "chains that begin in one block and go on in another": (
        """
        b = begin(x, compiler="t")
        if c:
            d = begin(b, compiler="u")
            p = R.tanh(d)
            e = end(p, compiler="t")
            r = end(e, compiler="u")
        else:
            r = x
        return r
        """,
        ["t: p <- x -> p", "u: p <- x -> p"],
    ),
}


def described(region: ar.AnnotatedRegion) -> str:
    def names(values: tuple[relax.Var, ...]) -> str:
        return " ".join(var.name for var in values)

    inner = ", ".join(f"{each.name}: {names(each.nodes)}" for each in region.composites)
    text = f"{region.target}: {names(region.nodes)} <- {names(region.inputs)} -> {names(region.outputs)}"
    return f"{text} [{inner}]" if inner else text


@pytest.mark.parametrize("case", CASES)
def test_regions_of_literal_functions(case: str) -> None:
    body, expected = CASES[case]
    assert [described(region) for region in ar.AnnotatedRegionSet(function_of(body))] == expected


@pytest.mark.campaign
@given(annotated_functions())
def test_the_reader_says_what_the_definition_says(func: relax.Function) -> None:
    graph = read_dataflow(func)
    told = {
        (key.target, key.label, frozenset(graph.nodes[number].var for number in numbers))
        for key, numbers in read_regions(graph)
    }
    assert told == oracle.read(func)


def test_symbolic_shapes_pass_through() -> None:
    func = function_of(
        """
        m = T.int64()
        b = begin(x, compiler="t")
        k = R.match_cast(y, R.Tensor((m, 4), "float32"))
        d = begin(k, compiler="t")
        v = R.reshape(d, R.shape([m * 4]))
        w = R.nn.relu(b)
        e = end(v, compiler="t")
        f = end(w, compiler="t")
        return e, f
        """
    )
    assert [described(region) for region in ar.AnnotatedRegionSet(func)] == [
        "t: v <- k -> v",
        "t: w <- x -> w",
    ]
