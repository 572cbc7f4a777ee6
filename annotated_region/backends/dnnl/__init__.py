"""The oneDNN (DNNL) backend for CPUs: rules, patterns and code generator."""

from annotated_region.backends.dnnl import codegen, installation, ops, options, patterns, step_times
from annotated_region.backends.dnnl.ops.work import LEAST_WORK, work_of
from annotated_region.targets.backend import EngineLog, register_backend

__all__ = ["codegen", "installation", "ops", "options", "patterns", "step_times"]

register_backend(
    ops.TARGET,
    unavailable=installation.unavailable,
    build_options=installation.build_options,
    min_work=LEAST_WORK,
    work=work_of,
    remarks=options.remarks,
    step_times=step_times.step_times,
    engine_log=EngineLog({"ONEDNN_VERBOSE": "1"}, "onednn_verbose"),
)
codegen.register_codegen()
