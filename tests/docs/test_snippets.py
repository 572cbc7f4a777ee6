"""Every Python snippet of the documentation runs, document by document, each in one namespace."""

from __future__ import annotations

import re
import textwrap
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
import tvm
from sybil import Example, Sybil
from sybil.parsers.markdown import PythonCodeBlockParser
from tvm import relax

import annotated_region as ar
from annotated_region.command_line.models import read_model
from annotated_region.testing.registry import temporary_registrations

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("docs/*.md"), ROOT / "README.md", *ROOT.glob("annotated_region/**/README.md")])
MODEL = """
<ir_version: 8, opset_import: ["" : 13]>
small (float[1,3,8,8] x) => (float[1,3,8,8] y) { r = Relu(x) y = Add(r, x) }
"""
SYBIL = Sybil(parsers=[PythonCodeBlockParser()], path=str(ROOT))


def given(folder: Path) -> dict[str, object]:
    """What documents that leave out the beginning take for granted: a model, as a file and as a module."""
    onnx.save(onnx.parser.parse_model(MODEL), folder / "model.onnx")
    mod = read_model(str(folder / "model.onnx"))
    lowered = relax.transform.LegalizeOps()(mod)
    prim_funcs = [func for _name, func in lowered.functions_items() if isinstance(func, tvm.tirx.PrimFunc)]
    return {
        "ar": ar,
        "mod": mod,
        "image": np.ones((1, 3, 8, 8), "float32"),
        "prim_func": prim_funcs[0],
        "folder": folder,
        "load": lambda path: read_model(str(path)),
        "target": tvm.target.Target({"kind": "llvm", "num-cores": 1}),
    }


WITH_SNIPPETS = [path for path in DOCUMENTS if "```python" in path.read_text()]


@pytest.mark.parametrize("path", WITH_SNIPPETS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_snippets_of_a_document_run(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    document = SYBIL.parse(path)
    document.namespace.update(given(tmp_path))
    examples = list(document.examples())
    assert len(examples) >= path.read_text().count("```python")
    with temporary_registrations():
        for example in (each for each in examples if not needs_torch(each)):
            example.evaluate()
            printed = capsys.readouterr().out
            for line in promised(document.text[example.end :]):
                assert line in printed.splitlines(), f"line {example.line} promises another output"


def needs_torch(example: Example) -> bool:
    """Whether PyTorch has to be installed, as in `test_the_snippets_that_need_pytorch_run`."""
    return "import torch\n" in str(example.parsed)


WITH_TORCH = [path for path in WITH_SNIPPETS if any(map(needs_torch, SYBIL.parse(path).examples()))]


@pytest.mark.parametrize("path", WITH_TORCH, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_snippets_that_need_pytorch_run(with_torch, path):
    document = SYBIL.parse(path)
    with temporary_registrations(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PyTorch's own use of what it deprecates
        for example in filter(needs_torch, document.examples()):
            example.evaluate()


def promised(rest: str) -> list[str]:
    """The output that a document shows behind a snippet: lines that are indented by four."""
    shown = re.match(r"\n*((?: {4}.*\n)+)", rest)
    return textwrap.dedent(shown[1]).splitlines() if shown else []


def test_there_are_documents():
    names = {path.name for path in WITH_SNIPPETS}
    assert {"README.md", "tutorial-regions.md", "adding-a-backend.md"} <= names
    assert ROOT / "README.md" in WITH_TORCH
