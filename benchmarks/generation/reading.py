"""How fast threads read memory in a plain loop, which no engine that reads its weights can exceed."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from tvm.support import cc

__all__ = ["PlainLoop"]

SOURCE = """
#include <cstddef>
#include <cstdint>
typedef int64_t Wide __attribute__((vector_size(64)));
extern "C" int64_t read_all(const char* data, size_t bytes) {
  Wide sums[4] = {};
  const Wide* next = reinterpret_cast<const Wide*>(data);
  for (size_t index = 0; index + 4 <= bytes / sizeof(Wide); index += 4) {
    for (int part = 0; part < 4; ++part) sums[part] |= next[index + part];
  }
  return (sums[0] | sums[1] | sums[2] | sums[3])[0];
}
"""


class PlainLoop:
    """Reads as many bytes as a model has, each thread a part of its own."""

    def __init__(self, size: int, threads: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            source, library = Path(folder) / "loop.cc", Path(folder) / "loop.so"
            source.write_text(SOURCE, encoding="utf-8")
            options = ["-O3", "-march=native", "-fPIC", "-shared"]
            compiler = cc.get_cc()
            assert compiler is not None
            subprocess.run([compiler, *options, str(source), "-o", str(library)], check=True)
            self.read = ctypes.CDLL(str(library)).read_all
        self.read.restype = ctypes.c_int64
        self.pool = ThreadPoolExecutor(threads)
        self.part = size // threads // 4096 * 4096
        self.bytes = self.part * threads
        memory = np.ones(self.bytes + 64, "uint8")
        self.memory = memory[-memory.ctypes.data % 64 :]
        self.first = [self.memory.ctypes.data + index * self.part for index in range(threads)]

    def rate(self) -> float:
        """Bytes in a second."""
        begin = time.perf_counter()
        list(self.pool.map(self._read, self.first))
        return self.bytes / (time.perf_counter() - begin)

    def _read(self, address: int) -> None:
        self.read(ctypes.c_void_p(address), ctypes.c_size_t(self.part))
