"""TIFF by tifffile: every page, every sample format. What it cannot decode is left to Pillow if nothing is lost by it.

A file of one series (equal pages, or a hyperstack of ImageJ or OME) becomes one array. Copies of less resolution, such
as thumbnails and the levels of a pyramid, are left out.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import IO, Any

import numpy as np

from .files import Array, UnreadableError
from .frameworks import silence
from .images import ORIENTATION_TAG, UNKNOWN, Picture, by_pillow, chosen_pages, opened, upright

MIN_IS_WHITE, MIN_IS_BLACK, RGB, PALETTE, SEPARATED, YCBCR = 0, 1, 2, 3, 5, 6
PROFILE_TAG, UNCOMPRESSED = 34675, 1
LARGEST_CLASSIC = 4_000_000_000  # bytes of pixels, beyond which a TIFF has offsets of 64 bits
WHOLE_BITS = (1, 2, 4, 8, 16, 32, 64)
NO_DECODER = ("imagecodecs", "not supported")  # what tifffile says of a compression that it does not read
REMEDY = "save it as grey or RGB, of 8, 16, 32 or 64 bits"


@dataclass(frozen=True)
class _Series:
    """Pages that make one array, and the letters of its axes: Y is height, X is width, S are the channels."""

    pages: Sequence[Any]
    shape: tuple[int, ...]
    axes: str
    number: int | None  # among the file's series; None where the pages are stacked here

    @property
    def first(self) -> Any:
        return self.pages[0]

    def leading(self) -> tuple[int, ...]:
        """The axes before height, width and channels; an axis of length 1 is none."""
        return tuple(n for n, letter in zip(self.shape, self.axes, strict=True) if letter not in "YXS" and n != 1)

    def arranged(self, x: Array) -> Array:
        """The array as (pages..., height, width) or (pages..., height, width, channels)."""
        others = [i for i, letter in enumerate(self.axes) if letter not in "YXS"]
        order = [*others, self.axes.index("Y"), self.axes.index("X")]
        channels = [self.axes.index("S")] if "S" in self.axes else []
        x = x.transpose(order + channels)
        height_width = x.shape[len(others) : len(others) + 2]
        depth = x.shape[-1:] if channels and x.shape[-1] != 1 else ()
        return x.reshape(*self.leading(), *height_width, *depth)


def read(file: IO[bytes], page: int | None) -> Picture:
    """All pages of a TIFF, or the one that is asked for."""
    import tifffile

    with _no_complaints(), tifffile.TiffFile(file) as tif:
        series = _only_series(tif, page)
        _check(series)
        if int(series.first.photometric) in (SEPARATED, YCBCR):
            return _by_pillow(file, series, _not_read(series.first.photometric))
        try:
            stored = _stored(tif, series)
        except Exception as fault:
            if not isinstance(fault, ImportError) and not any(words in str(fault) for words in NO_DECODER):
                raise
            compression = f"it is compressed by {series.first.compression.name} and of {series.first.dtype}"
            return _by_pillow(file, series, f"{compression}; install what reads that: pip install imagecodecs")
        return _picture(series, series.arranged(stored))


@contextmanager
def _no_complaints() -> Iterator[None]:
    """An error of what tifffile only logs: it goes on without the pages that it could not find.

    Complaints about a tag are let pass: if it was one that matters, others follow.
    """
    found: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("tifffile")
    propagated, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagated
    serious = [complaint for complaint in found if "Tag" not in complaint]
    if serious:
        raise ValueError(serious[0])


# --- which pages ----------------------------------------------------------------------------------


def _only_series(tif: Any, page: int | None) -> _Series:
    if page is not None:
        chosen_pages(len(tif.pages), page)
        return _stack([tif.pages[page]])
    whole = [(number, series) for number, series in enumerate(tif.series) if not series.keyframe.is_reduced]
    if len(whole) == 1:
        ((number, series),) = whole
        return _Series(list(series.pages), series.get_shape(squeeze=False), series.get_axes(squeeze=False), number)
    pages = [each for each in tif.pages if not each.is_reduced]
    if not pages:
        raise ValueError("it has no page")
    kinds = {(each.shape, each.axes, str(each.dtype), each.photometric) for each in pages}
    if len(kinds) != 1:
        sizes = " and ".join(sorted({" x ".join(map(str, shape)) for shape, *_ in kinds}))
        raise UnreadableError(f"its {len(pages)} pages differ ({sizes}); choose one, such as --page 0")
    return _stack(pages)


def _stack(pages: Sequence[Any]) -> _Series:
    return _Series(pages, (len(pages), *pages[0].shape), "I" + pages[0].axes, None)


def _stored(tif: Any, series: _Series) -> Array:
    if series.number is None:
        return np.stack([page.asarray() for page in series.pages])
    x: Array = tif.asarray(series=series.number, squeeze=False)
    return x.reshape(series.shape)


def _check(series: _Series) -> None:
    """Whether the pages belong together and their numbers can be told."""
    if any(page is None for page in series.pages):
        raise UnreadableError("some of the pages that it speaks of are not in it; choose one that is, such as --page 0")
    if series.axes.count("Y") != 1 or series.axes.count("X") != 1 or series.axes.count("S") > 1:
        raise UnreadableError(
            f"its axes are {series.axes}, which is no image; choose a page, such as --page 0, or save it as .npy"
        )
    first = series.first
    if first.dtype is None or first.dtype.kind not in "biuf" or first.bitspersample not in WHOLE_BITS:
        sample = {1: "unsigned", 2: "signed", 3: "floats"}.get(int(first.sampleformat), "no real numbers")
        raise UnreadableError(f"its samples are {sample} of {first.bitspersample} bits, which are not read; {REMEDY}")
    ways = {(_tag(page, ORIENTATION_TAG, 1), np.asarray(_colours(page)).tobytes()) for page in series.pages}
    if len(ways) > 1:
        raise UnreadableError("its pages differ in orientation or palette; choose one, such as --page 0")


def _tag(page: Any, code: int, otherwise: Any = None) -> Any:
    """The value of a tag; a frame of a uniform series has those of the series' first page."""
    tags = getattr(page, "tags", None) or page.keyframe.tags
    return tags.valueof(code, otherwise)


