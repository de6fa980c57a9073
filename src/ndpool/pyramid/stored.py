"""Chunks of Zarr as they are stored: decoded here, and copied as they are where the target has the same.

Most arrays of Zarr 3 have one compressed block of little-endian numbers in each chunk. To decode such a block is one
call. The way through Zarr takes about twice the time and memory: it hands each chunk from thread to thread, and copies
it once more.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from ..arrays import Array
from .rooms import room
from .sizes import Region, Shape

Index = tuple[int, ...]
#: Takes bytes and, if they are known to fit, room for what they become.
Decode = Callable[..., Any]
#: Takes the place of a chunk among chunks, and its bytes.
Keep = Callable[[Index, Any], None]


class Stored:
    """An array of Zarr whose chunks can be decoded here; see `stored_of`."""

    def __init__(self, array: Any, decode: Decode) -> None:
        self._array, self._decode = array, decode
        self.codecs = tuple(array.metadata.codecs)
        self.chunks: Shape = tuple(array.chunks)
        self.dtype: np.dtype[Any] = array.dtype.newbyteorder("<")  # as the chunks have it
        self.fill = array.metadata.fill_value
        self._place = array.store_path

    def read(self, region: Region, keep: Keep | None = None) -> Array | None:
        """The cells of a box, and `keep` gets each of its chunks as it is; None where the box cuts chunks.

        They are in memory that is used again when this thread reads another box.
        """
        if not self._is_whole(region):
            return None
        whole: Array | None = None
        for index in self._indices(region):
            raw = self._get(self._array.metadata.encode_chunk_key(index))
            cells = self._cells(raw)
            if raw is not None and keep is not None:
                _kept(keep, index, raw)
            begin = tuple(i * c for i, c in zip(index, self.chunks, strict=True))
            if all(b == r[0] and r[1] <= b + c for b, c, r in zip(begin, self.chunks, region, strict=True)):
                return cells[tuple(slice(r[1] - r[0]) for r in region)]  # it is all that there is
            if whole is None:
                whole = room("box", tuple(end - first for first, end in region), self.dtype)
            own = whole[
                tuple(slice(b - r[0], b - r[0] + c) for b, c, r in zip(begin, self.chunks, region, strict=True))
            ]
            own[...] = cells[tuple(map(slice, own.shape))]
        return whole

    def _is_whole(self, region: Region) -> bool:
        lengths = self._array.shape
        return all(
            b % c == 0 and (e % c == 0 or e == n) for (b, e), c, n in zip(region, self.chunks, lengths, strict=True)
        )

    def _indices(self, region: Region) -> Iterator[Index]:
        return product(*(range(b // c, -(-e // c)) for (b, e), c in zip(region, self.chunks, strict=True)))

    def _cells(self, raw: Any) -> Array:
        """A chunk, with what it has beyond the end of the array."""
        cells = room("chunk", self.chunks, self.dtype)
        if raw is None:
            cells[...] = self.fill
        elif size_when_decoded(raw) == cells.nbytes:
            self._decode(raw, cells)
        else:  # its size is not said
            cells = np.frombuffer(self._decode(raw), self.dtype).reshape(self.chunks)
        return cells

    def _get(self, key: str) -> Any:
        """The bytes of a chunk; None where it is not there, and all of its cells are the usual number."""
        from zarr.core.buffer import default_buffer_prototype
        from zarr.core.sync import sync
        from zarr.storage import LocalStore

        store, key = self._place.store, f"{self._place.path}/{key}" if self._place.path else key
        if type(store) is LocalStore:
            return _contents(f"{store.root}/{key}")
        found = sync(store.get(key, default_buffer_prototype()))
        return None if found is None else found.as_numpy_array()


def _contents(path: str) -> Any:
    """All bytes of a file; None where there is none."""
    try:
        file = open(path, "rb", buffering=0)  # noqa: SIM115
    except FileNotFoundError:
        return None
    with file:
        data = room("file", (os.fstat(file.fileno()).st_size,), np.uint8)
        read = 0
        while read < data.size:
            some = file.readinto(data[read:])  # type: ignore[arg-type]
            if not some:
                raise OSError(f"{path} became shorter while it was read")
            read += some
    return data


def size_when_decoded(raw: Any) -> int | None:
    """How many bytes a block of Zstandard or Blosc becomes, by its head; None where that does not say it."""
    head = bytes(raw[:18])
    if head[:4] == b"\x28\xb5\x2f\xfd":
        alone, flag = head[4] >> 5 & 1, head[4] >> 6
        start = 5 + (1 - alone) + (0, 1, 2, 4)[head[4] & 3]
        length = (alone, 2, 4, 8)[flag]
        return int.from_bytes(head[start : start + length], "little") + (256 if flag == 1 else 0) if length else None
    nbytes, _, itself = (int.from_bytes(head[i : i + 4], "little") for i in (4, 8, 12))
    return nbytes if itself == len(raw) > 0 else None  # a block of Blosc says how long it is


class KeepError(Exception):
    """What went wrong when a chunk was kept, and not when it was read."""


def _kept(keep: Keep, index: Index, raw: Any) -> None:
    try:
        keep(index, raw)
    except Exception as fault:
        raise KeepError from fault


def stored_of(array: Any) -> Stored | None:
    """How the chunks of an array of Zarr are decoded here; None where that is left to Zarr.

    It is where each chunk is numbers in little-endian order, compressed by Blosc, Zstandard or gzip, or by nothing.
    """
    metadata: Any = getattr(array, "metadata", None)
    if getattr(metadata, "zarr_format", None) != 3 or not hasattr(array, "store_path"):
        return None
    said = [codec.to_dict() for codec in metadata.codecs]
    if not said or said[0]["name"] != "bytes" or len(said) > 2:
        return None
    little = said[0].get("configuration", {}).get("endian", "little") == "little"
    if not (little and array.dtype.newbyteorder("<").isnative):
        return None
    decode = _decoder(said[1]["name"]) if len(said) == 2 else _as_it_is
    return None if decode is None else Stored(array, decode)


def _as_it_is(raw: Any, out: Array | None = None) -> Any:
    if out is not None:
        out.reshape(-1).view(np.uint8)[...] = np.frombuffer(raw, np.uint8)
    return raw


def _decoder(name: str) -> Decode | None:
    import numcodecs

    codec = {"blosc": numcodecs.Blosc, "zstd": numcodecs.Zstd, "gzip": numcodecs.GZip}.get(name)
    if codec is None:
        return None
    return _checked(codec().decode) if name == "blosc" else codec().decode


def _checked(decode: Decode) -> Decode:
    """Blosc believes what the first bytes say of the size, and reads on where a block was cut."""

    def checked(raw: Any, out: Any = None) -> Any:
        if len(raw) < 16:
            raise ValueError(f"a block has {len(raw)} bytes, and its header alone has 16")
        said = int.from_bytes(bytes(raw[12:16]), "little")
        if said != len(raw):
            raise ValueError(f"a block says that it has {said} bytes, and has {len(raw)}")
        return decode(raw, out)

    return checked
