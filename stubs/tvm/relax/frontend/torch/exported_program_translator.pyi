"""The parts of the importer of exported programs."""

from collections.abc import Callable

class ExportedProgramImporter:
    def create_convert_map(self) -> dict[str, Callable[..., object]]: ...
