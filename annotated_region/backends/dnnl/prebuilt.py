"""The C++ runtime as a source that is compiled once and linked with every module.

The runtime is the same for every module and takes most of the compiler's time. Its object is kept in the
user's cache folder (`annotated_region.compilation.objects`) for each combination of its text, the compiler,
the options and the installed headers. Where that is not possible, generated units hold the runtime's text
and are compiled as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from annotated_region.backends.dnnl.emission import PREBUILT, runtime_text
from annotated_region.targets.backend import LinkedSource

__all__ = ["runtime_source"]

HEADERS = ("apache-tvm-ffi", "onednn-devel-cpu-gomp")


def runtime_source(options: Sequence[str]) -> LinkedSource:
    """The runtime, to be compiled with some options for the compiler, one word each."""
    versions = tuple(f"{name} {version(name)}" for name in HEADERS)
    return LinkedSource(runtime_text(), tuple(options), versions, PREBUILT)
