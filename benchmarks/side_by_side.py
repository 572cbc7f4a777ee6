"""Runs the engines in interleaved rounds on one model, and says how they compare."""

from __future__ import annotations

import gc
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from engines import (
    BF16_ENGINES,
    FAST_ENGINES,
    LIBRARY_REGIONS,
    OURS_IN_BF16,
    Engine,
    Setting,
    tvm_alone,
)
from kits.diffusion_models import DIFFUSION_MODELS, diffusion_model
from kits.family_models import FAMILIES, family_model, inputs_of
from kits.quantized_models import (
    IMAGE_OPS,
    TEXT_OPS,
    dynamically_quantized_model,
    quantized_model,
)

from annotated_region.testing.light_models import LIGHT_MODELS, input_of, light_model

__all__ = ["ENGINES", "MODELS", "all_well", "environment", "measured", "setting_of", "table"]

MODELS = (*LIGHT_MODELS, *FAMILIES)
ENGINES = (*FAST_ENGINES, *LIBRARY_REGIONS)
TEXTS = ("bert", "gpt2", "llama", "vit")  # transformers
REFERENCE = "onnxruntime"
FLOAT32 = ("onnxruntime", "openvino")
PEERS = {
    "annotated-region": FLOAT32,
    **dict.fromkeys(OURS_IN_BF16, ("openvino-bf16",)),
    **{name: (name.removeprefix("annotated-region-"),) for name in LIBRARY_REGIONS},
}
# What else an engine is held against: the heading, and the fastest of whom.
OTHERS = {name: {"own fp32": ("annotated-region",), "best fp32": FLOAT32} for name in OURS_IN_BF16}
ROUNDED = 0.05  # how far, of the largest answer, one in bfloat16 may be off
QUANTIZED = 0.15  # the same of int8; ONNX Runtime is 0.09 from itself without its optimizations
RELATIVE, ABSOLUTE = 1e-3, 1e-4  # how far an answer may be from the reference's
RUNS = 3  # timed runs of an engine in a round, after some that are not timed
SETTLING = 0.1  # seconds of untimed runs, in which the idle threads of the engine before stop spinning
PACKAGES = ("apache-tvm", "onnxruntime", "onednn-cpu-gomp", "openvino", "numpy", "onnx")

Figures = dict[str, Any]
Samples = dict[str, list[list[float]]]  # engine -> for each round, the milliseconds of its runs


def setting_of(name: str, threads: int, target: str, int8: str = "") -> Setting:
    """A model with its inputs; quantized with scales that are known (``"static"``), or ``"dynamic"``."""
    model = _model(name)
    inputs = input_of(model) if name in LIGHT_MODELS else inputs_of(model)
    if int8 == "dynamic":
        model = dynamically_quantized_model(model)
    elif int8:
        model = quantized_model(model, [inputs], ops=TEXT_OPS if name in TEXTS else IMAGE_OPS)
    return Setting(model, inputs, threads, target, is_quantized=bool(int8))


def _model(name: str) -> onnx.ModelProto:
    if name in LIGHT_MODELS:
        return light_model(name)
    return diffusion_model(name) if name in DIFFUSION_MODELS else family_model(name)


def measured(
    name: str, setting: Setting, rounds: int, tvm_rounds: int, bf16: bool, named: Sequence[str] = ()
) -> Figures:
    """The figures of every engine on one model, in milliseconds; what fails has its error in their place.

    If some are `named`, these only.
    """
    makers = {
        **FAST_ENGINES,
        **(BF16_ENGINES if bf16 else {}),
        **({"tvm": tvm_alone} if tvm_rounds else {}),
    }
    if named:
        makers = {engine: (makers | LIBRARY_REGIONS)[engine] for engine in named}
    ready = {maker: _ready(maker, makers[maker], setting) for maker in makers}
    engines = {maker: engine for maker, engine in ready.items() if isinstance(engine, Engine)}
    samples: Samples = {maker: [] for maker in engines}
    for number in range(rounds):
        _say(f"{name}: round {number + 1} of {rounds}")
        for maker in _order(list(engines), number, tvm_rounds):
            samples[maker].append(_timed(engines[maker], slow=maker == "tvm"))
    results: dict[str, Figures] = {
        maker: _figures(maker, engine, samples, engines) if isinstance(engine, Engine) else {"error": engine}
        for maker, engine in ready.items()
    }
    if setting.is_quantized:
        for figures in results.values():
            figures["agrees"] = "error" not in figures and figures["relative_error"] <= QUANTIZED
    return {"model": name, "engines": results}


def _ready(name: str, make: Callable[[Setting], Engine], setting: Setting) -> Engine | str:
    """The engine with its model loaded and warm, or what went wrong."""
    _say(f"preparing {name}")
    try:
        engine = make(setting)
        engine.run()
    except Exception as error:  # whatever one engine does, the others are still worth measuring
        return f"{type(error).__name__}: {error}"
    return engine


def _order(engines: list[str], number: int, tvm_rounds: int) -> list[str]:
    """Who runs in a round: each is the first in turn; TVM alone takes part in a few rounds only."""
    present = [engine for engine in engines if engine != "tvm" or number < tvm_rounds]
    start = number % len(present) if present else 0
    return present[start:] + present[:start]


