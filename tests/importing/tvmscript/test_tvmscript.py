"""Untrusted TVMScript: modules are read as TVM prints them, and no code in them runs."""

import ast

import hypothesis.strategies as st
import pytest
import tvm
import tvm_ffi
from hypothesis import given
from tvm.script.parser.core import doc as tvm_parser

from annotated_region.errors import ModelError
from annotated_region.importing.tvmscript.reader import module_from_tvmscript
from annotated_region.importing.tvmscript.words import RELAX_WORDS
from annotated_region.testing.graphs import SIX_OPS, TWO_RESOLUTIONS, module_of

BODY = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor({shape}, "float32"){params}) -> R.Tensor({shape}, "float32"):
        {statement}
        return x
"""
EVIL = "__import__('pathlib').Path({path!r}).touch()"


def script(statement="pass", shape="(2, 3)", params=""):
    return BODY.format(statement=statement, shape=shape, params=params)


@pytest.mark.parametrize("graph", [SIX_OPS, TWO_RESOLUTIONS], ids=["six ops", "two resolutions"])
def test_what_tvm_prints_is_read_back(graph):
    mod = module_of(graph)
    assert tvm_ffi.structural_equal(module_from_tvmscript(mod.script(), "m.py"), mod)


FORMS = {
    "branches": """
@R.function
def main(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
    if c:
        y = R.tanh(x)
    else:
        y = R.add(x, R.const(1.5, "float32"))
    return y
""",
    "symbolic shapes": """
n = TypeVar("n")
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((n, 4), "float32")) -> R.Tensor(("n * 2", 2), "float32"):
        with R.dataflow():
            y: R.Tensor((n * 2, 2), "float32") = R.reshape(x, R.shape([n * 2, 2]))
            R.output(y)
        return y
""",
    "annotations, tuples, calls": """
