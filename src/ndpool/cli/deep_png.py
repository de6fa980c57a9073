"""PNG of 16 bits a channel and PNG with a transparent colour: what Pillow does not take without loss."""

from __future__ import annotations

import struct
import zlib
from typing import IO

import numpy as np

from .files import Array

LONGEST_CHUNK = 1 << 30
#: The colour types of a PNG, by the number of channels.
COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}


def read(file: IO[bytes]) -> Array:
    """(height, width) or (height, width, channels), bytes or 16 bits; a transparent colour becomes an alpha channel."""
    import png  # type: ignore[import-untyped]

    width, height, rows, info = png.Reader(file=file).read()
    deep = info["bitdepth"] == 16
    stored = np.empty((height, width, info["planes"]), np.uint16 if deep else np.uint8)
    for place, row in zip(stored, rows, strict=True):
        place.flat = np.frombuffer(row, stored.dtype)
    most = 65535 if deep else 255
    pixels: Array = stored * stored.dtype.type(most // ((1 << info["bitdepth"]) - 1))
    if "transparent" in info:
        opaque = (stored != np.atleast_1d(info["transparent"])).any(axis=-1, keepdims=True)
        pixels = np.concatenate([pixels, (opaque * most).astype(stored.dtype)], axis=-1)
    return pixels[..., 0] if pixels.shape[-1] == 1 else pixels


def write(file: IO[bytes], pixels: Array, profile: bytes | None, gamma: float | None) -> None:
    """Each row is stored as its difference from the one above, modulo 256 in each byte: filter 2 of PNG."""
    height, width = pixels.shape[:2]
    rows = np.ascontiguousarray(pixels, ">u2").view(np.uint8).reshape(height, -1)
    filtered = np.full((height, 1 + rows.shape[1]), 2, np.uint8)
    filtered[0, 1:] = rows[0]
    np.subtract(rows[1:], rows[:-1], out=filtered[1:, 1:])
    colour_type = COLOUR_TYPES[pixels.shape[2] if pixels.ndim == 3 else 1]
    file.write(b"\x89PNG\r\n\x1a\n")
    _chunk(file, b"IHDR", struct.pack(">IIBBBBB", width, height, 16, colour_type, 0, 0, 0))
    if gamma is not None:
        _chunk(file, b"gAMA", gamma_chunk(gamma))
    if profile:
        _chunk(file, b"iCCP", b"profile\0\0" + zlib.compress(profile))
    packed = zlib.compress(filtered.tobytes())
    for start in range(0, len(packed), LONGEST_CHUNK):
        _chunk(file, b"IDAT", packed[start : start + LONGEST_CHUNK])
    _chunk(file, b"IEND", b"")


def _chunk(file: IO[bytes], name: bytes, data: bytes) -> None:
    file.write(struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)))


def gamma_chunk(gamma: float) -> bytes:
    return struct.pack(">I", round(gamma * 100_000))
