"""What oneDNN uses of this processor."""

from __future__ import annotations

import ctypes

from annotated_region.backends.dnnl.installation import onednn

__all__ = ["multiplies_bfloat16"]

# dnnl_cpu_isa_avx512_core_bf16 of dnnl_types.h: one bit for each instruction set that it includes.
_BFLOAT16 = 0xE7


def multiplies_bfloat16() -> bool:
    """Whether oneDNN has instructions for products of bfloat16 here, asked as `precision.h` asks.

    ``ONEDNN_MAX_CPU_ISA`` counts. Where oneDNN is not installed there are none.
    """
    library = onednn()
    if library is None:
        return False
    return bool(ctypes.CDLL(str(library)).dnnl_get_effective_cpu_isa() & _BFLOAT16 == _BFLOAT16)
