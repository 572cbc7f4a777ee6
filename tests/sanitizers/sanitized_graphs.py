"""Dense graphs on the runtime of dnnl, compiled with sanitizers; all tensors are views into larger memory.

    make sanitize

Every input and result begins behind something else, at an address of its own, or ends before something else;
the other end is the end of a block of memory, where AddressSanitizer sees each byte too many. Answers are
compared as in the hunt. A sanitizer ends the process, and its report names the place; the last seed that was
printed names the graph.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import cycle
from typing import Any

import numpy as np
import tvm_ffi
from kits.hunt import dnnl_engine
from kits.hunt.checking import Kind, reseeded
from kits.hunt.engines import build_of, recipe_of

__all__ = ["view_of"]

# Elements before the view, and behind it. One of the two is none.
MARGINS = cycle([(1, 0), (0, 1), (3, 0), (0, 3), (0, 0)])


def view_of(array: np.ndarray) -> Any:
    """The same numbers in memory that is larger at one end, aligned to nothing but one element."""
    before, behind = next(MARGINS)
    block = np.empty(array.size + before + behind, array.dtype)
    view = block[before : before + array.size].reshape(array.shape)
    view[...] = array
    return tvm_ffi.from_dlpack(view, require_alignment=0, require_contiguous=True)


def main() -> int:
    """Run graphs, and print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    handed, poisoned = dnnl_engine._handed, dnnl_engine.poisoned

    def handed_as_view(argument: Any) -> Any:
        return view_of(argument) if isinstance(argument, np.ndarray) else handed(argument)

    def poisoned_view(shape: Sequence[int], dtype: str) -> Any:
        return view_of(poisoned(shape, dtype).numpy())

    dnnl_engine._handed, dnnl_engine.poisoned = handed_as_view, poisoned_view
    build, counts = build_of("dnnl"), Counter[Kind]()
    for seed in range(options.seed, options.seed + options.graphs):
        print(seed, file=sys.stderr)
        recipe, outcome = reseeded(recipe_of("dnnl", seed), build)
        counts[outcome.kind] += 1
        if outcome.kind.is_failure:
            print(f"{seed}: {outcome.kind.value}: {outcome.text}\n{recipe.to_json()}", flush=True)
    print({kind.value: count for kind, count in counts.items()})
    return int(any(kind.is_failure for kind in counts))


if __name__ == "__main__":
    sys.exit(main())
