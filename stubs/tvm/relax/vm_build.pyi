"""What the compilation of Relax gives."""

from ..runtime import Executable

class VMExecutable(Executable):
    def stats(self) -> str: ...
    def as_text(self) -> str: ...
