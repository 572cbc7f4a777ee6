"""The text of the C++ runtime: as one unit, and as several that are compiled in parallel."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable

from annotated_region.backends.dnnl.graph import Kind
from annotated_region.backends.dnnl.rows import declarations

__all__ = ["PREBUILT", "RUNTIME", "interface_text", "runtime_parts", "runtime_text", "runtime_unit"]

RUNTIME = files("annotated_region.backends.dnnl") / "runtime"
SHARED_FILES = (
    "prelude.h",
    "processors.h",
    "contention.h",
    "workers.h",
    "openmp.h",
    "storage.h",
    "layouts.h",
    "memory_plan.h",
    "open_extents.h",
    "plan.h",
    "rows.h",
    "vector_math.h",
    "halves.h",
    "precision.h",
    "tensors.h",
    "steps.h",
    "constants.h",
    "builder.h",
    "scaling.h",
    "post_ops.h",
)
ELEMENT_FILES = (
    "kernels.h",
    "rotation.h",
    "whole_numbers.h",
    "combining.h",
    "whole_products.h",
    "gathering.h",
    "scattering.h",
    "ordering.h",
    "reduction.h",
    "group_norm.h",
    "views.h",
    "concat.h",
    "quantization.h",
)
"""The builders of nodes that move values, or compute with few values for each."""

PRODUCT_FILES = (
    "softmax.h",
    "few_rows.h",
    "packed_weights.h",
    "packed_digits.h",
    "packed_blocks.h",
    "packed_rows.h",
    "packed_products.h",
    "primitives.h",
    "pooling.h",
    "attention_products.h",
    "attention_rows.h",
    "attention.h",
)
"""The builders of sums of products, and of oneDNN's primitives. Of `ELEMENT_FILES` they use ``kernels.h``."""

REGION_FILES = ("dispatch.h", "forking.h", "frame.h", "region.h")
RUNTIME_FILES = (*SHARED_FILES, *ELEMENT_FILES, *PRODUCT_FILES, *REGION_FILES)
"""The files of the implementation, ordered so that every declaration precedes its uses."""

NAMESPACE = "annotated_region_dnnl"
DECLARED = f"""#define ANNOTATED_REGION_DECLARE(kind) void kind(Builder& builder, const NodeRow& node);
namespace {NAMESPACE} {{ ANNOTATED_REGION_KINDS(ANNOTATED_REGION_DECLARE) }}
"""
"""Declarations of all builders, for a unit without their files."""

PREBUILT = "ANNOTATED_REGION_PREBUILT_RUNTIME"
"""Defined when the runtime is linked as an object file; otherwise it is a unit of the module."""


def runtime_unit() -> str:
    """The translation unit of the runtime; it is empty if the prebuilt object is linked."""
    return "\n".join((f"#ifndef {PREBUILT}", runtime_text(), "#endif\n"))


def interface_text(folder: Traversable = RUNTIME) -> str:
    """The part of the runtime that every generated unit includes: table structs and the export macro."""
    tables, entry = ((folder / name).read_text(encoding="utf-8") for name in ("tables.h", "entry.h"))
    return "\n".join((tables, declarations(), entry))


def runtime_text(folder: Traversable = RUNTIME) -> str:
    """The text of the C++ runtime, its interface first; `folder` holds its files."""
    return "\n".join((interface_text(folder), _texts(folder, RUNTIME_FILES)))


def runtime_parts(folder: Traversable = RUNTIME) -> tuple[str, ...]:
    """The C++ runtime as units that are compiled in parallel: that of regions, then those of the builders.

    Each builder is declared in the first and defined in one of the others. What they share is inline, so that
    the linker keeps one copy.
    """
    shared = "\n".join((interface_text(folder), _texts(folder, SHARED_FILES)))
    regions, elements, products = (
        _texts(folder, names) for names in (REGION_FILES, ELEMENT_FILES, PRODUCT_FILES)
    )
    return (
        "\n".join((shared, DECLARED, regions)),
        "\n".join((shared, elements, _emitted(elements))),
        "\n".join((shared, _texts(folder, ["kernels.h"]), products, _emitted(products))),
    )


def _emitted(text: str) -> str:
    """Makes the compiler emit the builders of a text: they are inline, and nothing in the unit calls them."""
    kinds = [kind.value for kind in Kind if f"inline void {kind.value}(Builder& builder, " in text]
    pointers = "void (*const emitted[])(Builder&, const NodeRow&)"
    return f"namespace {NAMESPACE} {{ __attribute__((used)) static {pointers} = {{{', '.join(kinds)}}}; }}\n"


def _texts(folder: Traversable, names: Sequence[str]) -> str:
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)
