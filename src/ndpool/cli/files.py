"""Arrays in and out of files and standard streams: images (PNG, TIFF, JPEG), `.npy` and `.npz`.

What a file holds is read from its first bytes. What it is to hold is said by its ending, or by --format.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .images import Picture

Array = NDArray[Any]


class Format(str, Enum):
    """How a format is called on the command line."""

    PNG = "png"
    TIFF = "tiff"
    JPEG = "jpeg"
    NPY = "npy"
    NPZ = "npz"


IMAGES = (Format.PNG, Format.TIFF, Format.JPEG)
ENDINGS = {
    ".png": Format.PNG,
    ".tif": Format.TIFF,
    ".tiff": Format.TIFF,
    ".jpg": Format.JPEG,
    ".jpeg": Format.JPEG,
    ".npy": Format.NPY,
    ".npz": Format.NPZ,
}
#: TIFF has two orders of bytes and two sizes of offsets; a .npz is a ZIP archive.
FIRST_BYTES = {
    b"\x89PNG\r\n\x1a\n": Format.PNG,
    b"II*\0": Format.TIFF,
    b"MM\0*": Format.TIFF,
    b"II+\0": Format.TIFF,
    b"MM\0+": Format.TIFF,
    b"\xff\xd8\xff": Format.JPEG,
    b"\x93NUMPY": Format.NPY,
    b"PK\3\4": Format.NPZ,
    b"PK\5\6": Format.NPZ,
}


@dataclass(frozen=True)
class Place:
    """A file, or, without a path, a standard stream. Its name is what messages say."""

    path: Path | None
    name: str

    @classmethod
    def of(cls, typed: str, stream: str) -> Place:
        """What was typed: `-` is the stream, and `./-` a file of that name."""
        return cls(None, stream) if typed == "-" else cls(Path(typed), typed)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Contents:
    """The arrays of a file by name, one alone under ''; of an image, also what its file says of the pixels."""

    format: Format
    arrays: dict[str, Array]
    picture: Picture | None = None


def format_of(target: Place, asked: Format | None, source: Format | None = None) -> Format:
    """What is asked for, or what the ending says; on standard output, the format of what was read."""
    if asked is not None:
        return asked
    if target.path is None:
        if source is None:
            raise ValueError(f"{target}: nothing says its format; give --format")
        return source
    ending = target.path.suffix
    if ending.lower() not in ENDINGS:
        raise ValueError(
            f"{target}: the ending {ending!r} says no format that is known; use one of {', '.join(ENDINGS)}, "
            "or give --format"
        )
    return ENDINGS[ending.lower()]


# --- reading --------------------------------------------------------------------------------------


def read(source: Place, page: int | None = None) -> Contents:
    """All that a file holds; of an image of several pages, one page if that is asked for."""
    with _opened(source) as file:
        head = file.read(8)
        file.seek(0)
        format_ = next((format_ for first, format_ in FIRST_BYTES.items() if head.startswith(first)), None)
        if format_ is None:
            raise ValueError(
                f"{source}: by its first bytes no PNG, TIFF, JPEG, .npy or .npz; convert it to one of them"
            )
        if page is not None and format_ not in IMAGES:
            raise ValueError(f"--page {page}: {source} is no image and has no pages; leave --page out")
        with readable(source, format_):
            if format_ in IMAGES:
                from . import images

                picture = images.read(file, format_, page)
                return Contents(format_, {"": picture.pixels}, picture)
            return Contents(format_, _read_npy(file) if format_ is Format.NPY else _read_npz(file))


class UnreadableError(ValueError):
    """A reason, and a remedy, why a sound file is not taken. The file's name is put before it."""


