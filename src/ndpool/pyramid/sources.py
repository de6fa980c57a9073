"""What a pyramid is made of: arrays in memory or of Dask, .npy, TIFF, Zarr and OME-Zarr, all read by boxes.

A source goes to other processes as its path and is opened there again, once in each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from .ome import Frame, frame_of
from .sizes import Region, Shape
from .stored import Keep, KeepError, stored_of

Array = NDArray[Any]

TIFF_STARTS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


@dataclass(frozen=True)
class Source:
    """An array that is read by boxes: by its path and the name of an array within, or as it is."""

    name: str
    path: str | None
    inner: str
    shape: Shape
    dtype: np.dtype[Any]
    chunks: Shape | None
    frame: Frame | None = None
    array: Any = None
    #: Another one each time that a source is looked at, as a file may have changed since.
    stamp: str = ""

    @property
    def opened(self) -> Any:
        """What is read by boxes, in this process."""
        return self.array if self.path is None else _opened(self.path, self.inner, self.stamp)

    def read(self, region: Region, keep: Keep | None = None) -> Array:
        """The cells of a box; `keep` gets the chunks that they are stored in, if they can be had as they are."""
        place = tuple(slice(*ends) for ends in region)
        try:
            opened = self.opened
            stored = stored_of(opened)
            found = None if stored is None else stored.read(region, keep)
            if found is not None:
                return found
            if hasattr(opened, "compute"):
                return np.asarray(opened[place].compute(scheduler="synchronous"))
            return np.asarray(opened[place])
        except Exception as fault:
            if isinstance(fault, KeepError):
                raise fault.__cause__ from None  # type: ignore[misc]
            where = ", ".join(f"{begin}:{end}" for begin, end in region)
            said = str(fault) or type(fault).__name__
            raise ValueError(f"{self.name} cannot be read at [{where}], and is perhaps damaged: {said}") from fault

    def close(self) -> None:
        """Close what this process has open of it."""
        with _opening:
            _open.pop((self.path or "", self.inner, self.stamp), (None, lambda: None))[1]()


def source_of(source: Any) -> Source:
    """Whatever was given, as a source."""
    if isinstance(source, str | Path):
        return _of_path(Path(source))
    if type(source) is np.ndarray or isinstance(source, np.memmap):
        return Source("the array", None, "", source.shape, source.dtype, None, array=source)
    if hasattr(source, "chunks") and hasattr(source, "compute"):
        if any(np.isnan(n) for n in source.shape):
            raise ValueError(f"the source has shape {source.shape}; call its compute_chunk_sizes() first")
        chunks = tuple(max(c) for c in source.chunks)
        return Source("the Dask array", None, "", source.shape, source.dtype, chunks, array=source)
    if hasattr(source, "shape") and hasattr(source, "store_path"):
        return Source("the Zarr array", None, "", source.shape, source.dtype, source.chunks, array=source)
    raise TypeError(
        f"source is a {type(source).__module__}.{type(source).__qualname__}; give a NumPy or Dask array, or the path "
        "of a .npy, TIFF, Zarr or OME-Zarr"
    )


def _of_path(path: Path) -> Source:
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file or folder")
    frame, inner, stamp = None, "", uuid4().hex
    if path.is_dir():
        frame, inner = _first_level(path)
    try:
        found = _opened(str(path.resolve()), inner, stamp)
        shape, dtype = tuple(found.shape), np.dtype(found.dtype)
        chunks = None if not hasattr(found, "chunks") else tuple(getattr(found, "shards", None) or found.chunks)
    except Exception as fault:
        raise ValueError(f"{path} cannot be read: {str(fault) or type(fault).__name__}") from fault
    return Source(str(path), str(path.resolve()), inner, shape, dtype, chunks, frame, stamp=stamp)


def _first_level(path: Path) -> tuple[Frame | None, str]:
    """The frame and the first level of an image of OME-Zarr; neither for a plain array of Zarr."""
    import zarr

    try:
        found = zarr.open(str(path), mode="r")
    except Exception as fault:
        raise ValueError(f"{path} is a folder, and no array or image of Zarr: {fault}") from fault
    if isinstance(found, zarr.Array):
        return None, ""
    known = frame_of(dict(found.attrs))
    if known is None:
        raise ValueError(f"{path} is a group of Zarr without an image of OME-Zarr; give the path of one of its arrays")
    return known


#: What this process has open, and how each is closed.
_open: dict[tuple[str, str, str], tuple[Any, Callable[[], None]]] = {}
_opening = Lock()
_MOST_OPEN = 16


def _opened(path: str, inner: str, stamp: str) -> Any:
    """What is read by boxes, opened once in a process."""
    key = path, inner, stamp
    with _opening:
        if key not in _open:
            while len(_open) >= _MOST_OPEN:
                _open.pop(next(iter(_open)))[1]()
            _open[key] = _reader(Path(path), inner)
        return _open[key][0]


def _reader(path: Path, inner: str) -> tuple[Any, Callable[[], None]]:
    if path.is_dir():
        import zarr

        found = zarr.open(str(path), mode="r")
        return found[inner] if inner else found, lambda: None
    with path.open("rb") as file:
        head = file.read(6)
    if head == b"\x93NUMPY":
        return np.load(path, mmap_mode="r", allow_pickle=False), lambda: None
    if head[:4] in TIFF_STARTS:
        return _tiff(path)
    raise ValueError("by its first bytes no .npy and no TIFF; give one of them, or a folder of Zarr")


def _tiff(path: Path) -> tuple[Any, Callable[[], None]]:
    """A TIFF of any size, of which only the tiles or strips that are asked for are read."""
    import tifffile
    import zarr

    store = tifffile.imread(path, aszarr=True, level=0)
    try:
        return zarr.open(store, mode="r"), store.close
    except Exception:
        store.close()
        raise
