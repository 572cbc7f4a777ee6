"""Models with the extents of everyday networks: on dnnl, by no reference code, and of bytes on openvino."""

from __future__ import annotations

import pytest
from everyday_shapes_campaign import checked
from kits.backends.dnnl.dnnl_harness import needs_onednn
from kits.backends.openvino_kit import needs_openvino
from kits.importing.node_checks import Kind, Outcome


# From 600 on: what follows a convolution, or fills a part of a block, was computed by reference code.
@needs_onednn
@pytest.mark.parametrize("seed", [*range(6), 656, 679, 772, 778, 5276])
def test_everyday_models(seed: int) -> None:
    assert checked(seed, "dnnl", "float32") == Outcome(Kind.RIGHT)


@needs_openvino
@pytest.mark.parametrize("seed", range(4))
def test_everyday_models_of_bytes(seed: int) -> None:
    assert checked(seed, "openvino", "bytes") == Outcome(Kind.RIGHT)
