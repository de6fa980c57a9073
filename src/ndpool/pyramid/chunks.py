"""Chunks of a level, written as Zarr 3 lays them out: one file each, compressed by Blosc.

Where there are no shards a chunk is a file of its own, `c/0/3/1`, and all that is in it is one compressed block. Such
files are written here, since the way through Zarr takes more time than the compression itself. Shards go through Zarr.
"""

from __future__ import annotations

import os
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import Array
from .sizes import Level

#: Fast, and half the bytes of a noisy image: the usual choice for images.
COMPRESSION = {"cname": "lz4", "clevel": 5}


def create(
    target: Path,
    number: int,
    level: Level,
    dtype: np.dtype[Any],
    axes: tuple[str, ...],
    shuffles: bool,
    codecs: tuple[Any, ...] = (),
) -> None:
    """An empty level. With `codecs`, its chunks are stored by these, which are the first one's and a compressor."""
    import zarr
    from zarr.codecs import BloscCodec

    serializer, *compressors = codecs or (
        "auto",
        BloscCodec(**COMPRESSION, shuffle="shuffle" if shuffles else "noshuffle"),
    )
    zarr.create_array(
        f"{target}/{number}",
        shape=level.shape,
        chunks=level.chunks,
        shards=level.shards,
        dtype=dtype if dtype.isnative else dtype.newbyteorder("="),
        dimension_names=list(axes),
        serializer=serializer,
        compressors=compressors,
        fill_value=0,
        zarr_format=3,
        overwrite=True,
    )


def write(target: str, number: int, level: Level, begin: tuple[int, ...], y: Array, run: str, shuffles: bool) -> None:
    """Write whole chunks: the cells from `begin` on, which is the edge of a chunk."""
    if level.shards is not None:
        place = tuple(slice(b, b + n) for b, n in zip(begin, y.shape, strict=True))
        _through_zarr(target, number, run)[place] = y
        return
    y = y.astype(y.dtype.newbyteorder("<"), copy=False)
    along = [range(0, n, c) for n, c in zip(y.shape, level.chunks, strict=True)]
    for start in product(*along):
        cells = y[tuple(slice(s, s + c) for s, c in zip(start, level.chunks, strict=True))]
        if cells.any():  # a chunk of zeros is one that is not there
            index = tuple((b + s) // c for b, s, c in zip(begin, start, level.chunks, strict=True))
            put(target, number, index, _codec(shuffles).encode(_whole(cells, level.chunks)))


def _whole(cells: Array, shape: tuple[int, ...]) -> Array:
    """A chunk at the end of an axis, with zeros beyond it."""
    if cells.shape == shape:
        return np.ascontiguousarray(cells)
    room = np.zeros(shape, cells.dtype)
    room[tuple(map(slice, cells.shape))] = cells
    return room


def put(target: str, number: int, index: tuple[int, ...], data: Any) -> None:
    """Write a chunk, by its place among the chunks of its level, as it is to be stored."""
    folder = f"{target}/{number}/c/" + "".join(f"{i}/" for i in index[:-1])
    path = f"{folder}{index[-1]}"
    try:
        file = open(path, "wb", buffering=0)  # noqa: SIM115
    except FileNotFoundError:
        os.makedirs(folder, exist_ok=True)
        file = open(path, "wb", buffering=0)  # noqa: SIM115
    with file:
        left = memoryview(data).cast("B")
        while left:
            left = left[file.write(left) :]


@lru_cache(2)
def _codec(shuffles: bool) -> Any:
    from numcodecs import Blosc

    return Blosc(**COMPRESSION, shuffle=Blosc.SHUFFLE if shuffles else Blosc.NOSHUFFLE)


@lru_cache(64)
def _through_zarr(target: str, level: int, run: str) -> Any:
    import zarr

    return zarr.open_array(f"{target}/{level}", mode="r+")