def _colours(page: Any) -> Any:
    return getattr(page, "colormap", None)


# --- what the numbers mean ------------------------------------------------------------------------


def _picture(series: _Series, x: Array) -> Picture:
    first = series.first
    channels = x.ndim - len(series.leading()) == 3
    photometric, bits = int(first.photometric), first.bitspersample
    if photometric == PALETTE and x.dtype.kind in "bu" and not channels:
        x, channels = _by_palette(x, _colours(first)), True
    elif photometric not in (MIN_IS_WHITE, MIN_IS_BLACK, RGB):
        raise UnreadableError(_not_read(first.photometric))
    elif bits < 8:
        x = x.astype(np.uint8) * np.uint8(255 // ((1 << bits) - 1))
    if photometric == MIN_IS_WHITE:
        x = _inverted(x, channels)
    x = x.astype(x.dtype.newbyteorder("="), copy=False)
    extras = _extras(first, x.shape[-1]) if channels and photometric != PALETTE else None
    picture = Picture(x, channels, extras, _tag(first, PROFILE_TAG))
    return replace(picture, pixels=upright(x, _tag(first, ORIENTATION_TAG, 1), picture.axes))


def _not_read(photometric: Any) -> str:
    return f"its colours are {photometric.name}, which are not read at this depth; {REMEDY}"


def _extras(page: Any, depth: int) -> tuple[int, ...]:
    """The meanings of the channels after the colours; of those that the file is silent about, unknown."""
    said = tuple(int(each) for each in page.extrasamples)
    return (UNKNOWN,) * (depth - (3 if int(page.photometric) == RGB else 1) - len(said)) + said


def _by_palette(x: Array, colours: Array) -> Array:
    """RGB of 16 bits, as palettes have them; of 8 where those are all that there is in them."""
    high, low = colours >> 8, colours & 255
    if not low.any() or (high == low).all():
        colours = high.astype(np.uint8)
    return np.moveaxis(colours[:, x.astype(np.intp)], 0, -1)


def _inverted(x: Array, channels: bool) -> Array:
    """Numbers that grow with brightness, from those of which 0 is white."""
    if x.dtype.kind != "u":
        raise UnreadableError(f"0 is white in it and its numbers are {x.dtype}; {REMEDY}")
    x = x.copy()
    grey = x[..., 0] if channels else x
    np.subtract(np.iinfo(x.dtype).max, grey, out=grey)
    return x


def _by_pillow(file: IO[bytes], series: _Series, otherwise: str) -> Picture:
    """Pillow knows more compressions than tifffile without imagecodecs, and fewer sorts of numbers."""
    first, leading = series.first, series.leading()
    plain = series.number is None or len(series.pages) == math.prod(leading)
    if not plain or not _lossless_by_pillow(first):
        raise UnreadableError(otherwise)
    file.seek(0)
    with silence(), opened(file) as image:
        turned = _tag(first, ORIENTATION_TAG, 1) != 1
        if turned and image.n_frames > 1 and int(first.compression) == UNCOMPRESSED:  # Pillow turns such pages wrongly
            raise UnreadableError(
                f"it has several pages, {first.photometric.name}, that do not stand upright; {REMEDY}"
            )
        found = by_pillow(image, [page.index for page in series.pages])
    height_width = found.pixels.shape[found.axes[0] :]
    return replace(found, pixels=found.pixels.reshape(*leading, *height_width))


def _lossless_by_pillow(page: Any) -> bool:
    """Whether Pillow gives all bits of this sort of pixels, with their meaning."""
    photometric, extras = int(page.photometric), tuple(int(each) for each in page.extrasamples)
    if page.dtype.kind in "bu" and page.bitspersample <= 8:
        depth = {MIN_IS_WHITE: 1, MIN_IS_BLACK: 1, RGB: 3, PALETTE: 1, SEPARATED: 4, YCBCR: 3}.get(photometric)
        return depth is not None and page.samplesperpixel - depth == len(extras) and extras in ((), (2,))
    return (
        photometric == MIN_IS_BLACK and page.samplesperpixel == 1 and page.dtype.name in ("uint16", "int32", "float32")
    )


# --- writing --------------------------------------------------------------------------------------


def write(file: IO[bytes], picture: Picture) -> None:
    """All pages, one after the other, without compression; pages along several axes in row-major order."""
    import tifffile

    extras, depth = picture.meanings(), picture.depth
    height_width = tuple(picture.pixels.shape[axis] for axis in picture.axes)
    pages = picture.pixels.reshape(-1, *height_width, *([depth] if depth > 1 else []))
    with tifffile.TiffWriter(file, bigtiff=picture.pixels.nbytes > LARGEST_CLASSIC) as writer:
        for page in pages:
            writer.write(
                page,
                photometric="rgb" if depth - len(extras) == 3 else "minisblack",
                planarconfig="contig" if depth > 1 else None,
                extrasamples=extras if depth > 1 else None,
                iccprofile=picture.profile,
                software="ndpool",
                metadata=None,
            )
