"""Pixels in and out of images: what a file says of them, which way up they stand, what each format can hold.

Numbers are pooled as they are stored, channel by channel. Pillow reads and writes what it can without loss; 16-bit
colours in PNG are read by pypng, TIFF is read and written by tifffile.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import IO, Any

import numpy as np

from . import deep_png
from .files import Array, Format, Place, UnreadableError

#: The meanings of a channel that is no colour, as TIFF numbers them.
UNKNOWN, MULTIPLIED_ALPHA, ALPHA = 0, 1, 2

WHOLE = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
HOLDS = {
    Format.PNG: ("uint8", "uint16"),
    Format.JPEG: ("uint8",),
    Format.TIFF: (*WHOLE, "float16", "float32", "float64"),
}
INSTEAD = {Format.PNG: ".tif or .npy", Format.JPEG: ".png, .tif or .npy", Format.TIFF: ".npy"}

#: For each EXIF orientation: whether height and width are exchanged, and which of them are then reversed.
TURNS: dict[int, tuple[bool, tuple[int, ...]]] = {
    1: (False, ()),
    2: (False, (1,)),
    3: (False, (0, 1)),
    4: (False, (0,)),
    5: (True, ()),
    6: (True, (1,)),
    7: (True, (0, 1)),
    8: (True, (0,)),
}
ORIENTATION_TAG = 0x0112


@dataclass(frozen=True)
class Picture:
    """Pixels (pages..., height, width) or, with `channels`, (pages..., height, width, channels).

    `extras` are the meanings of the last channels, those that are no colours; None where nothing says them.
    """

    pixels: Array
    channels: bool
    extras: tuple[int, ...] | None = None
    profile: bytes | None = None
    gamma: float | None = None

    @property
    def axes(self) -> tuple[int, int]:
        """Height and width."""
        width = self.pixels.ndim - 1 - self.channels
        return width - 1, width

    @property
    def pages(self) -> int:
        return math.prod(self.pixels.shape[: self.axes[0]])

    @property
    def depth(self) -> int:
        """The number of channels."""
        return int(self.pixels.shape[-1]) if self.channels else 1

    def meanings(self) -> tuple[int, ...]:
        """`extras`, or what the number of channels usually means: grey or RGB, with alpha or without."""
        if self.extras is not None:
            return self.extras
        return {1: (), 2: (ALPHA,), 3: (), 4: (ALPHA,)}.get(self.depth, (UNKNOWN,) * (self.depth - 1))


def upright(x: Array, orientation: int, axes: tuple[int, int] = (0, 1)) -> Array:
    """Pixels as they are to be looked at.

    >>> upright(np.array([[1, 2, 3]]), 6)
    array([[1],
           [2],
           [3]])
    """
    exchanged, reversed_ = TURNS.get(orientation, TURNS[1])
    x = x.swapaxes(*axes) if exchanged else x
    flipped: Array = np.flip(x, tuple(axes[which] for which in reversed_))
    return flipped


# --- reading --------------------------------------------------------------------------------------


def read(file: IO[bytes], format_: Format, page: int | None) -> Picture:
    """The image in a file: all of its pages, or the one that is asked for."""
    if format_ is Format.TIFF:
        from . import tiff

        return tiff.read(file, page)
    bits = file.read(25)[24]
    file.seek(0)
    with opened(file) as image:
        pages = getattr(image, "n_frames", 1)
        chosen = chosen_pages(pages, page)
        deep = format_ is Format.PNG and bits == 16
        see_through = "transparency" in image.info and image.mode != "P"
        if not deep and not see_through:
            return by_pillow(image, chosen)
        if pages > 1:
            raise UnreadableError(
                f"it has {pages} pages of 16 bits or with a transparent colour, which are not read; save each as a file"
            )
        return _deep_png(file, image, see_through)


def _deep_png(file: IO[bytes], image: Any, see_through: bool) -> Picture:
    """By pypng, where Pillow cuts colours to 8 bits or leaves the transparent one as it is."""
    picture = _page_by_pillow(image)
    if not see_through and not picture.channels:
        return replace(picture, pixels=picture.pixels.astype(np.uint16))
    file.seek(0)
    pixels = upright(deep_png.read(file), image.getexif().get(ORIENTATION_TAG, 1))
    return replace(picture, pixels=pixels, channels=pixels.ndim == 3)


@contextmanager
def opened(file: IO[bytes]) -> Iterator[Any]:
    """An image of any size: Pillow's limit protects from files of strangers, and this one was named by the user."""
    from PIL import Image

    limit = Image.MAX_IMAGE_PIXELS
    Image.MAX_IMAGE_PIXELS = None
    try:
        with Image.open(file) as image:
            yield image
    finally:
        Image.MAX_IMAGE_PIXELS = limit


