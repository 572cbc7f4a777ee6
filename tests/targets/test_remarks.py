"""Options without an effect on this machine are reported, by reports and by the commands that build."""

import os
import subprocess
import sys

import pytest
from kits.backends.dnnl.dnnl_harness import needs_onednn
from kits.command_line.command_line_kit import called, small_model

import annotated_region as ar
from annotated_region.backends.dnnl import processor
from annotated_region.backends.openvino import precisions
from annotated_region.testing.graphs import SIX_OPS, module_of
from annotated_region.testing.registry import claim_ops, temporary_registrations

BF16 = {"dnnl": {"precision": "bf16"}}
SAID = "precision 'bf16' runs in float32 here, because this processor has no instructions for products of"


@pytest.fixture
def without_bfloat16(monkeypatch):
    monkeypatch.setattr(processor, "multiplies_bfloat16", lambda: False)


@pytest.fixture
def with_bfloat16(monkeypatch):
    monkeypatch.setattr(processor, "multiplies_bfloat16", lambda: True)


@needs_onednn
@pytest.mark.usefixtures("without_bfloat16")
def test_a_report_says_that_bfloat16_runs_in_float32():
    report = ar.explain(module_of(SIX_OPS), ["dnnl"], options=BF16)
    ((remark,),) = report.remarks.values()
    assert remark.startswith(SAID)
    assert str(report).endswith(f"\ndnnl: {remark}")
    assert ar.Report.from_json(report.to_json()) == report
    assert not ar.explain(module_of(SIX_OPS), ["dnnl"], options={"dnnl": {"precision": "fp32"}}).remarks
    assert not ar.explain(module_of(SIX_OPS), ["onnxruntime"], options=BF16).remarks


@needs_onednn
@pytest.mark.usefixtures("without_bfloat16")
def test_packed_activations_of_bfloat16_are_remarked_on_like_the_precision(monkeypatch):
    monkeypatch.setattr(processor, "multiplies_bfloat16_faster", lambda: False)
    options = {"dnnl": {"packed_activations": "bfloat16"}}
    ((remark,),) = ar.explain(module_of(SIX_OPS), ["dnnl"], options=options).remarks.values()
    assert remark.startswith(
        "packed activations 'bfloat16' run in float32 here, because this processor has no"
    )
    both = {"dnnl": {**options["dnnl"], **BF16["dnnl"]}}
    assert ar.explain(module_of(SIX_OPS), ["dnnl"], options=both).remarks["dnnl"][0].startswith(SAID)
    assert len(ar.explain(module_of(SIX_OPS), ["dnnl"], options=both).remarks["dnnl"]) == 2
    monkeypatch.setattr(processor, "multiplies_bfloat16", lambda: True)
    ((remark,),) = ar.explain(module_of(SIX_OPS), ["dnnl"], options=both).remarks.values()
    assert remark.startswith(
        "packed activations 'bfloat16' run in float32 here, because this processor's products"
    )
    eight = {"dnnl": {"packed_activations": "int8"}}
    assert not ar.explain(module_of(SIX_OPS), ["dnnl"], options=eight).remarks


@needs_onednn
@pytest.mark.usefixtures("with_bfloat16")
def test_a_report_says_nothing_where_the_processor_has_bfloat16():
    report = ar.explain(module_of(SIX_OPS), ["dnnl"], options=BF16)
    assert not report.remarks
    assert "remarks" not in report.to_dict()


@needs_onednn
@pytest.mark.usefixtures("without_bfloat16")
def test_commands_say_it_where_they_say_what_they_do(tmp_path):
    model = small_model(tmp_path)
    words = ("--targets", "dnnl", "--option", "dnnl.precision=bf16")
    assert f"dnnl: {SAID}" in called("explain", model, *words, "--no-advice").stdout
    for command in ("partition", "check", "bench"):
        finished = called(command, model, *words)
        assert finished.returncode == 0, finished.stderr
        assert f"note: target 'dnnl': {SAID}" in finished.stderr


@needs_onednn
def test_options_that_a_code_generator_does_not_know_are_refused():
    with pytest.raises(ar.CodegenError, match="does not know the precision 'bf17'"):
        ar.explain(module_of(SIX_OPS), ["dnnl"], options={"dnnl": {"precision": "bf17"}})
    with pytest.raises(ar.UnknownTargetError, match="unknown target 'dnll'"):
        ar.explain(module_of(SIX_OPS), ["dnnl"], options={"dnll": {"precision": "bf16"}})


PLAN = """
import sys
import numpy as np, tvm
from tvm import relax
import annotated_region as ar
from annotated_region.backends.dnnl import processor

x = relax.Var("x", relax.TensorType((4, 64), "float32"))
builder = relax.BlockBuilder()
with builder.function("main", [x]):
    with builder.dataflow():
        result = builder.emit_output(relax.op.matmul(x, relax.const(np.ones((64, 64), "float32"))))
    builder.emit_func_output(result)
cut = ar.partition(builder.get(), ["dnnl"])
(symbol,) = [name.name_hint for name in cut.get_global_vars() if name.name_hint != "main"]
machine = relax.VirtualMachine(ar.build(cut, options={"dnnl": {"precision": "bf16"}}), tvm.cpu())
machine["main"](tvm.runtime.tensor(np.ones((4, 64), "float32")))
plan = machine.module.get_function(f"{symbol}__plan", query_imports=True)().splitlines()[0]
print(processor.multiplies_bfloat16(), plan.partition(":")[0])
"""


@needs_onednn
@pytest.mark.parametrize("isa", ["AVX2", "AVX512_CORE", "DEFAULT"])
def test_what_is_said_of_the_processor_is_what_runs(isa):
    """The plan of a region, which the runtime writes when it runs, says the same."""
    finished = subprocess.run(
        [sys.executable, "-c", PLAN],
        env={**os.environ, "ONEDNN_MAX_CPU_ISA": isa},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.split() in (["True", "bfloat16"], ["False", "float32"])
    assert isa == "DEFAULT" or finished.stdout.startswith("False")


def test_openvino_says_which_precision_a_device_does_not_have(monkeypatch):
    assert "FP32" in precisions.capabilities_of("CPU")
    monkeypatch.setattr(precisions, "capabilities_of", lambda _device: ("FP32", "INT8"))
    options = {"openvino": {"precision": "bf16"}}
    ((remark,),) = ar.explain(module_of(SIX_OPS), ["openvino"], options=options).remarks.values()
    assert remark.startswith("precision 'bf16' runs in float32 here, because OpenVINO does not list BF16")


def test_any_backend_may_say_something():
    with temporary_registrations():
        claim_ops("mine", "relax.nn.relu")
        ar.register_backend("mine", remarks=lambda options: [f"{len(options)} options are not heard"])
        assert ar.explain(module_of(SIX_OPS), ["mine"]).remarks == {}
        report = ar.explain(module_of(SIX_OPS), ["mine"], options={"mine": {"speed": 1}})
        assert report.remarks == {"mine": ("1 options are not heard",)}
