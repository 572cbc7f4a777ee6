"""The parts of the importer of exported programs."""

from collections.abc import Callable

from ....ir import Expr
from ...block_builder import BlockBuilder

class ExportedProgramImporter:
    block_builder: BlockBuilder
    env: dict[object, Expr | int]
    convert_map: dict[str, Callable[..., Expr]]
    def retrieve_args(self, node: object) -> list[object]: ...
    def create_convert_map(self) -> dict[str, Callable[..., object]]: ...
