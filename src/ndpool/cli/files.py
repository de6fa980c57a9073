"""Arrays in and out of files: images (PNG, TIFF, JPEG), `.npy` and `.npz`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

IMAGES = {".png": "PNG", ".tif": "TIFF", ".tiff": "TIFF", ".jpg": "JPEG", ".jpeg": "JPEG"}
ARRAYS = (".npy", ".npz")
READABLE = {"L", "LA", "RGB", "RGBA", "I;16", "F", "I"}


def is_image(path: Path) -> bool:
    return path.suffix.lower() in IMAGES


def check_format(path: Path) -> None:
    """The ending of a file's name must say what it holds."""
    if path.suffix.lower() not in (*IMAGES, *ARRAYS):
        endings = ", ".join((*IMAGES, *ARRAYS))
        raise ValueError(f"{path}: the ending {path.suffix!r} says no format that is known; use one of {endings}")


def read(path: Path) -> dict[str, Array]:
    """The arrays in a file, by name; a file that holds one has it under ''."""
    check_format(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file")
    if is_image(path):
        return {"": _read_image(path)}
    try:
        found = np.load(path, allow_pickle=False)
        return {"": found} if path.suffix.lower() == ".npy" else dict(found)
    except (ValueError, EOFError, OSError, AttributeError, TypeError) as fault:
        raise ValueError(f"{path}: not a {path.suffix} file that can be read ({fault})") from None


def _read_image(path: Path) -> Array:
    """(height, width) or (height, width, channels). Palettes become colours, single bits become bytes."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            if image.mode in READABLE:
                return np.asarray(image)
            return np.asarray(
                image.convert("L" if image.mode == "1" else "RGBA" if "transparency" in image.info else "RGB")
            )
    except (UnidentifiedImageError, SyntaxError) as fault:
        raise ValueError(f"{path}: not an image that can be read ({fault})") from None


def write(path: Path, arrays: dict[str, Array]) -> None:
    """Write the arrays; the file appears whole or not at all."""
    if is_image(path):
        from PIL import Image

        image = Image.fromarray(arrays[""])
        _write_whole(path, lambda file: image.save(file, format=IMAGES[path.suffix.lower()]))
    elif path.suffix.lower() == ".npy":
        _write_whole(path, lambda file: np.save(file, arrays[""], allow_pickle=False))
    else:
        named: dict[str, Any] = {name or "y": array for name, array in arrays.items()}
        _write_whole(path, lambda file: np.savez(file, **named))


def _write_whole(path: Path, save: Callable[[IO[bytes]], Any]) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            save(file)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _umask() -> int:
    """The mask of new files, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def as_image(y: Array, like: Array, path: Path, clip: bool) -> Array:
    """A result as pixels of the input's type: to the nearest whole number, and refused beyond the type's range."""
    if y.ndim not in (2, 3) or (y.ndim == 3 and y.shape[2] not in (1, 2, 3, 4)):
        raise ValueError(f"{path}: a result of shape {y.shape} is no image; write .npy or .npz")
    dtype = like.dtype if like.dtype in (np.uint8, np.uint16) else np.dtype(np.uint8)
    if like.dtype.kind == "f" and path.suffix.lower() in (".tif", ".tiff") and y.ndim == 2:
        return y.astype(np.float32)
    if path.suffix.lower() in (".jpg", ".jpeg"):
        dtype = np.dtype(np.uint8)
    info = np.iinfo(dtype)
    if np.isnan(y).any():
        raise ValueError(f"{path}: the result has NaNs, which an image cannot hold; write .npy or .npz")
    if not clip and (y.min() < info.min or y.max() > info.max):
        raise ValueError(
            f"{path}: the result goes from {y.min():g} to {y.max():g} and its pixels hold {info.min} to {info.max}; "
            "write .npy or .npz, or give --clip"
        )
    pixels: Array = np.clip(np.rint(y) if y.dtype.kind == "f" else y, info.min, info.max).astype(dtype)
    return pixels[..., 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels
