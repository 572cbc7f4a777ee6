"""Prints what each network of the zoo becomes.

PYTHONPATH=tests python tests/zoo/zoo_table.py [--torch] [name ...]
"""

from __future__ import annotations

import argparse
import importlib
import warnings
from collections.abc import Iterator

from kits.zoo.registry import ONNX_NETWORKS, TORCH_NETWORKS, onnx_network, torch_network
from kits.zoo.zoo_kit import Case, onnx_case, ran

from annotated_region.errors import AnnotatedRegionError


def _onnx_cases(names: list[str]) -> Iterator[tuple[str, str, Case]]:
    for name in (each for family in ONNX_NETWORKS.values() for each in family):
        model = onnx_network(name)
        for form in model.forms if not names or name in names else ():
            yield name, form.name, onnx_case(model, form)


def _torch_cases(names: list[str]) -> Iterator[tuple[str, str, Case]]:
    kit = importlib.import_module("kits.zoo.zoo_torch_kit")
    for name in (each for family in TORCH_NETWORKS.values() for each in family):
        model = torch_network(name)
        for form in model.forms if not names or name in names else ():
            yield name, form.name, kit.torch_case(model, form)


def main() -> None:
    """Print the table, a row as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="networks; all if left out")
    parser.add_argument("--torch", action="store_true", help="from torch.export, not from ONNX")
    parser.add_argument("--targets", default="dnnl,onnxruntime,tvm", help="tvm is TVM without offload")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    road = "torch" if options.torch else "onnx"
    print("| network | road | form | target | regions | ops on the host | error | build s |")
    print("|---|---|---|---|---|---|---|---|")
    cases = _torch_cases(options.names) if options.torch else _onnx_cases(options.names)
    for name, form, case in cases:
        for target in options.targets.split(","):
            try:
                row = ran(case, target)
            except (AnnotatedRegionError, TimeoutError) as error:
                print(f"| {name} | {road} | {form} | {target} | | {error} | | |", flush=True)
                continue
            host = "" if target == "tvm" else ", ".join(row.host)
            verdict = f"{row.error:.1e}" if row.error <= case.tolerance else f"WRONG {row.error:.1e}"
            told = (name, road, form, target, row.regions, host, verdict, f"{row.seconds:.1f}")
            print(f"| {' | '.join(map(str, told))} |", flush=True)


if __name__ == "__main__":
    main()