@contextmanager
def readable(source: Place, format_: Format) -> Iterator[None]:
    """What a decoder raises over a damaged file, of whatever type, becomes an error that names the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what is odd in a file and does not touch its numbers
            yield
    except UnreadableError as fault:
        raise ValueError(f"{source}: {fault}") from None
    except ModuleNotFoundError as missing:
        raise ValueError(f"{source}: {missing.name} is needed; install it with: pip install 'ndpool[cli]'") from None
    except MemoryError:
        raise MemoryError(
            f"{source}: there is not enough memory for what it holds; cut it into smaller files"
        ) from None
    except Exception as fault:
        reason = f"{fault}" or type(fault).__name__
        raise ValueError(
            f"{source}: not a {format_.value} file that can be read ({reason}); it is damaged, make it anew"
        ) from None


@contextmanager
def _opened(source: Place) -> Iterator[IO[bytes]]:
    """The file, or all that comes from a stream, in which one cannot go back."""
    if source.path is None:
        yield io.BytesIO(sys.stdin.buffer.read())
        return
    if source.path.is_dir():
        raise IsADirectoryError(f"{source}: this is a folder; name a file")
    if not source.path.exists():
        raise FileNotFoundError(f"{source}: there is no such file; check the name")
    with open(source.path, "rb") as file:
        yield file if file.seekable() else io.BytesIO(file.read())


def _read_npy(file: IO[bytes]) -> dict[str, Array]:
    found = np.load(file, allow_pickle=False)
    if file.read(1):
        raise UnreadableError("something follows the first array; save several arrays as .npz")
    return {"": found}


def _read_npz(file: IO[bytes]) -> dict[str, Array]:
    with np.load(file, allow_pickle=False) as found:
        arrays = {name: found[name] for name in found.files}
    if not arrays:
        raise UnreadableError("holds no array; give one that does")
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise UnreadableError(f"{name!r} in it is no array; leave it out of the .npz")
    return arrays


# --- writing --------------------------------------------------------------------------------------


def write_arrays(target: Place, format_: Format, arrays: dict[str, Array]) -> None:
    """Write `.npy` or `.npz`."""
    if format_ is Format.NPY:
        (array,) = arrays.values()
        write_whole(target, lambda file: np.save(file, array, allow_pickle=False))
    else:
        write_whole(target, lambda file: _save_npz(file, arrays))


def _save_npz(file: IO[bytes], arrays: dict[str, Array]) -> None:
    """What `np.savez` writes, for any names: it has arguments of its own, such as `file`."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name or 'y'}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def check_free(target: Place, force: bool) -> None:
    """Nothing is written over without being told so, and only into a folder that exists."""
    path = target.path
    if path is None:
        if sys.stdout.isatty():
            raise ValueError(
                "the result is not text for a terminal; send it to a file or a pipe, or name a file with -o"
            )
        return
    if path.is_dir():
        raise IsADirectoryError(f"{target}: this is a folder; name a file in it")
    if path.is_file() and not force:
        raise FileExistsError(f"{target} exists; give another name, or --force to write over it")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path.parent}: there is no such folder; make it first")


def write_whole(target: Place, save: Callable[[IO[bytes]], Any]) -> None:
    """What `save` writes: a file appears whole or not at all, and one that was there stays until then."""
    try:
        if target.path is None:
            _write_through(sys.stdout.buffer, save)
        elif target.path.exists() and not target.path.is_file():  # a pipe or a device, which must not be replaced
            with open(target.path, "wb") as file:
                _write_through(file, save)
        else:
            _write_beside(Path(os.path.realpath(target.path)), save)
    except OSError as fault:
        raise OSError(
            f"{target}: could not be written ({fault}); see to room and rights, or name another file"
        ) from None


def _write_through(stream: IO[bytes], save: Callable[[IO[bytes]], Any]) -> None:
    """Formats go back to fill in sizes, which a stream cannot."""
    whole = io.BytesIO()
    save(whole)
    stream.write(whole.getbuffer())
    stream.flush()


def _write_beside(path: Path, save: Callable[[IO[bytes]], Any]) -> None:
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".ndpool-")
    os.close(handle)
    try:
        with open(name, "wb") as file:
            save(file)
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _umask() -> int:
    """The mask of new files, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
