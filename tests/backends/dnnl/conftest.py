"""What the tests of the dnnl backend share: all cases compiled once."""

from __future__ import annotations

import pytest
import tvm
from tvm import relax

from annotated_region.backends.dnnl import library
from tests.backends.dnnl.cases import CASES, module_of
from tests.backends.dnnl.harness import Offloaded, offload


@pytest.fixture(scope="session")
def onednn() -> None:
    """Skips a test where oneDNN is not installed."""
    reason = library.unavailable()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def offloaded(onednn: None) -> Offloaded:
    """All cases on oneDNN."""
    return offload(module_of(CASES))


@pytest.fixture(scope="session")
def reference() -> relax.VirtualMachine:
    """All cases on TVM alone."""
    return relax.VirtualMachine(tvm.compile(module_of(CASES), "llvm"), tvm.cpu())
