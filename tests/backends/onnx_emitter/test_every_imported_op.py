"""Every op that TVM's importers emit is converted to ONNX, or declined with a specific reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import tvm
from tvm import relax

import annotated_region
from annotated_region.backends.onnx_emitter import converted_ops
from annotated_region.backends.onnx_emitter.conversions.absent import ABSENT

FRONTENDS = Path(relax.__file__).parent / "frontend"
EMITTER = Path(annotated_region.__file__).parent / "backends" / "onnx_emitter"
KNOWN = frozenset(map(str, tvm.ir.Op.list_op_names()))
# Claimed together with `shape_to_tensor`, because no region can return a bare shape.
PAIRED = {"relax.shape_of"}


def imported_ops(*files: Path) -> set[str]:
    """The ops whose names stand in the source of an importer; what is no op by itself is made of others."""
    text = "\n".join(file.read_text() for file in files)
    names = re.findall(r"relax\.op\.([a-z_0-9.]*[a-z_0-9])", text)
    return {f"relax.{name}" for name in names} & KNOWN


@pytest.mark.parametrize(
    ("pattern", "least"), [("onnx/onnx_frontend.py", 110), ("torch/*.py", 120)], ids=["onnx", "torch"]
)
def test_an_imported_op_is_converted_or_declined_with_its_reason(pattern, least):
    ops = imported_ops(*FRONTENDS.glob(pattern))
    assert len(ops) > least, "the importer names its ops otherwise"
    assert sorted(ops - set(converted_ops()) - PAIRED) == []


def test_the_readme_lists_what_is_not_converted():
    text = (EMITTER / "README.md").read_text()
    for name, reason in ABSENT.items():
        assert f"| `{name.removeprefix('relax.')}` | {reason} |" in text
