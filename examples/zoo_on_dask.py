"""A model zoo on a cluster: each model is lowered on a worker, the counts come together here.

    pip install 'annotated-region[cluster]'
    python examples/zoo_on_dask.py zoo/*.onnx

The cluster is a local one with two processes; hand the address of yours to `Client` instead.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import tvm
from distributed import Client, LocalCluster

import annotated_region as ar


def load(path: str) -> tvm.IRModule:
    """The module in an ONNX file, prepared as `annotated-region extract` does; this runs on a worker."""
    return ar.passes.PrepareForInference()(ar.from_onnx(path))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", type=Path)
    models = [(path.stem, partial(load, str(path.resolve()))) for path in parser.parse_args().models]
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, Client(cluster) as client:
        found = ar.extract_hashed_functions(models, executor=client.get_executor(), progress=True)
    for key, function in sorted(found.items(), key=lambda item: -item[1].count)[:10]:
        print(f"{key:016x}  {function.count:5}  {function.name}  {function.counts}")
    shared = sum(len(function.counts) > 1 for function in found.values())
    print(f"{len(found)} distinct functions, {shared} of them in several models")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
