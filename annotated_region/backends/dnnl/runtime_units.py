"""The text of the C++ runtime: as one unit, and as several that are compiled in parallel.

Every build asks for it, and the installed files do not change while a process runs, so it is read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from annotated_region.backends.dnnl.graph import Kind
from annotated_region.backends.dnnl.rows import declarations

__all__ = ["PREBUILT", "RUNTIME", "interface_text", "runtime_parts", "runtime_text", "runtime_unit"]

RUNTIME = files("annotated_region.backends.dnnl") / "runtime"
SHARED_FILES = (
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
    "half_numbers.h",
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
    "float_pairs.h",
    "whole_numbers.h",
    "combining.h",
    "whole_products.h",
    "whole_convolutions.h",
    "gathering.h",
    "scattering.h",
    "ordering.h",
    "sampling.h",
    "box_pooling.h",
    "resizing.h",
    "part_means.h",
    "recurrence.h",
    "reduction.h",
    "group_norm.h",
    "views.h",
    "concat.h",
    "quantization.h",
    "requantization.h",
    "lookup.h",
)
"""The builders of nodes that move values, or compute with few values for each."""

PRODUCT_FILES = (
    "softmax.h",
    "few_rows.h",
    "packed_weights.h",
    "packed_digits.h",
    "packed_lines.h",
    "packed_panels.h",
    "packed_blocks.h",
    "packed_tiles.h",
    "work_shares.h",
    "packed_rows.h",
    "packed_pairs.h",
    "packed_pair_products.h",
    "packed_pair_rows.h",
    "packed_products.h",
    "transposed.h",
    "long_lines.h",
    "windows.h",
    "convolution_faults.h",
    "padding.h",
    "primitives.h",
    "pooling.h",
    "attention_products.h",
    "attention_rows.h",
    "hidden_columns.h",
    "attention_blocks.h",
    "attention_tiles.h",
    "attention.h",
)
"""The builders of sums of products, and of oneDNN's primitives. Of `ELEMENT_FILES` they use ``kernels.h``."""

REGION_FILES = ("dispatch.h", "forking.h", "frame.h", "repeats.h", "region.h")
"""The files of all tuples follow each other in this order: every declaration precedes its uses."""

NAMESPACE = "annotated_region_dnnl"
DECLARED = f"""#define ANNOTATED_REGION_DECLARE(kind) void build_##kind(Builder&, const NodeRow&);
namespace {NAMESPACE} {{ ANNOTATED_REGION_KINDS(ANNOTATED_REGION_DECLARE) }}
"""
"""Declarations of what `_entries` defines in other units."""

HIDDEN = ("#pragma GCC visibility push(hidden)", "#pragma GCC visibility pop\n")
"""Around the code of the runtime: the libraries of a process do not use each other's functions and variables.

What they share has default visibility (`contention.h`).
"""

PREBUILT = "ANNOTATED_REGION_PREBUILT_RUNTIME"
"""Defined when the runtime is linked as an object file; otherwise it is a unit of the module."""


@cache
def runtime_unit() -> str:
    """The translation unit of the runtime; it is empty if the prebuilt object is linked."""
    return "\n".join((f"#ifndef {PREBUILT}", runtime_text(), "#endif\n"))


def interface_text(folder: Traversable = RUNTIME) -> str:
    """The part of the runtime that every generated unit includes: table structs and the export macro."""
    tables, entry = ((folder / name).read_text(encoding="utf-8") for name in ("tables.h", "entry.h"))
    return "\n".join((tables, declarations(), entry))


def runtime_text(folder: Traversable = RUNTIME) -> str:
    """The text of the C++ runtime, its interface first; `folder` holds its files."""
    builders = _texts(folder, (*SHARED_FILES, *ELEMENT_FILES, *PRODUCT_FILES))
    return _unit(folder, builders, _entries(builders), _texts(folder, REGION_FILES))


@cache
def runtime_parts(folder: Traversable = RUNTIME) -> tuple[str, ...]:
    """The C++ runtime as units that are compiled in parallel: that of regions, then those of the builders.

    The first calls each builder through an entry, which one of the others defines. All else that they share
    is inline, so that the linker keeps one copy.
    """
    shared, kernels = _texts(folder, SHARED_FILES), _texts(folder, ["kernels.h"])
    regions, elements, products = (
        _texts(folder, names) for names in (REGION_FILES, ELEMENT_FILES, PRODUCT_FILES)
    )
    return (
        _unit(folder, shared, DECLARED, regions),
        _unit(folder, shared, elements, _entries(elements)),
        _unit(folder, shared, kernels, products, _entries(products)),
    )


def _unit(folder: Traversable, *texts: str) -> str:
    """A unit of texts that are hidden; system headers, which must not be, come first."""
    return "\n".join((interface_text(folder), _texts(folder, ["prelude.h"]), HIDDEN[0], *texts, HIDDEN[1]))


def _entries(text: str) -> str:
    """Functions that call the builders of a text, for other units: the builders themselves are inline."""
    kinds = [kind.value for kind in Kind if f"inline void {kind.value}(Builder& builder, " in text]
    entry = "void build_{0}(Builder& builder, const NodeRow& node) {{ {0}(builder, node); }}\n"
    return f"namespace {NAMESPACE} {{\n{''.join(map(entry.format, kinds))}}}\n"


def _texts(folder: Traversable, names: Sequence[str]) -> str:
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)
