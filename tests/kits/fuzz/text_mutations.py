"""Mutates text: TVMScript with attacks thrown in, JSON with its words and numbers exchanged."""

from __future__ import annotations

import re
from random import Random

__all__ = ["CANARY", "SCRIPTS", "mutated_text"]

CANARY = "annotated_region.tests.canary_of_fuzzing"
_TOKENS = re.compile(r"\w+|\s+|[^\w\s]")
_NUMBERS = (
    "0",
    "-1",
    "1",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "10" * 40,
    "1e999",
    "nan",
)
_PIECES = (
    *"\x00\x07\x0b\x0c\r\x1c\x1d\x1e\x85\u2028\u2029\ufeff\u202e\\'\"#;*@{}()[]\n\t",
    *(
        '"""',
        ":=",
        "**",
        "lambda: ",
        "    ",
        ".__class__",
        ".__globals__",
        "__import__",
        "eval",
        "R.",
        "I.",
        "T.",
    ),
    *("cls.", "Module.", "tvm.", "R.print", "R.emit_te", "I.pyfunc", "T.prim_func", "R.macro", "R.rewriter"),
    *("derive_func=", "metadata", "true", "null"),
)
SCRIPTS = (
    """
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T
from typing import TypeVar
n = TypeVar("n")

@I.ir_module
class Module:
    I.module_attrs({"runtime": "any"})
    @R.function(private=True)
    def twice(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
        return R.add(x, x)

    @R.function
    def main(x: R.Tensor((n, 4), "float32"), s: R.Shape(["n"])) -> R.Tensor(("n * 4",), "float32"):
        R.func_attr({"num_input": 1})
        cls = Module
        with R.dataflow():
            lv: R.Tensor((n, 4), "float32") = cls.twice(x)
            lv1 = R.annotation.compiler_begin(lv, compiler="dnnl")
            lv2 = R.nn.softmax(lv1, axis=-1)
            lv3 = R.annotation.compiler_end(lv2, compiler="dnnl")
            gv = R.reshape(lv3, R.shape([n * 4]))
            R.output(gv)
        return gv
""",
    """
@R.function
def main(
    c: R.Tensor((), "bool"), x: R.Tensor((2, 3, 8, 8), "float32"), w: R.Tensor((3, 3, 3, 3), "float32")
) -> R.Object:
    if c:
        y = R.nn.conv2d(x, w, padding=[1, 1, 1, 1], data_layout="NCHW")
        z = R.add(y, R.const(1.5, "float32"))
    else:
        z = R.strided_slice(x, axes=[0], begin=[0], end=[T.int64(9)], strides=[1])
    t = (z, (z, R.prim_value(T.int64(1))))
    u = R.split(z, indices_or_sections=2, axis=3)
    return u[0]
""",
    f"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = R.call_pure_packed("{CANARY}", x, ty_args=[R.Tensor((4,), "float32")])
        f = R.ExternFunc("rpc.CreatePipeClient")
        z = R.nn.relu(x)
        return z
""",
)


def _kind(token: str) -> str:
    return "9" if token.isdecimal() else "a" if token.isidentifier() else " " if token.isspace() else "+"


def mutated_text(text: str, attack: str, random: Random) -> str:
    """The text with a few tokens exchanged, lost, doubled, or replaced by something unkind."""
    tokens = _TOKENS.findall(text)
    lines = text.split("\n")
    for _ in range(random.randint(1, 3)):
        place = random.randrange(len(tokens))
        match random.randrange(12):
            case 0:
                tokens[place] = random.choice(tokens)
            case 1:
                del tokens[place : place + random.randint(1, 3)]
            case 2:
                tokens[place:place] = tokens[place : place + random.randint(1, 8)]
            case 3:
                tokens.insert(place, random.choice(_PIECES))
            case 4:
                tokens[place] = random.choice((attack, repr(attack), f"#\u2028n = {attack}\n", f"({attack})"))
            case 5:
                tokens[place] = random.choice(_NUMBERS)
            case 6:
                tokens.insert(place, "\n" + random.choice(lines) + "\n")
            case 7:
                tokens[place] = chr(random.choice((random.randrange(0x20), random.randrange(0x80, 0x3000))))
            case _:
                # Something of the same kind: a number, a name, white space, a sign.
                alike = [token for token in tokens if _kind(token) == _kind(tokens[place])]
                tokens[place] = random.choice(alike)
    return "".join(tokens) or "\n"
