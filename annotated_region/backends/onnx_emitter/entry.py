"""The C++ entry of regions that are ONNX models, which an exported library contains.

A region becomes a function in TVM's calling convention and a model without its weights. The weights are
constants of TVM, and TVM's loader passes them before the first call. At that call the entry asks the
global function ``annotated_region.<target>.open``, which the backend registers from Python, for a runner:

    open(description: str, model: bytes, weights: Array[Tensor]) -> Function(*inputs, *outputs)

In processes without that function, the target's runtime in C++ creates the runner (`native_runtime.py`), if
there is one for the options of the module.

The runner lives until ``<symbol>__release()`` is called (see `LinkedExecutable.release`), or as long as the
process, like the libraries that TVM loads. A library that is unloaded without that call does not free its
runner: the engine would wait for its threads, and threads cannot be joined inside ``dlclose``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import MappingProxyType

import tvm
import tvm_ffi

from annotated_region.backends.onnx_emitter.model import EmittedModel
from annotated_region.backends.onnx_emitter.native_runtime import NativeModel, NativeRuntime, unit_text
from annotated_region.errors import CodegenError
from annotated_region.tvm_adapter.modules import cpp_module

__all__ = ["Description", "entry_modules", "entry_text", "register_runtime"]


@dataclass(frozen=True, slots=True)
class Description:
    """What a runtime needs besides the model of a region.

    Attributes
    ----------
    symbol
        The name of the function.
    inputs, outputs
        The names of the model's inputs and outputs, in the order of the arguments.
    weights
        The names of the weights, in the order in which the runtime receives them.
    options
        The options of the code generator, for the runtime.
    """

    symbol: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: tuple[str, ...]
    options: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def of(cls, model: EmittedModel, options: Mapping[str, object]) -> Description:
        """The description of an emitted model."""
        inputs, outputs = (tuple(port.name for port in ports) for ports in (model.inputs, model.outputs))
        return cls(model.symbol, inputs, outputs, model.weights, options)

    def to_json(self) -> str:
        """The description as text, which is deterministic."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Description:
        """The inverse of `to_json`."""
        parts = json.loads(text)
        names = {key: tuple(parts[key]) for key in ("inputs", "outputs", "weights")}
        return cls(symbol=parts["symbol"], options=parts["options"], **names)


_REGION = """
static const char description_of_{symbol}[] =
    {description};
static const char* const inputs_of_{symbol}[] = {{{inputs}}};
static const char* const outputs_of_{symbol}[] = {{{outputs}}};
static const char* const weights_of_{symbol}[] = {{{weights}}};
static const unsigned char model_of_{symbol}[] = {{
{model}
}};
{parts}static Region region_of_{symbol} = {{
    {{"{symbol}", model_of_{symbol}, sizeof(model_of_{symbol}), inputs_of_{symbol}, outputs_of_{symbol},
     weights_of_{symbol}, settings, {native}}},
    description_of_{symbol}, sizeof(description_of_{symbol}) - 1, nullptr, nullptr, false}};
ANNOTATED_REGION_EXPORT({symbol})
"""


_NATIVE = """static const unsigned char native_of_{symbol}[] = {{
{text}
}};
{literals}static const annotated_region_native::ModelPart parts_of_{symbol}[] = {{
{parts}
}};
"""


def entry_text(
    target: str,
    models: Sequence[EmittedModel],
    options: Mapping[str, object],
    native: NativeRuntime | None = None,
    settings: Mapping[str, str] = MappingProxyType({}),
    forms: Mapping[str, NativeModel] = MappingProxyType({}),
) -> str:
    """The translation unit of all regions of a module; parameters are those of `entry_modules`."""
    pairs = [text for pair in settings.items() for text in pair]
    parts = [
        f"// Regions whose models are run by the runtime of target {target}.\n",
        unit_text(target, native),
        f"\nstatic const char* const settings[] = {{{_names(pairs)}}};\n",
    ]
    for model in models:
        if not (model.symbol.isidentifier() and model.symbol.isascii()):
            raise CodegenError(
                f"target {target!r}: the function name {model.symbol!r} is not a C identifier; rename it"
            )
        description = Description.of(model, options)
        form = forms.get(model.symbol)
        parts.append(
            _REGION.format(
                symbol=model.symbol,
                parts="" if form is None else _native_text(model.symbol, form),
                native="{}" if form is None else _native_entry(model.symbol, form),
                description=_literal(description.to_json()),
                inputs=_names(description.inputs),
                outputs=_names(description.outputs),
                weights=_names(description.weights),
                model=_bytes(model.skeleton().SerializeToString(deterministic=True)),
            )
        )
    return "".join(parts)


