"""Mistakes for the example backend, and what the conformance kit has to make of each.

A mistake replaces pieces of the backend's source. `ops` are the ops of the smallest graph that shows it,
where `ANY` stands for one of several; `line` is a piece of the line that the failure has to point to; `never`
is what never runs, where nothing else is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ANY", "MISTAKES", "Mistake"]

ANY = ""

_ADD, _MULTIPLY, _RELU = '"{0} + {1}"', '"{0} * {1}"', '"{0} > 0 ? {0} : 0"'
_LAST_OP = '    "relax.nn.relu": "{0} > 0 ? {0} : 0",\n'
_PATTERN = (
    '    ar.register_pattern(NAME, f"{NAME}.add_relu", is_op("relax.nn.relu")(add), check, {"add": add})\n'
)
_RULE, _CHECK, _REGISTERED = "def rule(", "add_relu", "register_pattern(NAME"


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake of an author."""

    name: str
    changes: tuple[tuple[str, str], ...]
    ops: tuple[str, ...] = ()
    line: str = _RULE
    never: str = ""


def _op(name: str, ops: tuple[str, ...], old: str, new: str) -> Mistake:
    return Mistake(name, ((old, new),), ops)


def _new_op(name: str, op: str, text: str) -> Mistake:
    """A rule for one more op, which is computed wrongly."""
    return Mistake(name, ((_LAST_OP, f'{_LAST_OP}    "relax.{op}": "{text}",\n'),), (op,))


def _new_pattern(name: str, ops: tuple[str, ...], text: str, *, inner: str = "add") -> Mistake:
    """A pattern of two ops whose last one has no rule of its own."""
    last = ops[-1]
    registered = (
        f'    inner = is_op("relax.{inner}")(wildcard(), wildcard())\n'
        f'    new = is_op("relax.{last}")(inner)\n'
        f'    ar.register_pattern(NAME, "my_backend.new", new, check, {{"add": inner}})\n'
    )
    table = f'{_LAST_OP}    "relax.{last}": "{text}",\n'
    rules = "    for op in OPS:\n", f'    for op in [op for op in OPS if op != "relax.{last}"]:\n'
    return Mistake(
        name, ((_LAST_OP, table), (_PATTERN, _PATTERN + registered), rules), ops, '"my_backend.new"'
    )


MISTAKES = (
    _op("add subtracts", ("add",), _ADD, '"{0} - {1}"'),
    _op("add is wrong at its first element", ("add",), _ADD, '"{0} + {1} + (i == 0)"'),
    _op("add is off by a hundredth", ("add",), _ADD, '"{0} + {1} + 1e-2f"'),
    _op("multiply squares", ("multiply",), _MULTIPLY, '"{0} * {0}"'),
    _op("multiply drops the fraction", ("multiply",), _MULTIPLY, '"(int)({0} * {1})"'),
    _op("multiply is zero at its first element", ("multiply",), _MULTIPLY, '"i == 0 ? 0 : {0} * {1}"'),
    _op("relu leaks", ("nn.relu",), _RELU, '"{0} > 0 ? {0} : 0.01f * {0}"'),
    _op("relu is the absolute value", ("nn.relu",), _RELU, '"{0} > 0 ? {0} : -{0}"'),
    _op("relu has another threshold", ("nn.relu",), _RELU, '"{0} > 0.5f ? {0} : 0"'),
    _new_op("subtract exchanges its operands", "subtract", "{1} - {0}"),
    _new_op("maximum is the minimum", "maximum", "{0} > {1} ? {1} : {0}"),
    _new_op("divide multiplies", "divide", "{0} * {1}"),
    _new_op("exp is three terms of its series", "exp", "1 + {0} + {0} * {0} / 2"),
    _new_op("sigmoid has the wrong sign", "sigmoid", "1 / (1 + std::exp({0}))"),
    _new_op("negative does nothing", "negative", "{0}"),
    _op("the rule takes every type", ("add",), "if any(str(ty.dtype)", "if False and any(str(ty.dtype)"),
    _op("the rule takes all shapes", (ANY,), "if any(ty.shape is None or", "if False and any("),
    Mistake(
        "the check of the pattern takes all",
        (("    views = (ar.OpView.of(call)", "    return True\n    views = (ar.OpView.of(call)"),),
        ("add", "nn.relu"),
        _REGISTERED,
    ),
    Mistake("the loop forgets the last element", (("i < {size};", "i < {size} - 1;"),), ("add",)),
    Mistake("the loop forgets the first element", (("int64_t i = 0;", "int64_t i = 1;"),), ("add",)),
    Mistake(
        "two results are exchanged",
        (("for i, var in enumerate(results)]", "for i, var in enumerate(results[::-1])]"),),
        (ANY, ANY),
    ),
    Mistake(
        "composites give their first op",
        (("names[composite.body.body]", "names[composite.body.blocks[0].bindings[0].var]"),),
        ("add", "nn.relu"),
        _REGISTERED,
    ),
    _new_pattern("a pattern is wrong at its first element", ("add", "nn.leakyrelu"), "{0} + (i == 0)"),
    _new_pattern("a pattern forgets its last op", ("multiply", "tanh"), "{0}", inner="multiply"),
    Mistake(
        "the generator does not know an op of a pattern",
        (
            (_PATTERN, _PATTERN + _PATTERN.replace("add_relu", "add_tanh").replace("nn.relu", "tanh")),
        ),
        ("add", "tanh"),
        "operation = OPS[callee.name]",
    ),
    Mistake(
        "the generator compiles nothing",
        (("    return [tvm.get_global_func", "    return []\n    return [tvm.get_global_func"),),
        ("add",),
    ),
    Mistake(
        "the generator does not know regions of two results",
        (("    size = prod(", "    if len(results) > 1:\n        raise ValueError\n    size = prod("),),
        (ANY, ANY),
        "raise ValueError",
    ),
    Mistake("a rule has a slip", (("shape = types[0].", "shape = types[9]."),), ("add",), "types[9]"),
    Mistake(
        "a pattern is declined every time",
        ((_PATTERN, _PATTERN + _PATTERN.replace("add_relu", "never").replace("check", "lambda _: 'no'")),),
        line='f"{NAME}.never"',
        never="pattern my_backend.never",
    ),
    Mistake(
        "a rule is for an op that the kit cannot make",
        ((_PATTERN, '    ar.register_rule(NAME, "relax.unique")(rule)\n' + _PATTERN),),
        never="the rule for relax.unique",
    ),
)  # fmt: skip