def _timed(engine: Engine, slow: bool) -> list[float]:
    """Milliseconds of a few runs in a row; of an engine that takes seconds, one run has to do."""
    began = time.perf_counter()
    while not slow and time.perf_counter() - began < SETTLING:
        engine.run()
    times = []
    gc.disable()
    for _ in range(1 if slow else RUNS):
        began = time.perf_counter()
        engine.run()
        times.append((time.perf_counter() - began) * 1e3)
    gc.enable()
    return times


def _figures(name: str, engine: Engine, samples: Samples, engines: Mapping[str, Engine]) -> Figures:
    times = [time for in_round in samples[name] for time in in_round]
    figures: Figures = {
        "median_ms": statistics.median(times),
        "min_ms": min(times),
        "max_ms": max(times),
        "runs": len(times),
        "ready_s": engine.seconds,
        **engine.notes,
    }
    if REFERENCE in engines:
        answer, expected = engine.run(), engines[REFERENCE].run()
        figures["ratio"] = _ratio(samples[name], samples[REFERENCE])
        figures["largest_difference"] = float(np.abs(answer - expected).max())
        figures["relative_error"] = _relative_error(answer, expected)
        figures["agrees"] = _agrees(name, answer, expected)
    if (best := _to_best(name, PEERS.get(name, ()), samples)) is not None:
        figures["to_best_peer"] = best
    others = {what: _to_best(name, peers, samples) for what, peers in OTHERS.get(name, {}).items()}
    return figures | {f"to {what}": best for what, best in others.items() if best is not None}


def _to_best(name: str, peers: tuple[str, ...], samples: Samples) -> float | None:
    """The time over that of the fastest of the peers that ran."""
    return max((_ratio(samples[name], samples[peer]) for peer in peers if peer in samples), default=None)


def _relative_error(answer: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference over the largest answer."""
    return float(np.abs(answer - expected).max() / np.abs(expected).max())


def _ratio(own: list[list[float]], other: list[list[float]]) -> float:
    """Round by round, so that what disturbs a round disturbs both sides of its ratio."""
    pairs = zip(own, other, strict=False)
    return statistics.median(statistics.median(left) / statistics.median(right) for left, right in pairs)


def _agrees(name: str, answer: np.ndarray, expected: np.ndarray) -> bool:
    if name in BF16_ENGINES:
        return _relative_error(answer, expected) <= ROUNDED
    return bool(np.allclose(answer, expected, rtol=RELATIVE, atol=ABSOLUTE))


def environment(threads: int) -> Figures:
    """Where the figures come from."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "threads": threads,
        "python": platform.python_version(),
        **{package: found for package in PACKAGES if (found := _version(package))},
    }


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def table(report: Figures) -> str:
    """The report as text: a line for each engine on each model, and the mean of the ratios."""
    surroundings = ", ".join(f"{key} {value}" for key, value in report["environment"].items())
    columns = f"{'median ms':>10} {'min':>9} {'max':>9} {'ratio':>7} {'to best':>8}"
    head = f"{'model':<13} {'engine':<31} {columns}  answer (largest difference, of the largest answer)"
    lines = [surroundings, "", head]
    for result in report["models"]:
        for name, figures in result["engines"].items():
            lines.append(f"{result['model']:<13} {name:<31} {_columns(figures)}")
    return "\n".join([*lines, "", *_means(report)])


def _columns(figures: Figures) -> str:
    if "error" in figures:
        return str(figures["error"]).splitlines()[0]
    times = f"{figures['median_ms']:>10.2f} {figures['min_ms']:>9.2f} {figures['max_ms']:>9.2f}"
    answer = {True: "agrees", False: "DIFFERS", None: "-"}[figures.get("agrees")]
    if "largest_difference" in figures:
        answer += f" ({figures['largest_difference']:.1e}, {figures['relative_error']:.1e})"
    best = f"{figures['to_best_peer']:>8.2f}" if "to_best_peer" in figures else f"{'':>8}"
    regions = f", regions: {figures['regions']}" if "regions" in figures else ""
    host = ", ".join(f"{count} {name}" for name, count in figures.get("host", {}).items())
    ratios = f"{figures.get('ratio', float('nan')):>7.2f} {best}"
    others = "".join(f", {key} {value:.2f}" for key, value in figures.items() if key.startswith("to "))
    return f"{times} {ratios}  {answer}{others}{regions}{host and f', host: {host}'}"


def _means(report: Figures) -> Iterator[str]:
    kinds = {
        "ratio": f"{REFERENCE}'s time",
        "to_best_peer": "the time of the best peer",
        "to own fp32": "its own time in fp32",
        "to best fp32": "the time of the best peer in fp32",
    }
    for figure, what in kinds.items():
        ratios: dict[str, list[float]] = {}
        for result in report["models"]:
            for name, figures in result["engines"].items():
                if figure in figures:
                    ratios.setdefault(name, []).append(figures[figure])
        for name, values in ratios.items():
            mean, worst = statistics.geometric_mean(values), max(values)
            count = f"geometric mean of {len(values)} models"
            yield f"{name}: {mean:.2f} times {what} ({count}), worst {worst:.2f}"


def all_well(report: Figures) -> bool:
    """Whether every engine ran and agreed with the reference."""
    return all(
        figures.get("agrees", False) for result in report["models"] for figures in result["engines"].values()
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
