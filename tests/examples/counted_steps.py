"""Prints, for each single token, who calls the allocator in the function of a step: a library and a count.

    LD_PRELOAD=COUNTER.so python tests/examples/counted_steps.py COUNTER.so SIZES BITS TOKENS

The folder ``examples`` has to be on ``PYTHONPATH``. `SIZES` are those of the Llama of its ``generate.py``,
as JSON; `BITS` are those of a weight, 0 for floats.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import sys
from collections import Counter
from pathlib import Path


def main(allocations: str, sizes: str, bits: str, tokens: str) -> None:
    example = importlib.import_module("generate")
    counter = ctypes.CDLL(allocations)
    counter.caller_of.restype = ctypes.c_char_p
    config, number = example.Config(**json.loads(sizes)), int(tokens)
    library = example.build(config, example.random_weights(3), int(bits) or None, 32).jit()
    llama = example.Llama(library, config, 3 + number)
    llama.step([1, 2, 3])
    function = llama.function

    def counted(*given):
        counter.begin_to_count()
        found = function(*given)
        calls = counter.end_to_count()
        callers = Counter(Path(counter.caller_of(call).decode()).name for call in range(calls))
        print(json.dumps(callers))
        return found

    llama.function = counted
    for token in range(number):
        llama.step([token])


if __name__ == "__main__":
    main(*sys.argv[1:])
