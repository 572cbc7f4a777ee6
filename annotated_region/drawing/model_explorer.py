"""Reports as Model Explorer graphs: nodes nested by module path, with targets and reasons.

The format is that of ``GraphCollection`` in the package ``ai-edge-model-explorer``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from annotated_region.drawing.colours import fill_of_verdict, fills_of
from annotated_region.drawing.svg import targets_of
from annotated_region.drawing.viewer_data import module_path
from annotated_region.findings.function_report import FunctionReport, OpReport
from annotated_region.findings.verdicts import RegionVerdict, words_for_verdict
from annotated_region.printable import printable

__all__ = ["model_explorer_graphs"]


def model_explorer_graphs(functions: Sequence[FunctionReport]) -> str:
    """A collection with one graph per function; its nodes are the ops, the parameters and the result.

    Linear in the ops and the readers of values.
    """
    fills = fills_of(target for function in functions for target in targets_of(function))
    graphs = [_graph(function, fills) for function in functions]
    collection = {"label": "annotated-region", "graphs": graphs, "graphSorting": "name_asc"}
    return json.dumps([collection], indent=1) + "\n"


def _graph(function: FunctionReport, fills: Mapping[str, str]) -> dict[str, object]:
    incoming: dict[str, list[dict[str, str]]] = {}
    nodes: list[dict[str, object]] = []
    for number, value in enumerate(function.values):
        source = f"parameter{number}" if value.producer is None else f"op{value.producer}"
        if value.producer is None:
            nodes.append({"id": source, "label": printable(value.name), "namespace": "", "attrs": []})
        readers = [*(f"op{consumer}" for consumer in value.consumers), *(["result"] if value.result else [])]
        for reader in readers:
            edges = incoming.setdefault(reader, [])
            port = str(len(edges))
            edges.append({"sourceNodeId": source, "sourceNodeOutputId": "0", "targetNodeInputId": port})
    checked = {region.id: region.checked for region in function.regions}
    nodes += [
        _node(f"op{number}", op, fills, None if op.region is None else checked.get(op.region))
        for number, op in enumerate(function.ops)
    ]
    nodes.append({"id": "result", "label": "result", "namespace": "", "attrs": []})
    for node in nodes:
        node["incomingEdges"] = incoming.get(str(node["id"]), [])
    return {"id": printable(function.name), "nodes": nodes}


def _node(
    name: str, op: OpReport, fills: Mapping[str, str], checked: RegionVerdict | None
) -> dict[str, object]:
    attributes = {
        "name": op.key or op.name,
        "target": op.placed,
        "region": "" if op.region is None else str(op.region),
        "types": op.types,
        "work": op.work,
        "reason": op.why,
        "check of the region": "" if checked is None else words_for_verdict(checked),
        "is to blame": "yes" if checked is not None and op.name in checked.culprits else "",
    }
    fill = fills[op.placed] if checked is None else fill_of_verdict(checked.verdict)
    return {
        "id": name,
        "label": printable(op.op.removeprefix("relax.")),
        "namespace": "/".join(map(printable, module_path(op))),
        "attrs": [{"key": key, "value": printable(text)} for key, text in attributes.items() if text],
        "outputsMetadata": [{"id": "0", "attrs": [{"key": "type", "value": printable(op.output)}]}],
        "style": {"backgroundColor": fill},
    }
