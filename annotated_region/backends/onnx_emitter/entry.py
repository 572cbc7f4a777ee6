"""The C++ entry of regions that a Python runtime runs: what an exported library holds of them.

A region becomes a function of TVM's calling convention and a model without its weights; the weights are
constants of TVM, which its own loader hands over before the first call. At that call the entry asks the
global function ``annotated_region.<target>.open``, which the backend registers from Python, for a runner:

    open(description: str, model: bytes, weights: Array[Tensor]) -> Function(*inputs, *outputs)

The runner is kept as long as the process runs, as TVM keeps the libraries that it loads. It is not given
back when a library is unloaded after all: engines then wait for their threads, which cannot end within
``dlclose``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import tvm
import tvm_ffi

from annotated_region.backends.onnx_emitter.model import EmittedModel
from annotated_region.errors import CodegenError
from annotated_region.targets.backend import BuildOptions
from annotated_region.tvm_adapter.modules import cpp_module

__all__ = ["Description", "build_options", "entry_modules", "entry_text", "register_runtime"]


@dataclass(frozen=True, slots=True)
class Description:
    """What a runtime has to know of a region besides its model.

    Attributes
    ----------
    symbol
        The name of the function.
    inputs, outputs
        The names of the model's inputs and outputs, in the order of the arguments.
    weights
        The names of the weights, in the order in which they are handed over.
    options
        The options of the code generator, for the runtime to follow.
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
        """The description as text, the same in every process."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Description:
        """What `to_json` wrote."""
        parts = json.loads(text)
        names = {key: tuple(parts[key]) for key in ("inputs", "outputs", "weights")}
        return cls(symbol=parts["symbol"], options=parts["options"], **names)


_HEAD = """\
// Regions whose models are run by the runtime of target {target}.
#include <tvm/ffi/c_api.h>

namespace {{

struct Region {{
  const char* symbol;
  const char* description;
  uint64_t description_size;
  const unsigned char* model;
  uint64_t model_size;
  TVMFFIObjectHandle weights;
  TVMFFIObjectHandle runner;

  static TVMFFIObjectHandle global(const char* name, uint64_t size) {{
    const TVMFFIByteArray key = {{name, static_cast<size_t>(size)}};
    TVMFFIObjectHandle found = nullptr;
    return TVMFFIFunctionGetGlobal(&key, &found) == 0 ? found : nullptr;
  }}