def chosen_pages(pages: int, page: int | None) -> Sequence[int]:
    if page is not None and page >= pages:
        raise UnreadableError(
            f"--page {page}: it has {pages} {'page' if pages == 1 else 'pages'}, and the first is --page 0"
        )
    return range(pages) if page is None else [page]


def by_pillow(image: Any, pages: Sequence[int]) -> Picture:
    """Pages by Pillow, which must not lose anything of them; several are stacked along a first axis."""
    found = []
    for page in pages:
        image.seek(page)
        found.append(_page_by_pillow(image))
    first = found[0]
    if len(found) == 1:
        return first
    kinds = {(picture.pixels.shape, picture.pixels.dtype.name) for picture in found}
    if len(kinds) > 1:
        sizes = " and ".join(sorted({" x ".join(map(str, shape)) for shape, _ in kinds}))
        raise UnreadableError(f"its {len(found)} pages differ ({sizes}); choose one, such as --page 0")
    return replace(first, pixels=np.stack([picture.pixels for picture in found]))


def _page_by_pillow(image: Any) -> Picture:
    """Palettes become colours, single bits become bytes, CMYK and YCbCr become RGB."""
    image.load()
    orientation, profile = image.getexif().get(ORIENTATION_TAG, 1), image.info.get("icc_profile")
    if image.mode in ("P", "PA"):
        image = image.convert("RGBA" if "transparency" in image.info or image.mode == "PA" else "RGB")
    elif image.mode == "1":
        image = image.convert("L")
    elif image.mode in ("CMYK", "YCbCr"):
        image = image.convert("RGB")
        profile = None  # it tells what the numbers were before
    pixels = np.asarray(image)
    if image.mode not in ("L", "LA", "RGB", "RGBA", "I;16", "I;16B", "I", "F"):
        raise UnreadableError(f"its pixels are of the sort {image.mode!r}, which is not read; save it as grey or RGB")
    pixels = upright(pixels.astype(pixels.dtype.newbyteorder("="), copy=False), orientation)
    return Picture(pixels, pixels.ndim == 3, profile=profile, gamma=image.info.get("gamma"))


# --- results as images ----------------------------------------------------------------------------


def result(y: Array, like: Picture, names: tuple[Place, Place], format_: Format, clip: bool) -> Picture:
    """A result as an image: pixels of the input's type, to the nearest whole number, refused beyond its range."""
    source, target = names
    dtype = like.pixels.dtype
    if dtype.name not in HOLDS[format_]:
        held = " and ".join(HOLDS[format_]) if len(HOLDS[format_]) < 3 else "numbers of 8 to 64 bits"
        raise ValueError(
            f"{target}: {_title(format_)} holds {held}, and {source} has {dtype}; {_instead(format_, dtype)}"
        )
    unchanged = like.depth == (y.shape[-1] if like.channels else 1)
    picture = replace(
        like,
        pixels=y,
        extras=like.extras if unchanged else None,
        profile=like.profile if unchanged else None,
    )
    check_shape(picture, names, format_)
    if dtype.kind == "f":
        return replace(picture, pixels=y.astype(dtype))
    return replace(picture, pixels=_whole_pixels(y, dtype, target, clip))


