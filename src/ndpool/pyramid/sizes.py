"""The levels of a pyramid, and the blocks in which they are made.

Level l has a window of `factor^l` cells for each of its own. A block is a box of the source whose edges are edges of
windows at every level, and of chunks (or shards) that are written. So a block gives whole chunks of all levels:

    source   | . . . . . . . . | . . . . . . . . |      two blocks, factor 2
    level 1  | .   .   .   .   | .   .   .   .   |
    level 2  | .       .       | .       .       |

Deeper levels have as few cells in a block as they have, and their chunks are no longer than that. A block is read in
parts, whose edges are those of windows, too. So no more than a part of the source is in memory for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import lcm, prod

#: A block has about as many bytes of the source, and a part of it a quarter, if its chunks let it.
BLOCK_BYTES = 8 << 20
PARTS = 4

#: Chunks of a source are those of the target, too, if they have as many bytes at least and at most.
FEWEST_BYTES, MOST_BYTES = 1 << 16, 16 << 20

#: Without a number of levels, there are as many as make the last one no longer than this.
SMALLEST = 256

Shape = tuple[int, ...]
Region = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Level:
    """One level: its shape, its chunks and shards, and the cells of the source in each of its own."""

    shape: Shape
    chunks: Shape
    shards: Shape | None
    factors: Shape


@dataclass(frozen=True)
class Sizes:
    """All levels, and the shapes of a block and of its parts."""

    levels: tuple[Level, ...]
    block: Shape
    part: Shape

    @property
    def counts(self) -> Shape:
        """How many blocks there are along each axis."""
        return tuple(-(-n // b) for n, b in zip(self.levels[0].shape, self.block, strict=True))

    @property
    def blocks(self) -> int:
        return prod(self.counts)

    def regions(self) -> Iterator[Region]:
        """The blocks, as where each begins and ends along each axis."""
        whole = tuple((0, n) for n in self.levels[0].shape)
        return _boxes(whole, self.block)

    def cells(self, region: Region, first: int) -> int:
        """How many cells a block has at the levels from `first` on."""
        return sum(
            prod(-(-(end - begin) // step) for (begin, end), step in zip(region, level.factors, strict=True))
            for level in self.levels[first:]
        )

    def parts(self, region: Region) -> Iterator[Region]:
        """The parts of a block, likewise."""
        return _boxes(region, self.part)


def _boxes(region: Region, sides: Shape) -> Iterator[Region]:
    along = (
        [(at, min(at + side, end)) for at in range(begin, end, side)]
        for (begin, end), side in zip(region, sides, strict=True)
    )
    return product(*along)


def level_count(shape: Shape, factors: Shape) -> int:
    """How many levels there are if the last one is to be small.

    >>> level_count((4, 2000, 1000), (1, 2, 2))
    4
    """
    count = 1
    while any(f > 1 and -(-n // f ** (count - 1)) > SMALLEST for n, f in zip(shape, factors, strict=True)):
        count += 1
    return count


def usual_chunks(shape: Shape, factors: Shape, itemsize: int) -> Shape:
    """Chunks of a megabyte or a few: squares of planes, or cubes where three axes or more are pooled.

    >>> usual_chunks((4, 15000, 15000), (1, 2, 2), 2), usual_chunks((300, 2000, 2000), (2, 2, 2), 4)
    ((1, 1024, 1024), (128, 128, 128))
    """
    pooled = [d for d, f in enumerate(factors) if f > 1][-3:] or [len(shape) - 1]
    side = {1: 1 << 18, 2: 1024 if itemsize <= 2 else 512}.get(len(pooled), 128)
    return tuple(min(n, side) if d in pooled else 1 for d, n in enumerate(shape))


def suit_target(chunks: Shape, shape: Shape, itemsize: int, factors: Shape, levels: int) -> bool:
    """Whether chunks of a source can be those of the target: neither tiny nor large, nor odd beside the factors."""
    least = [lcm(c, f ** (levels - 1)) for c, f in zip(chunks, factors, strict=True)]
    block = prod(min(b, n) for b, n in zip(least, shape, strict=True)) * itemsize
    return FEWEST_BYTES <= prod(chunks) * itemsize <= MOST_BYTES and block <= 4 * BLOCK_BYTES


def sizes_of(
    shape: Shape, itemsize: int, factors: Shape, levels: int, chunks: Shape, shards: Shape | None, source: Shape | None
) -> Sizes:
    """Levels and blocks. `source` are the chunks of the source, which a block does not cut, unless it grows too large.

    >>> sizes = sizes_of((1000, 1000), 1, (2, 2), 3, (100, 100), None, None)
    >>> sizes.block, [level.shape for level in sizes.levels], [level.chunks for level in sizes.levels]
    ((1000, 1000), [(1000, 1000), (500, 500), (250, 250)], [(100, 100), (100, 100), (50, 50)])
    """
    written = shards or chunks
    least = [lcm(c, f ** (levels - 1)) for c, f in zip(written, factors, strict=True)]
    if source is not None:
        whole = [lcm(b, s) for b, s in zip(least, source, strict=True)]
        if prod(min(b, n) for b, n in zip(whole, shape, strict=True)) * itemsize <= 4 * BLOCK_BYTES:
            least = whole
    part = _grown(least, shape, itemsize, BLOCK_BYTES // PARTS)
    block = _grown(part, shape, itemsize, BLOCK_BYTES)
    found = []
    for level in range(levels):
        steps = tuple(f**level for f in factors)
        own = tuple(-(-n // s) for n, s in zip(shape, steps, strict=True))
        room = [b // s for b, s in zip(block, steps, strict=True)]
        inner = tuple(_divisor(r, c) for r, c in zip(room, chunks, strict=True))
        outer = (
            None if shards is None else tuple(_divisor(r, s, c) for r, s, c in zip(room, shards, inner, strict=True))
        )
        found.append(Level(own, inner, outer, steps))
    return Sizes(tuple(found), block, part)


def _grown(least: Sequence[int], shape: Shape, itemsize: int, most: int) -> Shape:
    """A box as many times its least as `most` bytes have room for; no longer than the array needs."""
    block = list(least)
    grows = True
    while grows:
        grows = False
        for d in reversed(range(len(block))):
            larger = prod(min(2 * b if d == e else b, n) for e, (b, n) in enumerate(zip(block, shape, strict=True)))
            if block[d] < shape[d] and larger * itemsize <= most:
                block[d] *= 2
                grows = True
    return tuple(b if b <= n else -(-n // m) * m if m <= n else m for b, n, m in zip(block, shape, least, strict=True))


def _divisor(room: int, most: int, multiple_of: int = 1) -> int:
    """The largest divisor of `room` that is no more than `most`, and a multiple of the last number."""
    for n in range(min(room, most) // multiple_of * multiple_of, 0, -multiple_of):
        if room % n == 0:
            return n
    return multiple_of
