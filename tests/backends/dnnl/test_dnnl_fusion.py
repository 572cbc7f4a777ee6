"""What the graph of a region becomes: which nodes are left, and which primitives run them."""

from __future__ import annotations

import pytest
import tvm
from kits.backends.dnnl.dnnl_cases import module_of
from kits.backends.dnnl.dnnl_harness import ConstantNames, all_cases, needs_onednn
from kits.backends.dnnl.dnnl_transformer_cases import CASES
from tvm import relax

import annotated_region as ar
from annotated_region.backends.dnnl.codegen import region_graph
from annotated_region.backends.dnnl.graph import Graph
from annotated_region.errors import CodegenError


def graph_of(name: str, *passes: tvm.ir.transform.Pass) -> Graph:
    case = next(case for case in CASES if case.name == name)
    function = tvm.transform.Sequential(passes)(module_of([case]))[name]
    assert isinstance(function, relax.Function)
    return region_graph(function.with_attr("global_symbol", name), ConstantNames())


def summary(graph: Graph) -> list[str]:
    """Kinds and post-ops, without views."""
    views = ("reshape", "permute")
    return [
        " ".join([node.kind.value, *(post.algorithm for post in node.post_ops)])
        for node in graph.nodes
        if node.kind.value not in views
    ]


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("conv_bias_relu", ["convolution eltwise_relu"]),
        ("conv_bias_added_first", ["convolution"]),
        ("conv_bias_chain", ["convolution eltwise_clip binary_mul eltwise_linear eltwise_logistic"]),
        ("conv_subtracted_from_input", ["convolution eltwise_linear binary_add"]),
        ("conv_divided_by_input", ["convolution binary_div"]),
        ("conv_divides_input", ["convolution eltwise_abs eltwise_linear", "binary"]),
        ("conv2d_transpose_grouped_bias_relu", ["deconvolution binary_add eltwise_relu"]),
        ("matmul_constant_bias_relu", ["matmul eltwise_relu"]),
        ("matmul_transposed_constant_gelu", ["matmul", "gelu"]),
        ("matmul_stack_bias_residual", ["matmul binary_add"]),
        ("lrn", ["convolution eltwise_relu", "lrn"]),
        ("lrn_other_exponent", ["lrn"]),
        ("scalar_factor_twice", ["eltwise"]),
        (
            "batch_norm_scaled_shifted_relu",
            [
                "eltwise",
                "reciprocal_root",
                "binary",
                "binary binary_mul binary_add binary_mul binary_add eltwise_relu",
            ],
        ),
        ("mean_over_image", ["reduction"]),
        ("attention", ["attention"]),
        ("attention_added_mask", ["attention"]),
        ("attention_causal_selected", ["cast", "attention"]),
        ("attention_of_joined_heads", ["slice", "slice", "slice", "attention", "matmul"]),
        ("attention_repeated_heads", ["attention"]),
        ("attention_of_a_flat_stack", ["attention"]),
        ("attention_that_sees_nothing", ["binary", "binary", "select", "select", "attention"]),
        ("layer_norm_of_ones_and_zeros", ["layer_norm"]),
        ("group_norm_of_ones_and_zeros", ["group_norm"]),
        ("instance_norm_of_ones_and_zeros", ["group_norm eltwise_relu"]),
        ("guarded_softmax", ["binary", "select", "softmax"]),
        ("stacks_flattened_differently", ["matmul"]),
        ("attention_scores_used_again", ["matmul eltwise_linear", "softmax", "matmul"]),
        (
            "residual_block",
            [
                "convolution eltwise_relu",
                "convolution eltwise_relu",
                "convolution binary_add eltwise_relu",
                "convolution",
                "convolution binary_add eltwise_relu",
                "convolution binary_add eltwise_relu",
            ],
        ),
    ],
)
def test_graph_after_fusion(name: str, nodes: list[str]) -> None:
    assert summary(graph_of(name)) == nodes


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("gelu_by_parts", "gelu"),
        ("gelu_by_parts_half_first", "gelu"),
        ("gelu_tanh_by_parts", "eltwise"),
        ("silu_by_parts", "eltwise"),
        ("rms_norm_by_parts", "rms_norm"),
    ],
)
def test_what_preparation_finds_in_its_parts_is_one_node(name: str, node: str) -> None:
    assert summary(graph_of(name, ar.passes.PrepareForInference())) == [node]


def test_name_that_is_no_c_identifier_is_refused() -> None:
    function = module_of(CASES[:1])[CASES[0].name]
    with pytest.raises(CodegenError, match=r"the function name 'a.b' is not a C identifier"):
        region_graph(function.with_attr("global_symbol", "a.b"), ConstantNames())


def test_arithmetic_that_only_resembles_lrn_is_left_alone() -> None:
    assert "lrn" not in [node.kind.value for node in graph_of("almost_lrn").nodes]


def test_values_used_twice_are_not_fused_away() -> None:
    kinds = [line.split()[0] for line in summary(graph_of("residual_used_later"))]
    assert kinds.count("convolution") == 2
    assert "convolution eltwise_relu" in summary(graph_of("residual_used_later"))


def kinds_run(name: str) -> list[str]:
    """The first word of each primitive that ran."""
    case = next(case for case in CASES if case.name == name)
    all_cases().call(name, *case.inputs())
    (symbol,) = all_cases().symbols_of(name)
    return [line.split()[0] for line in all_cases().plan(symbol)]


@needs_onednn
def test_dense_block_is_computed_in_place() -> None:
    kinds = kinds_run("dense_block")
    assert "concat" not in kinds
    assert kinds.count("convolution") == 4
    assert kinds.count("binary") == 3


@needs_onednn
def test_constants_are_packed_once() -> None:
    """After the first call nothing but the two convolutions, and the result's reorder, is left to run."""
    assert kinds_run("residual_block").count("convolution") == 6
    assert kinds_run("residual_block").count("reorder") <= 2  # of the input and of the result


@needs_onednn
def test_dead_residuals_are_added_in_place() -> None:
    kinds_run("residual_block")
    (symbol,) = all_cases().symbols_of("residual_block")
    assert sum("+sum" in line for line in all_cases().plan(symbol)) >= 1


@needs_onednn
def test_views_cost_nothing() -> None:
    assert kinds_run("expand_and_squeeze") == ["exp"]
    assert kinds_run("matmul_transposed_inputs") == ["matmul"]
