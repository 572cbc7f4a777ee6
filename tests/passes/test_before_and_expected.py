"""Merge, resolve, partition and inline on one small module: the IR before, and the IR expected after each."""

import pytest
import tvm
from tvm.script import ir as I
from tvm.script import relax as R

import annotated_region as ar
from annotated_region.testing.registry import claim_ops, temporary_registrations


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test():
    with temporary_registrations():
        claim_ops("first", "relax.nn.relu", "relax.add")
        claim_ops("second", "relax.add")
        yield


@I.ir_module
class Plain:
    @R.function
    def main(x: R.Tensor((2, 4), "float32")):
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.add(a, x)
            c = R.tanh(b)
            R.output(c)
        return c


@I.ir_module
class Annotated:
    @R.function
    def main(x: R.Tensor((2, 4), "float32")):
        with R.dataflow():
            x_first = R.annotation.compiler_begin(x, compiler="first")
            a = R.nn.relu(x_first)
            a_end = R.annotation.compiler_end(a, compiler="first")
            a_first = R.annotation.compiler_begin(a_end, compiler="first")
            a_second = R.annotation.compiler_begin(a_first, compiler="second")
            x_second = R.annotation.compiler_begin(x_first, compiler="second")
            b = R.add(a_second, x_second)
            b_second = R.annotation.compiler_end(b, compiler="second")
            b_first = R.annotation.compiler_end(b_second, compiler="first")
            c = R.tanh(b_first)
            R.output(c)
        return c


@I.ir_module
class Merged:
    @R.function
    def main(x: R.Tensor((2, 4), "float32")):
        with R.dataflow():
            x_first = R.annotation.compiler_begin(x, compiler="first")
            a = R.nn.relu(x_first)
            a_second = R.annotation.compiler_begin(a, compiler="second")
            x_second = R.annotation.compiler_begin(x_first, compiler="second")
            b = R.add(a_second, x_second)
            b_second = R.annotation.compiler_end(b, compiler="second")
            b_first = R.annotation.compiler_end(b_second, compiler="first")
            c = R.tanh(b_first)
            R.output(c)
        return c


@I.ir_module
class ResolvedForFirst:
    @R.function
    def main(x: R.Tensor((2, 4), "float32")):
        with R.dataflow():
            x_first = R.annotation.compiler_begin(x, compiler="first")
            a = R.nn.relu(x_first)
            b = R.add(a, x_first)
            b_first = R.annotation.compiler_end(b, compiler="first")
            c = R.tanh(b_first)
            R.output(c)
        return c


@I.ir_module
class ResolvedForSecond:
    @R.function
    def main(x: R.Tensor((2, 4), "float32")):
        with R.dataflow():
            x_first = R.annotation.compiler_begin(x, compiler="first")
            a = R.nn.relu(x_first)
            a_first = R.annotation.compiler_end(a, compiler="first")
            a_second = R.annotation.compiler_begin(a_first, compiler="second")
            x_second = R.annotation.compiler_begin(x, compiler="second")
            b = R.add(a_second, x_second)
            b_second = R.annotation.compiler_end(b, compiler="second")
            c = R.tanh(b_second)
            R.output(c)
        return c


@I.ir_module
class Partitioned:
    @R.function
    def first_main_0(x: R.Tensor((2, 4), "float32")) -> R.Tensor((2, 4), "float32"):
        R.func_attr({"Codegen": "first"})
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.add(a, x)
            R.output(b)
        return b

    @R.function
    def main(x: R.Tensor((2, 4), "float32")) -> R.Tensor((2, 4), "float32"):
        cls = Partitioned
        with R.dataflow():
            b = cls.first_main_0(x)
            c = R.tanh(b)
            R.output(c)
        return c


def test_merging():
    tvm.ir.assert_structural_equal(ar.passes.MergeCompilerRegions()(Annotated), Merged)


def test_annotating_gives_what_is_merged():
    annotated = ar.passes.AnnotateTarget(["first", "second"])(Plain)
    tvm.ir.assert_structural_equal(ar.passes.MergeCompilerRegions()(annotated), Merged)


def test_resolving_for_one_target_and_for_the_other():
    for order, expected in ((["first"], ResolvedForFirst), (["second"], ResolvedForSecond)):
        tvm.ir.assert_structural_equal(ar.passes.ResolveConflicts(ar.Priority(order))(Merged), expected)


def test_partitioning():
    tvm.ir.assert_structural_equal(ar.passes.PartitionGraph()(ResolvedForFirst), Partitioned)


def test_inlining_gives_the_plain_module_back():
    tvm.ir.assert_structural_equal(ar.passes.InlinePartitions()(Partitioned), Plain)


def test_partitioning_what_overlaps_is_refused_and_says_what_to_run():
    with pytest.raises(ar.OverlappingRegionsError, match=r"'b' lies in .*; run ResolveConflicts"):
        ar.passes.PartitionGraph()(Merged)
