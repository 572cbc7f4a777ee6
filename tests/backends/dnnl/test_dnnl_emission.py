"""The C++ that is emitted: tables for one region, pinned; the parts of the unit."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from textwrap import dedent

import pytest
import tvm
from tvm import tirx
from tvm.support import cc
from tvm_ffi import libinfo

from annotated_region.backends.dnnl.emission import emit_region, emit_unit
from annotated_region.backends.dnnl.graph import Dim, Graph, Kind
from annotated_region.backends.dnnl.parameters import Arithmetic, Convolution, Curve
from annotated_region.backends.dnnl.rewriting.pipeline import FUSION, rewrite
from annotated_region.backends.dnnl.runtime_units import PREBUILT, runtime_parts, runtime_unit
from annotated_region.errors import CodegenError


def small_graph(batch: Dim = 1) -> Graph:
    graph = Graph("small")
    data = graph.tensor((batch, 3, 8, 8), source=0)
    graph.inputs = [data]
    weights = graph.tensor((16, 3, 3, 3), source="const_0")
    bias = graph.tensor((1, 16, 1, 1), source="const_1")
    shape = (batch, 16, 8, 8)
    result = graph.add(Kind.CONVOLUTION, (data, weights), shape, Convolution((1, 1), (0, 0), (1, 1), (1, 1)))
    result = graph.add(Kind.BINARY, (result, bias), shape, Arithmetic("binary_add"))
    result = graph.add(Kind.ELTWISE, (result,), shape, Curve("eltwise_relu"))
    graph.outputs = [result]
    rewrite(graph, FUSION)
    return graph


GOLDEN = """\
    namespace annotated_region_dnnl { namespace { namespace small_tables {
    const int64_t shape_0[] = {1, 3, 8, 8};
    const int64_t shape_1[] = {1, 16, 1, 1};
    const int64_t shape_2[] = {16};
    const int64_t shape_3[] = {16, 3, 3, 3};
    const int64_t shape_4[] = {1, 16, 8, 8};
    const TensorRow tensors[] = {
        {{shape_0, 4}, Source::input, 0, Type::float32, Type::float32},
        {{shape_1, 4}, Source::constant, 0, Type::float32, Type::float32},
        {{shape_2, 1}, Source::computed, 0, Type::float32, Type::float32},
        {{shape_3, 4}, Source::constant, 1, Type::float32, Type::float32},
        {{shape_4, 4}, Source::computed, 0, Type::float32, Type::float32},
    };
    const int operands_0[] = {1};
    const int operands_1[] = {0, 3, 2};
    const int64_t parameters_1_strides[] = {1, 1};
    const int64_t parameters_1_dilation[] = {0, 0};
    const ConvolutionRow parameters_1 = {{parameters_1_strides, 2}, {parameters_1_dilation, 2}, \
{parameters_1_strides, 2}, {parameters_1_strides, 2}};
    const PostOpRow chain_1[] = {{dnnl_eltwise_relu, 0.0f, 0.0f, -1}};
    const NodeRow nodes[] = {
        {Kind::reshape, {operands_0, 1}, 2, nullptr, {}, nullptr},
        {Kind::convolution, {operands_1, 3}, 4, &parameters_1, {chain_1, 1}, nullptr},
    };
    const int inputs[] = {0};
    const int outputs[] = {4};
    void evaluate(const int64_t* , int64_t* ) {
    }
    const GraphTable graph = {
        "small",
        {tensors, 5}, {nodes, 2}, {inputs, 1}, {outputs, 1}, {},
        0, evaluate,
        2, 0, Precision::fp32, {}, nullptr,
        {}, {}};
    }}}
    ANNOTATED_REGION_EXPORT(small, annotated_region_dnnl::small_tables::graph)
"""


def test_tables_of_a_convolution_with_relu() -> None:
    assert emit_region(small_graph(), "fp32") == dedent(GOLDEN)


def test_equal_tables_are_emitted_once() -> None:
    graph = small_graph()
    tensor, width = graph.outputs[0], 16
    for _ in range(2):
        weights = graph.tensor((width, width, 3, 3), source="const_0")
        same = Convolution((1, 1), (0, 0), (1, 1), (1, 1))
        tensor = graph.add(Kind.CONVOLUTION, (tensor, weights), (1, width, 8, 8), same)
    graph.outputs = [tensor]
    text = emit_region(graph, "fp32")
    assert text.count("const ConvolutionRow") == 1
    assert text.count("&parameters_1,") == 3
    assert text.count("{1, 16, 8, 8};") == 1
    assert text.count("{{shape_4, 4}") == 3
    assert text.count("const int operands_") == 4


def test_symbolic_extents_are_read_from_the_inputs() -> None:
    batch = tirx.Var("n", "int64")
    text = emit_region(small_graph(batch), "fp32")
    assert "const VariableRow variables[] = {{0, 0}};" in text
    assert "const int64_t shape_0[] = {-1, 3, 8, 8};" in text
    assert "    e[0] = v[0];" in text


def test_expressions_over_extents_are_computed() -> None:
    rows = tirx.Var("n", "int64")
    graph = Graph("flat")
    data = graph.tensor((rows, 4), source=0)
    graph.inputs = [data]
    graph.outputs = [graph.add(Kind.RESHAPE, (data,), (rows * 2, tvm.tirx.floordiv(rows + 4, 2)))]
    text = emit_region(graph, "fp32")
    assert "e[1] = (v[0] * int64_t{2});" in text
    assert "e[2] = floor_quotient((v[0] + int64_t{4}), int64_t{2});" in text


def test_extent_that_no_input_tells_is_refused() -> None:
    graph = Graph("lost")
    graph.outputs = [graph.tensor((tirx.Var("n", "int64"),), source="const_0")]
    with pytest.raises(CodegenError, match="lost: target 'dnnl' cannot compute the extent n"):
        emit_region(graph, "fp32")


def test_a_unit_holds_its_region_and_the_interface_of_the_runtime_alone() -> None:
    text = emit_unit(small_graph(), "bf16")
    assert "struct GraphTable" in text
    assert "Precision::bf16, {}, nullptr," in text
    assert "class Region " not in text


def test_the_unit_of_the_runtime_is_empty_where_its_object_is_linked() -> None:
    begin, *body, end, _ = runtime_unit().split("\n")
    assert (begin, end) == (f"#ifndef {PREBUILT}", "#endif")
    assert any(line.startswith("class Region ") for line in body)


def test_each_builder_has_an_entry_in_one_unit_of_the_runtime() -> None:
    regions, *others = runtime_parts()
    assert not any(f"inline void {kind.value}(Builder&" in regions for kind in Kind)
    entry = r"^void build_(\w+)\(.* { \1\("
    names = [name for unit in (regions, *others) for name in re.findall(entry, unit, re.MULTILINE)]
    assert sorted(names) == sorted(kind.value for kind in Kind)
    assert not any("class Region " in unit for unit in others)


def test_a_unit_that_is_compiled_without_our_options_says_what_passes_them(tmp_path: Path) -> None:
    (tmp_path / "unit.cc").write_text(emit_unit(small_graph(), "fp32"), encoding="utf-8")
    includes = [f"-I{find()}" for find in (libinfo.find_include_path, libinfo.find_dlpack_include_path)]
    command = [cc.get_cc(), "-std=c++17", "-c", *includes, "unit.cc", "-o", "unit.o"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert said.returncode != 0
    assert "build the module with annotated_region.build(), which passes all options" in said.stderr