@I.ir_module
class Module:
    @R.function(private=True)
    def twice(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return R.add(x, x)

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((2,), "float32"):
        cls = Module
        a = R.annotation.compiler_begin(x, compiler="dnnl")
        b = cls.twice(a)
        c = R.split(b, indices_or_sections=2, axis=0)
        return c[0]
""",
}


@pytest.mark.parametrize("form", FORMS)
def test_a_form_is_read_as_tvm_reads_it(form):
    assert tvm_ffi.structural_equal(
        module_from_tvmscript(FORMS[form], "m.py"), _as_module(tvm.script.from_source(FORMS[form]))
    )


def _as_module(parsed):
    if isinstance(parsed, tvm.IRModule):
        return parsed
    return tvm.IRModule({"main": parsed.with_attr("global_symbol", "main")})


ATTACKS = {
    "call in a statement": script,
    "call in a type": lambda evil: script(shape=f"({evil},)"),
    "text in a shape": lambda evil: script(shape=f"({evil!r},)"),
    "text as an annotation": lambda evil: script(params=f", y: {evil!r}"),
    "decorator": lambda evil: f"@{evil}\nclass Module:\n    pass\n",
    "decorator of a function": lambda evil: (
        f"@R.function({evil})\ndef main(x: R.Tensor((2,), 'float32')):\n    return x\n"
    ),
    "base class": lambda evil: f"@I.ir_module\nclass Module({evil}):\n    pass\n",
    "default value": lambda evil: script(params=f", y: R.Object = {evil}"),
    "statement of the file": lambda evil: evil + script(),
    "assignment of the file": lambda evil: f"n = {evil}\n" + script(),
    "lambda": lambda evil: script(f"y = (lambda: {evil})()"),
    "comprehension": lambda evil: script(f"y = [{evil} for _ in (1,)]"),
    "formatted text": lambda evil: script(f'y = f"{{{evil}}}"'),
    "walrus": lambda evil: script(f"(y := {evil})"),
    "modules behind R": lambda _: script("y = R.entry.inspect.os.getcwd()"),
    "modules behind I": lambda _: script("y = I.entry.tvm.get_global_func('x')"),
    "the class of a value": lambda _: script("y = x.__class__"),
    "the name I bound anew": lambda _: script("R = I"),
    "cls bound anew": lambda _: script("cls = R\n        y = cls.entry"),
    "the module's name bound anew": lambda _: script(
        "Module = R\n        cls = Module\n        y = cls.entry"
    ),
    "a name that Python knows": lambda _: script("y = open"),
    "a Python function to call": lambda _: script("y = R.emit_te(x, x)"),
    "a kernel": lambda _: "@T.prim_func\ndef main(a: T.handle):\n    pass\n",
    "a Python function in a module": lambda _: (
        "@I.ir_module\nclass M:\n    @I.pyfunc\n    def f(self):\n        pass\n"
    ),
    "an import of something else": lambda _: "import os\n" + script(),
    "an import beside something else": lambda evil: f"from typing import TypeVar; {evil}\n" + script(),
    "a number without end": lambda _: script("y = R.const(9 ** 9 ** 9)"),
    "text without end": lambda _: script("y = 'a' * 999999999999"),
}


ATTACKS |= {
    "a module called": lambda _: script("y = I.ir_module(R.ShapeExpr)"),
    "a function made anew": lambda _: script("y = R.function(x)"),
    "a function that infers a type": lambda _: script("pass", params=", f: R.Callable(derive_func='rpc.x')"),
    "keywords of a dictionary": lambda _: script("y = R.Callable(**{'derive_func': 'rpc.x'})"),
    "an attribute assigned": lambda _: script("cls = Module\n        cls.main = x"),
    "an index assigned": lambda _: script("x[0] = x"),
    "two decorators": lambda evil: script().replace("    @R.function", f"    @{evil}\n    @R.function"),
    "an option of a decorator": lambda evil: script().replace("@R.function", f"@R.function(pure={evil})"),
    "a name with underscores": lambda _: script("__builtins__ = x"),
    "dunders in text": lambda _: script(shape='("x.__class__",)'),
    "a default behind a star": lambda evil: script(params=f", *, y: R.Object = {evil}"),
    "an assignment to a module": lambda evil: script().replace(
        "    @R.function", "    y = I\n    @R.function"
    ),
    "a statement behind the imports": lambda evil: f"from tvm.script import ir as I; {evil}\n" + script(),
    "a continued import": lambda evil: f"from tvm.script import ir as I, \\\n  relax\n{evil}\n" + script(),
    "a with of something else": lambda _: script("with R.output(x):\n            pass"),
    "print, which formats": lambda _: script("y = R.print(x, format='x')"),
    "bytes": lambda _: script("y = b'x'"),
    "a number of 70 bits": lambda _: script("y = R.const(1180591620717411303424)"),
}

# What `str.splitlines` takes for the end of a line and Python does not, and characters that print as nothing.
UNSEEN = [
    "\x00",
    "\x07",
    "\x0b",
    "\x0c",
    "\x1b",
    "\x1c",
    "\x1d",
    "\x1e",
    "\x85",
    "\u2028",
    "\u2029",
    "\ufeff",
    "\u202e",
]


@pytest.mark.parametrize("character", [*UNSEEN, "\r"], ids=ascii)
@pytest.mark.parametrize("place", ["#{}n = {}\n", "# {} {}\n", "n = 'a{}' + {}\n", "{}{}\n"])
def test_lines_end_where_python_ends_them(character, place, tmp_path):
    """The guard once split lines as `str.splitlines` does, and took the second half for part of a comment."""
    trace = tmp_path / "was_here"
    text = place.format(character, EVIL.format(path=str(trace))) + script()
    with pytest.raises(
        ModelError, match=r"m\.py is not read: line 1 holds the character U\+00|U\+20|U\+FEFF"
    ):
        module_from_tvmscript(text, "m.py")
    assert not trace.exists()


def test_lines_may_end_as_on_other_systems():
    text = FORMS["branches"].replace("\n", "\r\n")
    expected = module_from_tvmscript(FORMS["branches"], "m.py")
    assert tvm_ffi.structural_equal(module_from_tvmscript(text, "m.py"), expected)


def test_tvm_gets_the_text_that_was_checked(monkeypatch):
    """One text, one grammar: the tree that TVM makes of what it gets is the tree that was checked."""
    given = []

    def from_source(text, **_):
        given.append(text)
        return tvm.IRModule()

    monkeypatch.setattr(tvm.script, "from_source", from_source)
    source = "from tvm.script import ir as I  # as TVM prints it\n" + FORMS["symbolic shapes"]
    module_from_tvmscript(source, "m.py")
    checked = tvm_parser.parse(given[0])
    original = tvm_parser.parse(FORMS["symbolic shapes"])
    assert ast.dump(tvm_parser.from_doc(checked)) == ast.dump(tvm_parser.from_doc(original))


@pytest.mark.parametrize("word", sorted(RELAX_WORDS))
def test_each_word_is_one_that_tvm_has(word):
    found = tvm.script.relax
    for name in word.split("."):
        found = getattr(found, name)
    assert callable(found)


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_runs(attack, tmp_path):
    trace = tmp_path / "was_here"
    text = ATTACKS[attack](EVIL.format(path=str(trace)))
    with pytest.raises(ModelError, match=r"m\.py is not read, because TVM would execute code"):
        module_from_tvmscript(text, "m.py")
    assert not trace.exists()


def test_tvm_itself_would_run_it(tmp_path):
    """The attacks above attack: without the guard this one succeeds."""
    trace = tmp_path / "was_here"
    text = ATTACKS["call in a statement"](EVIL.format(path=str(trace)))
    tvm.script.from_source(text)
    assert trace.exists()


def test_the_message_names_the_line_and_the_way_out():
    with pytest.raises(ModelError, match=r"line 6: the file does not define 'open'.*from_source"):
        module_from_tvmscript(script("y = open"), "m.py")


@pytest.mark.parametrize("text", ["", "# notes\n", '"""Notes."""\n', "pass\n"])
def test_a_text_without_functions_is_said_to_have_none(text):
    with pytest.raises(ModelError, match=r"m\.py has neither a module \(@I\.ir_module\) nor a function"):
        module_from_tvmscript(text, "m.py")


def test_what_stands_outside_of_functions_has_an_article():
    with pytest.raises(ModelError, match=r"code in it: an Expr is outside of modules and functions"):
        module_from_tvmscript("garbage\n", "m.py")


def test_what_is_harmless_and_wrong_is_said_by_tvm():
    with pytest.raises(ModelError, match=r"m\.py is not TVMScript that TVM can parse"):
        module_from_tvmscript(script("y = R.add(x)"), "m.py")


@given(st.text(max_size=60))
def test_any_text_is_refused_with_a_sentence(text):
    with pytest.raises(ModelError, match=r"m\.py"):
        module_from_tvmscript(text, "m.py")
