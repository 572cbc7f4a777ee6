"""A PrimFunc in normal form: input tensors, blocks that write other tensors, output tensors.

Two programs with the same key compute the same values, independently of the names of variables, buffers and
blocks, and of the nesting order of their spatial loops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from annotated_region.op_info.loops.trees import Extent, Tree, loads_in, renamed, subtrees

__all__ = ["Block", "Program", "Store", "LoopTensor"]


@dataclass(frozen=True, slots=True)
class LoopTensor:
    """Shape and dtype of a buffer."""

    shape: tuple[Extent, ...]
    dtype: str

    @property
    def is_static(self) -> bool:
        """Whether all extents are static."""
        return all(isinstance(extent, int) for extent in self.shape)


@dataclass(frozen=True, slots=True)
class Store:
    """``buffer[indices] = value``; without a buffer, the value gets the name ``("bound", n)``."""

    buffer: int | None
    indices: Tree
    value: Tree


@dataclass(frozen=True)
class Block:
    """The computation at each point of an iteration domain.

    Attributes
    ----------
    spatial
        The extents of the spatial iteration variables, which may run in any order.
    reduction
        The extents of the reduction variables, which run in this order.
    init
        The stores before the first step of the reduction.
    stores
        The stores at each point, in order.
    """

    spatial: tuple[Extent, ...]
    reduction: tuple[Extent, ...]
    init: tuple[Store, ...]
    stores: tuple[Store, ...]

    @cached_property
    def written(self) -> tuple[int, ...]:
        """The buffers that the block writes."""
        stores = (*self.init, *self.stores)
        return tuple(dict.fromkeys(store.buffer for store in stores if store.buffer is not None))

    @cached_property
    def loads(self) -> list[Tree]:
        """The loads from buffers that the block does not write, each once."""
        trees = (tree for store in (*self.init, *self.stores) for tree in (store.value, store.indices))
        loads = dict.fromkeys(load for tree in trees for load in loads_in(tree))
        own = self.written
        return [load for load in loads if load[1] not in own]

    def key(self, names: Mapping[int, object]) -> Tree:
        """The block as a value, with these names for the buffers."""
        return (
            self.spatial,
            self.reduction,
            *(
                tuple(
                    (
                        None if s.buffer is None else names[s.buffer],
                        renamed(s.indices, names),
                        renamed(s.value, names),
                    )
                    for s in part
                )
                for part in (self.init, self.stores)
            ),
        )


@dataclass(frozen=True)
class Program:
    """Blocks in execution order.

    Attributes
    ----------
    tensors
        The tensor of each buffer number.
    inputs
        The input buffers, in the order of the parameters.
    outputs
        The output buffers.
    unread
        The input buffers that are never read.
    scalars
        The size that each integer parameter is, by the number of the parameter.
    """

    tensors: Mapping[int, LoopTensor]
    inputs: tuple[int, ...]
    blocks: tuple[Block, ...]
    outputs: tuple[int, ...]
    unread: tuple[int, ...] = ()
    scalars: Mapping[int, Tree] = field(default_factory=dict)

    def key(self, names: Mapping[int, object]) -> Tree:
        """The whole computation as a value; `names` has the names of the inputs."""
        names = dict(names)
        made = [buffer for block in self.blocks for buffer in block.written]
        names.update({buffer: ("made", index) for index, buffer in enumerate(made)})
        used = {(names[b], self.tensors[b].shape, self.tensors[b].dtype) for b in (*self.inputs, *made)}
        return (
            tuple(sorted(used)),
            tuple(block.key(names) for block in self.blocks),
            tuple(names[b] for b in self.outputs),
        )

    @cached_property
    def last_reads(self) -> Mapping[int, int]:
        """The number of the last block that reads each buffer that is read."""
        return {load[1]: number for number, block in enumerate(self.blocks) for load in block.loads}

    def _is_used(self, block: Block) -> bool:
        return any(b in self.last_reads or b in self.outputs for b in block.written)

    def part(self, start: int, stop: int) -> Program:
        """The program of the blocks from `start` to `stop`."""
        blocks = self.blocks[start:stop]
        made = dict.fromkeys(b for block in blocks for b in block.written)
        inputs = dict.fromkeys(load[1] for block in blocks for load in block.loads if load[1] not in made)
        # What a useless block writes is an output too: fusion leaves results of an op that are not used.
        unused = {b for block in blocks if not self._is_used(block) for b in block.written}
        later = {b for b in made if self.last_reads.get(b, 0) >= stop}
        outputs = [b for b in made if b in unused or b in later or b in self.outputs]
        return Program(self.tensors, tuple(sorted(inputs)), blocks, tuple(outputs), self.unread, self.scalars)

    @property
    def constants(self) -> list[float]:
        """The numbers in the data, each once, in order."""
        trees = [store.value for block in self.blocks for store in (*block.stores, *block.init)]
        parts = (part for tree in trees for part in subtrees(tree))
        numbers = dict.fromkeys(part[2] for part in parts if part[0] in ("float", "int"))
        return [float(number) if number == "-0.0" else number for number in numbers if number != "nan"]
