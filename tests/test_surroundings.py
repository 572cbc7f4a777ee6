"""Surroundings in which TVM crashes are refused before anything is folded, measured or built."""

import pytest
import tvm
from tvm import relax

import annotated_region as ar
from annotated_region.surroundings import require_sane_threads

MODULE = tvm.IRModule(
    {
        "main": relax.Function([], relax.const(1.0), relax.TensorType((), "float32")).with_attr(
            "global_symbol", "main"
        )
    }
)


@pytest.mark.parametrize("name", ["TVM_NUM_THREADS", "OMP_NUM_THREADS"])
@pytest.mark.parametrize(
    "work",
    [lambda: ar.partition(MODULE, ["dnnl"]), lambda: ar.explain(MODULE, ["dnnl"]), lambda: ar.build(MODULE)],
    ids=["partition", "explain", "build"],
)
def test_threads_that_no_machine_has(name, work, monkeypatch):
    monkeypatch.setenv(name, "99999")
    with pytest.raises(
        ar.BackendUnavailableError, match=f"{name} asks for 99999 threads; set it to 1024 at most"
    ):
        work()


@pytest.mark.parametrize("number", ["", "1", "64", "1024", "all", "-1"])
def test_other_numbers_are_left_to_tvm(number):
    require_sane_threads({"TVM_NUM_THREADS": number})
