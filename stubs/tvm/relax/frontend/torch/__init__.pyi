"""The importer of PyTorch's exported programs."""

from collections.abc import Callable, Mapping

from ....ir import IRModule

def from_exported_program(
    exported_program: object,
    *,
    keep_params_as_input: bool = False,
    unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False,
    custom_convert_map: Mapping[str, Callable[..., object]] | None = None,
    run_ep_decomposition: bool = True,
) -> IRModule: ...
