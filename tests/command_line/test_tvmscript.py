"""TVMScript files of strangers: modules are read as TVM prints them, and nothing in them runs."""

import hypothesis.strategies as st
import pytest
import tvm
import tvm_ffi
from hypothesis import given

from annotated_region.command_line.tvmscript import module_from_tvmscript
from annotated_region.errors import ModelError
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


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_runs(attack, tmp_path):
    trace = tmp_path / "was_here"
    text = ATTACKS[attack](EVIL.format(path=str(trace)))
    with pytest.raises(ModelError, match=r"m\.py is not read, because TVM would run"):
        module_from_tvmscript(text, "m.py")
    assert not trace.exists()


def test_tvm_itself_would_run_it(tmp_path):
    """The attacks above attack: without the guard this one succeeds."""
    trace = tmp_path / "was_here"
    text = ATTACKS["call in a statement"](EVIL.format(path=str(trace)))
    tvm.script.from_source(text)
    assert trace.exists()


def test_the_message_names_the_line_and_the_way_out():
    with pytest.raises(ModelError, match=r"line 6: the file does not say what 'open' is.*from_source"):
        module_from_tvmscript(script("y = open"), "m.py")


def test_what_is_harmless_and_wrong_is_said_by_tvm():
    with pytest.raises(ModelError, match=r"m\.py is no TVMScript that TVM can read"):
        module_from_tvmscript(script("y = R.add(x)"), "m.py")


@given(st.text(max_size=60))
def test_any_text_is_refused_with_a_sentence(text):
    with pytest.raises(ModelError, match=r"m\.py"):
        module_from_tvmscript(text, "m.py")