  // Asks the runtime for a runner. Of two threads that do so at once, the first one's runner is kept.
  int open() {{
    static const char name[] = "annotated_region.{target}.open";
    TVMFFIObjectHandle opener = global(name, sizeof(name) - 1);
    if (opener == nullptr) {{
      const char* parts[] = {{symbol, " runs in a Python process only, after: "
                              "import annotated_region.backends.{target}"}};
      TVMFFIErrorSetRaisedFromCStrParts("RuntimeError", parts, 2);
      return -1;
    }}
    TVMFFIByteArray text = {{description, static_cast<size_t>(description_size)}};
    TVMFFIByteArray bytes = {{reinterpret_cast<const char*>(model), static_cast<size_t>(model_size)}};
    TVMFFIAny arguments[3] = {{}};
    arguments[0].type_index = arguments[1].type_index = kTVMFFIByteArrayPtr;
    arguments[0].v_ptr = &text;
    arguments[1].v_ptr = &bytes;
    arguments[2].type_index = weights == nullptr ? kTVMFFINone : kTVMFFIArray;
    arguments[2].v_obj = static_cast<TVMFFIObject*>(weights);
    TVMFFIAny made = {{}};
    const int failed = TVMFFIFunctionCall(opener, arguments, 3, &made);
    TVMFFIObjectDecRef(opener);
    if (failed) return failed;
    TVMFFIObjectHandle expected = nullptr;
    if (!__atomic_compare_exchange_n(&runner, &expected, static_cast<TVMFFIObjectHandle>(made.v_obj), false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {{
      TVMFFIObjectDecRef(made.v_obj);
    }}
    return 0;
  }}

  int call(const TVMFFIAny* arguments, int32_t count, TVMFFIAny* result) {{
    if (__atomic_load_n(&runner, __ATOMIC_ACQUIRE) == nullptr && open() != 0) return -1;
    return TVMFFIFunctionCall(runner, const_cast<TVMFFIAny*>(arguments), count, result);
  }}

  int set_weights(const TVMFFIAny* arguments, TVMFFIAny* result) {{
    if (weights == nullptr) {{  // a library that is loaded twice has the same ones
      weights = arguments[0].v_obj;
      TVMFFIObjectIncRef(weights);
    }}
    result->type_index = kTVMFFIInt;
    result->v_int64 = 0;
    return 0;
  }}
}};

}}  // namespace

#define ANNOTATED_REGION_SYMBOL(name) extern "C" __attribute__((visibility("default"))) int __tvm_ffi_##name
"""

_REGION = """
static const char description_of_{symbol}[] = {description};
static const unsigned char model_of_{symbol}[] = {{
{model}
}};
static Region region_of_{symbol} = {{"{symbol}", description_of_{symbol}, sizeof(description_of_{symbol}) - 1,
                                    model_of_{symbol}, sizeof(model_of_{symbol}), nullptr, nullptr}};
ANNOTATED_REGION_SYMBOL({symbol})(void*, const TVMFFIAny* arguments, int32_t count, TVMFFIAny* result) {{
  return region_of_{symbol}.call(arguments, count, result);
}}
ANNOTATED_REGION_SYMBOL(__init_{symbol})(void*, const TVMFFIAny* arguments, int32_t, TVMFFIAny* result) {{
  return region_of_{symbol}.set_weights(arguments, result);
}}
"""


def entry_text(target: str, models: Sequence[EmittedModel], options: Mapping[str, object]) -> str:
    """The translation unit of all regions of a module."""
    parts = [_HEAD.format(target=target)]
    for model in models:
        if not (model.symbol.isidentifier() and model.symbol.isascii()):
            raise CodegenError(
                f"target {target!r}: the function name {model.symbol!r} is no C identifier; rename it"
            )
        parts.append(
            _REGION.format(
                symbol=model.symbol,
                description=_literal(Description.of(model, options).to_json()),
                model=_bytes(model.skeleton().SerializeToString(deterministic=True)),
            )
        )
    return "".join(parts)


def _literal(text: str) -> str:
    """A text as a literal of C++; JSON is ASCII, and its escapes are doubled."""
    lines = [text[start : start + 96] for start in range(0, len(text), 96)]
    quoted = [
        '"' + line.replace("\\", "\\\\").replace('"', '\\"').replace("?", "\\?") + '"' for line in lines
    ]
    return "\n    ".join(quoted)


def _bytes(data: bytes) -> str:
    return ",\n".join(",".join(map(str, data[start : start + 32])) for start in range(0, len(data), 32))


def entry_modules(
    target: str, models: Sequence[EmittedModel], options: Mapping[str, object]
) -> list[tvm.runtime.Module]:
    """What a code generator returns: one module a function, all of whose code stands in the first.

    TVM hands constants over to the first function of a module only, so each function has its own.
    """
    texts = [entry_text(target, models, options)]
    texts += ["// The code of this function stands in the first unit of the module.\n"] * (len(models) - 1)
    return [
        cpp_module(text, [model.symbol], list(model.weights))
        for text, model in zip(texts, models, strict=True)
    ]


def build_options() -> BuildOptions:
    """What the compiler needs for an entry: TVM's headers."""
    folders = dict.fromkeys((tvm_ffi.libinfo.find_include_path(), tvm_ffi.libinfo.find_dlpack_include_path()))
    return BuildOptions(("-std=c++17", "-O2", *(f"-I{folder}" for folder in folders)))


Opener = Callable[[Description, bytes, Sequence[tvm.runtime.Tensor]], Callable[..., None]]


def register_runtime(target: str, opener: Opener) -> None:
    """Let the entries of a target find the runtime.

    Parameters
    ----------
    target
        The name of the target.
    opener
        From a description, a model without weights and the weights, to what runs it: a callable that
        takes the inputs and then the outputs, which it fills.
    """

    def open_region(description: bytes, model: bytes, weights: Sequence[tvm.runtime.Tensor] | None) -> object:
        return tvm_ffi.convert(
            opener(Description.from_json(bytes(description).decode()), bytes(model), weights or ())
        )

    tvm_ffi.register_global_func(f"annotated_region.{target}.open", open_region, override=True)
