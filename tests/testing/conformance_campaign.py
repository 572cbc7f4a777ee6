"""The conformance kit on a target that comes with the package, with many graphs from numbered starts.

    PYTHONPATH=.:tests python tests/testing/conformance_campaign.py openvino --graphs 2000

Pieces of 400 graphs are drawn from one start each; ``--start`` and ``--graphs`` choose some of them. What a
target registers only to decline it need not run: `EXEMPT` has the reason of each. The result is 0 if all
graphs agree and everything else ran.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import annotated_region as ar
from annotated_region.backends.onnx_emitter.conversions.absent import ABSENT
from annotated_region.testing.conformance import check_backend

PIECE = 400

_NO_TOP_K = "OpenVINO orders equal elements as it likes, so that TopK is declined, and what is made of it"
_NO_ONE_HOT = "OneHot would have to know that its indices fit into the 32 bits that OpenVINO gives them"
_WHOLE = "what the emitter makes of it is a {} of whole numbers, which OpenVINO computes in float32"
_NOT_IN_TVM = "TVM 0.27 cannot compute it, so that there is nothing to compare with"

_RARE = (
    "hardly any graph that is drawn has the product with a matrix in front of the loop; the hunt draws them"
)


def _recurrent_layers(target: str) -> Mapping[str, str]:
    """The patterns of recurrent layers, with and without a bias, of each number of operands."""
    numbers = ["", *(f" ({number})" for number in range(2, 9))]
    return dict.fromkeys((f"{target}.recurrent_layer{number}" for number in numbers), _RARE)


EXEMPT: Mapping[str, Mapping[str, str]] = {
    "dnnl": {},
    "onnxruntime": {
        **ABSENT,
        **_recurrent_layers("onnxruntime"),
        "relax.nn.pixel_shuffle": _NOT_IN_TVM,
    },
    "openvino": {
        **ABSENT,
        **_recurrent_layers("openvino"),
        "relax.nn.pixel_shuffle": _NOT_IN_TVM,
        "relax.one_hot": _NO_ONE_HOT,
        "relax.bucketize": _WHOLE.format("sum"),
        "relax.eye": _WHOLE.format("comparison"),
        "relax.eye_like": _WHOLE.format("comparison"),
        "relax.right_shift": _WHOLE.format("remainder"),
        "relax.mod": "OpenVINO rounds the quotients of floats, and the kit draws no remainders of bytes",
        "relax.vision.roi_align": "numbers of images are floats, which OpenVINO converts in 32 bits",
        **dict.fromkeys(("relax.topk", "relax.sort", "relax.argsort", "relax.median"), _NO_TOP_K),
    },
}
"""For each target what it registers and need not run, with the reason."""


def main() -> int:
    """Run the pieces, and print what each has covered."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=EXEMPT)
    parser.add_argument("--graphs", type=int, default=PIECE)
    parser.add_argument("--start", type=int, default=0, help="the number of the first piece")
    options = parser.parse_args()
    failures = 0
    for piece in range(-(-options.graphs // PIECE)):
        start, count = options.start + piece, min(PIECE, options.graphs - piece * PIECE)
        print(f"start {start}, {count} graphs", flush=True)
        try:
            exempt = list(EXEMPT[options.target])
            print(check_backend(options.target, examples=count, start=start, exempt=exempt))
        except ar.ConformanceError as error:
            failures += 1
            print(error)
    return min(failures, 99)


if __name__ == "__main__":
    raise SystemExit(main())