def _native_text(symbol: str, form: NativeModel) -> str:
    """The declarations of a native model."""
    literals, rows = [], []
    for number, part in enumerate(form.parts):
        name, weight = "nullptr", part.weight
        if weight is None:
            name, weight = f"literal_{number}_of_{symbol}", -1
            literals.append(f"static const unsigned char {name}[] = {{{_bytes(bytes(part.data))}}};\n")
        rows.append(f"    {{{part.offset}, {part.size}, {weight}, {name}}},")
    rows = rows or ["    {0, 0, -1, nullptr},"]  # a C++ array needs an element
    return _NATIVE.format(
        symbol=symbol, text=_bytes(form.text), literals="".join(literals), parts="\n".join(rows)
    )


def _native_entry(symbol: str, form: NativeModel) -> str:
    text, parts = f"native_of_{symbol}", f"parts_of_{symbol}"
    return f"{{{text}, sizeof({text}), {parts}, {len(form.parts)}, {form.size}}}"


def _names(texts: Iterable[str]) -> str:
    """The initializer of a null-terminated array of C strings."""
    return ", ".join([*map(_literal, texts), "nullptr"])


def _literal(text: str) -> str:
    """A C++ string literal, over lines of at most 96 characters."""
    characters = [_escaped(byte) for byte in text.encode()]
    lines = ["".join(characters[start : start + 96]) for start in range(0, len(characters), 96)]
    return "\n    ".join(f'"{line}"' for line in lines or [""])


def _escaped(byte: int) -> str:
    """A character of a literal; `?` could start a trigraph, and octal escapes always have three digits."""
    return chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"


def _bytes(data: bytes) -> str:
    return ",\n".join(",".join(map(str, data[start : start + 32])) for start in range(0, len(data), 32))


def entry_modules(
    target: str,
    models: Sequence[EmittedModel],
    options: Mapping[str, object],
    native: NativeRuntime | None = None,
    settings: Mapping[str, str] = MappingProxyType({}),
    forms: Mapping[str, NativeModel] = MappingProxyType({}),
) -> list[tvm.runtime.Module]:
    """The modules of a code generator: one per function, with all the code in the first one.

    TVM passes constants only to the first function of a module, so each function has its own module.

    Parameters
    ----------
    target
        The name of the target.
    models
        Its regions.
    options
        The options of the code generator, for the Python runtime.
    native
        The runtime for processes without Python, if there is one.
    settings
        The same options for that runtime.
    forms
        Models in the format that it reads instead of ONNX, by the name of the region.
    """
    texts = [entry_text(target, models, options, native, settings, forms)]
    texts += ["// The code of this function is in the first unit of the module.\n"] * (len(models) - 1)
    return [
        cpp_module(text, [model.symbol], list(model.weights))
        for text, model in zip(texts, models, strict=True)
    ]


Opener = Callable[[Description, bytes, Sequence[tvm.runtime.Tensor]], Callable[..., None]]


def register_runtime(target: str, opener: Opener) -> None:
    """Register the Python runtime, which the entries of a target look up.

    Parameters
    ----------
    target
        The name of the target.
    opener
        Creates the runner of a region from a description, a model without weights, and the weights. A runner
        is called with the inputs and then the outputs, which it writes.
    """

    def open_region(description: bytes, model: bytes, weights: Sequence[tvm.runtime.Tensor] | None) -> object:
        return tvm_ffi.convert(
            opener(Description.from_json(bytes(description).decode()), bytes(model), weights or ())
        )

    tvm_ffi.register_global_func(f"annotated_region.{target}.open", open_region, override=True)
