"""What the smoke suite runs in each environment, which holds the wheel and its extras alone.

    python -I program.py [--shipped]

SqueezeNet is explained, partitioned, built and run on oneDNN, and compared with ONNX Runtime. The cache is
empty: the runtimes of the targets are compiled, but with ``--shipped``, where the wheel brings them.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Fails where something is missing or differs."""
    import tvm  # noqa: PLC0415 - what it finds by itself is part of the question

    assert tvm.get_global_func("relax.ext.dnnl", allow_missing=True) is not None, "no entry point"
    assert "annotated_region" not in sys.modules, "importing TVM imports the package"

    import numpy as np  # noqa: PLC0415
    import onnxruntime  # noqa: PLC0415
    from tvm import relax  # noqa: PLC0415
    from tvm.relax.frontend.onnx import from_onnx  # noqa: PLC0415

    import annotated_region as ar  # noqa: PLC0415
    from annotated_region.testing.light_models import input_of, light_model  # noqa: PLC0415

    compiled: list[object] = []

    def heard(event: str, arguments: tuple[object, ...]) -> None:
        words = arguments[1] if event == "subprocess.Popen" else ()
        if isinstance(words, list) and "-c" in words and "/linked" in words[words.index("-c") + 1]:
            compiled.append(words)

    sys.addaudithook(heard)
    model = light_model("squeezenet")
    ((name, image),) = input_of(model).items()
    mod = from_onnx(model)
    targets = ["onnxruntime", "dnnl"]
    assert "dnnl" in str(ar.explain(mod, targets))
    reference = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = np.asarray(reference.run(None, {name: image})[0])
    for target in targets:
        partitioned = ar.partition(mod, [target])
        assert partitioned.script(show_meta=True), "this pair of TVM and its FFI cannot serialize"
        machine = relax.VirtualMachine(ar.build(partitioned), tvm.cpu())
        answer = machine["main"](tvm.runtime.tensor(image)).numpy()
        np.testing.assert_allclose(answer, expected, rtol=1e-3, atol=1e-4)
        print(f"{target}: largest difference {np.abs(answer - expected).max():.1e}")
    shipped = "--shipped" in sys.argv
    assert bool(compiled) != shipped, f"{len(compiled)} units of the runtimes were compiled"
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
