"""Every public function, class and method that users hand something to, with arguments that are right.

What the package makes and users
only read (reports, regions, notes) is not made by users, so that its constructors are no entries.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import tvm
from tvm import relax

import annotated_region as ar
from annotated_region import passes, testing
from annotated_region.costs.roofline import CPU
from annotated_region.testing import conformance, registry
from annotated_region.testing.graphs import SIX_OPS, module_of

__all__ = ["called_with", "parameters_of", "public_callables", "right_arguments"]

MADE_BY_THE_PACKAGE = {
    "Advice",
    "AnnotatedRegion",
    "Certificate",
    "CheckReport",
    "Composite",
    "CostUnit",
    "Culprit",
    "FusedFunction",
    "LinkedExecutable",
    "OpInfo",
    "OpView",
    "Profile",
    "Report",
    "Lock",
    "Conformance",
    "Covered",
}
ASKED = {"LeastCost", "MeasuredCost", "Priority", "RooflineCost", "UnitCost"}
"""Classes whose methods the package itself calls, many thousand times, with what it made."""
OF_TVM = {"is_", "same_as", "jit", "stats", "as_text", "as_python"}
OF_RULES = {"arg_tensor", "arg_extents", "constant"}
"""What rules ask of an op, many thousand times; what they do wrong is a `RuleError` with file and line."""
INNER = {"region_value", "replaced_by", "function", "of", "confine"}
"""Methods for other rooms of the package, which work on its own numbers."""

MOD = module_of(SIX_OPS)
FUNC = MOD["main"]
PRIM = tvm.relax.transform.LegalizeOps()(MOD)
KERNEL = next(func for func in PRIM.functions.values() if isinstance(func, tvm.tirx.PrimFunc))
ARRAYS = [np.ones((2, 3), "float32")] * 2


def parameters_of(call: Callable[..., object]) -> Iterator[inspect.Parameter]:
    """The parameters of a call, without the receiver and keyword dicts."""
    for each in inspect.signature(call).parameters.values():
        if each.name not in ("self", "cls") and each.kind is not each.VAR_KEYWORD:
            yield each


def called_with(call: Callable[..., object], given: Mapping[str, Any]) -> object:
    """The answer to arguments by name, also where a parameter has no name for callers."""
    first, named = [], {}
    for each in inspect.signature(call).parameters.values():
        if each.name in given and (
            each.name == "self" or each.kind in (each.POSITIONAL_ONLY, each.VAR_POSITIONAL)
        ):
            first.append(given[each.name])
        elif each.name in given:
            named[each.name] = given[each.name]
    return call(*first, **named)


def right_arguments() -> dict[str, Mapping[str, Any]]:
    """By the name of a public callable, arguments that are right."""
    run = {"mod": MOD, "targets": ["t"]}
    report, lock = ar.Report(), ar.Lock()
    region_set = ar.AnnotatedRegionSet(FUNC)
    checked = ar.CheckReport((), ())
    profile = ar.Profile(1.0, (), (), 0.0, 1, 0)
    executable = ar.build(MOD)
    cache = ar.KeyValueCache([(2, 4)], 8)
    add = relax.dpl.is_op("relax.add")(relax.dpl.wildcard(), relax.dpl.wildcard())
    return {
        "AnnotatedRegionSet": {"func": FUNC},
        "AnnotatedRegionSet.from_claims": {"func": FUNC, "claims": {}},
        "AnnotatedRegionSet.merge": {"self": region_set, "a": 0, "b": 0},
        "AnnotatedRegionSet.regions_of": {"self": region_set, "var": FUNC.params[0]},
        "Backend": {"name": "t"},
        "BuildOptions": {},
        "CheckReport.diff": {"self": checked, "other": checked},
        "CheckReport.draw": {"self": checked, "path": "x"},
        "CheckReport.from_json": {"text": ""},
        "CheckReport.save_reproducer": {"self": checked, "folder": "x"},
        "CheckReport.to_json": {"self": checked},
        "Device": {"flops": 1.0, "bandwidth": 1.0},
        "IncrementalPartition": {"targets": ["t"]},
        "KeyValueCache": {"rows": [(2, 4)], "capacity": 8},
        "KeyValueCache.advance": {"self": cache, "new": 1},
        "KeyValueCache.append": {"self": cache, "new": [np.ones((1, 2, 4), "float32")]},
        "KeyValueCache.mask": {"self": cache, "new": 1},
        "KeyValueCache.require_room": {"self": cache, "new": 1},
        "LeastCost": {"model": ar.UnitCost()},
        "Limits": {},
        "Limits.parse": {"text": "4GB"},
        "LinkedExecutable.export_library": {"self": executable, "file_name": "x"},
        "Lock.diff": {"self": lock, "other": lock},
        "Lock.from_text": {"text": ""},
        "Lock.read": {"path": "x"},
        "Lock.write": {"self": lock, "path": "x"},
        "MeasuredCost": {},
        "OpInfo.from_dict": {"data": {}},
        "Priority": {"order": ["t"]},
        "Profile.beside": {"self": profile, "report": report},
        "Profile.diff": {"self": profile, "other": profile},
        "Profile.from_json": {"text": ""},
        "Profile.to_json": {"self": profile},
        "Report.diff": {"self": report, "other": report},
        "Report.draw": {"self": report, "path": "x"},
        "Report.from_json": {"text": ""},
        "Report.table": {"self": report},
        "Report.to_json": {"self": report},
        "Resolution": {"regions": []},
        "RooflineCost": {"devices": {"t": CPU}},
        "UnitCost": {},
        "advise": {"mods": MOD, "targets": ["t"]},
        "build": {"mod": MOD},
        "check": run,
        "check_certificate": {"func": FUNC, "regions": [], "certificate": region_set.verify()},
        "compiler_begin": {"value": FUNC.params[0], "compiler": "t"},
        "compiler_end": {"value": FUNC.params[0], "compiler": "t"},
        "explain": run,
        "export": {"executable": executable, "folder": "x"},
        "extract_fused_functions": {"mod": MOD},
        "extract_hashed_functions": {"mods": MOD},
        "from_exported_program": {"program": SimpleNamespace(graph_signature=None)},
        "from_onnx": {"model": "x.onnx"},
        "infer_op_info": {"prim_func": KERNEL},
        "op_infos": {"prim_func": KERNEL},
        "partition": run,
        "profile": {"executable": executable, "inputs": ARRAYS, "rounds": 1},
        "register_backend": {"backend": "t"},
        "register_pattern": {"target": "t", "name": "t.add", "pattern": add},
        "register_patterns": {"target": "t", "table": []},
        "register_rule": {"target": "t", "op_name": "relax.add"},
        "to_tuning_tasks": {"what": KERNEL, "target": "llvm"},
        "passes.AnnotateTarget": {"targets": ["t"]},
        "passes.AppendInPlace": {"function": "main", "pasts": {}},
        "passes.InlinePartitions": {},
        "passes.LegalizeWithOpInfo": {},
        "passes.MergeCompilerRegions": {},
        "passes.PartitionGraph": {},
        "passes.PlanLayout": {"targets": ["t"]},
        "passes.PrepareForInference": {},
        "passes.Quantize": {"calibration_inputs": [ARRAYS]},
        "passes.QuantizeWeights": {},
        "passes.ResolveConflicts": {"policy": ar.Priority(["t"])},
        "passes.TransformLayout": {"layouts": {}},
        "testing.Ingredients": {},
        "testing.annotated_functions": {},
        "testing.backend_graphs": {"target": "t"},
        "testing.check_backend": {"target": "t", "examples": 1},
        "testing.claim_ops": {"target": "t", "op_names": "relax.add"},
        "testing.claimable": {"func": FUNC},
        "testing.claims": {"func": FUNC},
        "testing.compare": {"target": "t", "text": "", "constants": Path("x")},
        "testing.conformance_test": {"target": "t"},
        "testing.functions": {},
        "testing.modules": {},
        "testing.region_sets": {},
    }


def public_callables() -> dict[str, Callable[..., object]]:
    """By name, all that is public and can be called with something."""
    held = {name: getattr(ar, name) for name in ar.__all__}
    held |= {f"passes.{name}": getattr(passes, name) for name in passes.__all__}
    rooms = (testing, conformance, registry)
    held |= {f"testing.{name}": getattr(room, name) for room in rooms for name in room.__all__}
    found: dict[str, Callable[..., object]] = {}
    for name, each in held.items():
        if isinstance(each, type) and issubclass(each, BaseException | Warning):
            continue
        if inspect.isclass(each):
            found |= _of_class(name, each)
        elif inspect.isfunction(each):
            found[name] = each
    return {name: each for name, each in found.items() if any(parameters_of(each))}


def _of_class(name: str, kind: type) -> Iterator[tuple[str, Callable[..., object]]]:
    if getattr(kind, "_is_protocol", False):
        return
    if name.rpartition(".")[2] not in MADE_BY_THE_PACKAGE:
        yield name, kind
    if name in ASKED or name.startswith("passes."):
        return
    for method, function in inspect.getmembers(kind, inspect.isroutine):
        if not method.startswith("_") and method not in OF_TVM | OF_RULES | INNER:
            yield f"{name}.{method}", function
