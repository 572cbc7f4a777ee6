"""One noun, one meaning: no two classes of the package have the same name."""

import ast
import re
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "annotated_region"

# A region's graph inside a backend; neither class leaves its room.
EXCEPTIONS = {"Graph": ["backends/dnnl/graph.py", "backends/onnx_emitter/graph.py"]}

# Models and graphs for tests: networks are written in more than one framework, with the same parts.
MODELS = PACKAGE / "testing"


def classes_of(path):
    return [node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)]


@cache
def places_of_names():
    found = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        if not path.is_relative_to(MODELS):
            for name in classes_of(path):
                found[name].append(str(path.relative_to(PACKAGE)))
    return found


def test_the_scan_finds_classes():
    assert places_of_names()["AnnotatedRegionSet"] == ["regions/region_set.py"]


def test_no_two_classes_have_one_name():
    shared = {name: places for name, places in places_of_names().items() if len(places) > 1}
    assert shared == EXCEPTIONS


def vocabulary():
    """The rows of the table in the design: words, meaning, classes."""
    text = (ROOT / "docs" / "design.md").read_text().partition("## Vocabulary")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def test_every_word_of_the_vocabulary_stands_in_it_once():
    words = Counter(word for row in vocabulary() for word in row[0].split(", "))
    assert len(words) > 30
    assert not {word for word, count in words.items() if count > 1}


def test_every_class_of_the_vocabulary_exists():
    named = {name for row in vocabulary() for name in re.findall(r"`(\w+)`", row[2])}
    assert named <= set(places_of_names())
