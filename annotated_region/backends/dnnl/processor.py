"""What oneDNN uses of this processor."""

from __future__ import annotations

import ctypes
from pathlib import Path

from annotated_region.backends.dnnl.installation import onednn

__all__ = ["multiplies_bfloat16", "multiplies_bfloat16_faster"]

# dnnl_cpu_isa_avx512_core_bf16 and dnnl_cpu_isa_avx512_core_amx of dnnl_types.h: one bit for each instruction
# set that they include.
_BFLOAT16 = 0xE7
_TILES = 0xFEF
_PROCESSORS = Path("/proc/cpuinfo")


def multiplies_bfloat16() -> bool:
    """Whether oneDNN has instructions for products of bfloat16 here, asked as `precision.h` asks.

    ``ONEDNN_MAX_CPU_ISA`` counts. Where oneDNN is not installed there are none.
    """
    return _has(_BFLOAT16)


def multiplies_bfloat16_faster() -> bool:
    """Whether products of bfloat16 take less time than those of float32: not in Intel's vector units."""
    return multiplies_bfloat16() and (_has(_TILES) or not _is_intel())


def _has(wanted: int) -> bool:
    library = onednn()
    if library is None:
        return False
    return bool(ctypes.CDLL(str(library)).dnnl_get_effective_cpu_isa() & wanted == wanted)


def _is_intel() -> bool:
    return _PROCESSORS.exists() and "GenuineIntel" in _PROCESSORS.read_text(encoding="utf-8")
