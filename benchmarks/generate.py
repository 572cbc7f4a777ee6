"""Tokens a second of a Llama with weights of 4 or 8 bits: ours beside OpenVINO, ONNX Runtime and llama.cpp.

    OMP_NUM_THREADS=2 PYTHONPATH=. python benchmarks/generate.py --size 0.5B --bits 4

Each engine runs in a process of its own, with random weights in groups of 32, and waits while the others
run. Another process has written its files before: an exported library, ONNX with external data, OpenVINO's
IR, or GGUF. In a round each engine reads a prompt, and then some tokens one by one. Beside the engines a
plain loop reads as many bytes as our weights, keys and values take. The table has medians over all rounds,
with quartiles in brackets. Memory is the most that a process had, pages of mapped files included, beside what
it had when the libraries of the engine were imported.

All peers round activations to 8 bits by groups. Ours has a row for each of its three settings.

Peers are optional, and one that cannot be loaded is said to be absent. `--peer-python` is the interpreter of
an environment that has them: openvino; onnx and onnxruntime; llama-cpp-python and gguf.
"""

from __future__ import annotations

from generation.comparing import main

if __name__ == "__main__":
    main()