def _title(format_: Format) -> str:
    return format_.value.upper()


def _instead(format_: Format, dtype: np.dtype[Any]) -> str:
    scale = ", or scale it to whole numbers first" if dtype.kind == "f" else ""
    return f"write {INSTEAD[format_]}{scale}"


def check_shape(picture: Picture, names: tuple[Place, Place], format_: Format) -> None:
    """Whether the format has room for so many pages and such channels."""
    source, target = names
    shape, extras, instead = picture.pixels.shape, picture.meanings(), f"write {INSTEAD[format_]}"
    if picture.pixels.size == 0:
        raise ValueError(f"{target}: a result of shape {shape} has no pixels; write .npy or .npz")
    if format_ is Format.TIFF:
        return
    if picture.pages != 1:
        raise ValueError(f"{target}: {_title(format_)} holds one page and the result has {picture.pages}; {instead}")
    if MULTIPLIED_ALPHA in extras:
        raise ValueError(
            f"{target}: the colours of {source} are multiplied by its alpha, which {_title(format_)} cannot say; "
            f"{instead}"
        )
    if picture.depth - len(extras) not in (1, 3) or len(extras) > 1 or UNKNOWN in extras:
        raise ValueError(
            f"{target}: {_title(format_)} holds grey or RGB, and the result has {picture.depth} channels, "
            f"not all of which are colours or alpha; {instead}"
        )
    if format_ is Format.JPEG and extras:
        raise ValueError(f"{target}: JPEG has no alpha channel, and {source} has one; {instead}")


def _whole_pixels(y: Array, dtype: np.dtype[Any], target: Place, clip: bool) -> Array:
    """The nearest whole numbers; what the type cannot hold is clipped if that is asked for, and else refused."""
    info, rounded = np.iinfo(dtype), np.rint(y) if y.dtype.kind == "f" else y
    lowest, highest = rounded.min().item(), rounded.max().item()  # Python compares them with any integer exactly
    if math.isnan(lowest) or not (clip or (info.min <= lowest and highest <= info.max)):
        raise ValueError(
            f"{target}: the result goes from {y.min():g} to {y.max():g} and its pixels hold {info.min} to {info.max}; "
            "write .npy or .npz, or give --clip"
        )
    if y.dtype.kind != "f":
        return np.clip(y, info.min, info.max).astype(dtype)
    return _to_whole(rounded, dtype)


def _to_whole(y: Array, dtype: np.dtype[Any]) -> Array:
    """Whole floats as integers, clipped; the largest of 64 bits are no floats and need a hand of their own."""
    info = np.iinfo(dtype)
    below, above = y <= float(info.min), y >= float(info.max)
    pixels = np.where(below | above, 0, y).astype(dtype)
    pixels[below], pixels[above] = info.min, info.max
    return pixels


# --- writing --------------------------------------------------------------------------------------


def write(file: IO[bytes], picture: Picture, format_: Format) -> None:
    """The image as a file. Nothing is said of an orientation: the pixels stand upright."""
    if format_ is Format.TIFF:
        from . import tiff

        tiff.write(file, picture)
        return
    height, width = (picture.pixels.shape[axis] for axis in picture.axes)
    pixels = picture.pixels.reshape(height, width, *([picture.depth] if picture.depth > 1 else []))
    if pixels.dtype == np.uint16:
        deep_png.write(file, pixels, picture.profile, picture.gamma)
        return
    from PIL import Image, PngImagePlugin

    more: dict[str, Any] = {"icc_profile": picture.profile} if picture.profile else {}
    if format_ is Format.PNG and picture.gamma is not None:
        more["pnginfo"] = PngImagePlugin.PngInfo()
        more["pnginfo"].add(b"gAMA", deep_png.gamma_chunk(picture.gamma))
    Image.fromarray(np.ascontiguousarray(pixels)).save(file, format=_title(format_), **more)
