"""The C++ compiler that TVM calls."""

from collections.abc import Sequence
from typing import Protocol

class _Compiler(Protocol):
    output_format: str
    def __call__(
        self,
        output: str,
        objects: str | Sequence[str],
        options: Sequence[str] | None = None,
        cc: str | None = None,
        cwd: str | None = None,
        ccache_env: dict[str, str] | None = None,
    ) -> None: ...
    def get_target_triple(self) -> str | None: ...

create_shared: _Compiler

def get_cc() -> str | None: ...
