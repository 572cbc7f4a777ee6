"""The virtual machine that runs Relax."""

import tvm_ffi

from . import Device, Executable, Module

class VirtualMachine:
    module: Module
    def __init__(
        self,
        rt_mod: Module | Executable,
        device: Device | list[Device],
        memory_cfg: str | dict[Device, str] | None = None,
        profile: bool = False,
    ) -> None: ...
    def __getitem__(self, key: str) -> tvm_ffi.Function: ...
    def set_instrument(self, instrument: object) -> None: ...
