"""Files of the command line: every sort of pixel comes in as it is, or is refused by name, and goes out whole."""

from __future__ import annotations

import dataclasses
import io
import logging
import os
import struct
import subprocess
import sys
import zipfile
import zlib
from types import SimpleNamespace

import numpy as np
import png
import pytest
import tifffile
from PIL import Image, ImageOps

import ndpool
from ndpool import Avg, Pool, Window
from ndpool.cli import deep_png, files, images, main, tiff
from ndpool.cli.files import Format, Place
from ndpool.cli.images import Picture

rng = np.random.default_rng(5)


def some(shape, dtype):
    """Numbers of the whole range of a type."""
    if np.dtype(dtype).kind == "f":
        return (rng.standard_normal(shape) * 100).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


GREY, COLOUR, DEEP = some((5, 7), np.uint8), some((5, 7, 3), np.uint8), some((5, 7, 3), np.uint16)
STACK = some((4, 5, 7), np.uint16)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def ndpool_says(capfd):
    """What `ndpool ARGUMENTS` prints, from C too: one line on the error stream after a failure, and nothing else."""

    def run(arguments, code=0):
        capfd.readouterr()
        returned = main(arguments.split())
        printed = capfd.readouterr()
        assert returned == code, printed
        if code == 2:
            assert printed.out == ""
            (line,) = printed.err.splitlines()
            assert line.startswith("ndpool: ")
            return line
        assert printed.err == ""
        return printed.out

    return run


def read(name, page=None):
    return files.read(Place.of(name, "standard input"), page).picture


def assert_pixels(name, expected, page=None, channels=None):
    """A file gives these numbers, of this type, and the last axis for channels."""
    found = read(name, page)
    assert found.pixels.dtype == expected.dtype
    assert found.pixels.dtype.isnative
    np.testing.assert_array_equal(found.pixels, expected, strict=True)
    assert found.channels == (expected.ndim == 3 if channels is None else channels)
    return found


# --- TIFF -----------------------------------------------------------------------------------------

SAMPLES = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64")


@pytest.mark.parametrize("dtype", SAMPLES)
def test_tiff_of_every_sample_format(ndpool_says, dtype):
    x = some((3, 5, 7), dtype)
    tifffile.imwrite("in.tif", x, photometric="minisblack", metadata=None)
    said = ndpool_says("pool in.tif -o out.tif --kernel 2")
    assert "axes=(1, 2)): (3, 5, 7) to (3, 2, 3), in out.tif" in said
    y = tifffile.imread("out.tif")
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, ndpool.max_pool(x, (2, 2)))


@pytest.mark.parametrize("dtype", ["uint8", "float64"])
@pytest.mark.parametrize(
    ("shape", "channels"),
    [
        ((5, 7), False),
        ((4, 5, 7), False),
        ((5, 7, 2), True),
        ((5, 7, 3), True),
        ((5, 7, 4), True),
        ((5, 7, 9), True),
        ((4, 5, 7, 3), True),
        ((3, 5, 7, 5), True),
        ((1, 1), False),
        ((5, 1), False),
        ((3, 1, 1), False),  # what a global pool of pages leaves
        ((2, 1, 1, 3), True),
        ((1, 1, 3), True),
    ],
)
def test_tiff_comes_back_as_it_went(dtype, shape, channels):
    x = some(shape, dtype)
    with open("a.tif", "wb") as file:
        tiff.write(file, Picture(x, channels, profile=b"a profile"))
    found = assert_pixels("a.tif", x, channels=channels)
    assert found.meanings() == Picture(x, channels).meanings()
    assert found.profile == b"a profile"
    with tifffile.TiffFile("a.tif") as tif:
        assert len(tif.pages) == (shape[0] if len(shape) - channels == 3 else 1)


def test_pages_along_several_axes_are_written_in_order():
    x = some((2, 3, 5, 7), np.uint16)
    with open("a.tif", "wb") as file:
        tiff.write(file, Picture(x, False))
    assert_pixels("a.tif", x.reshape(6, 5, 7), channels=False)


LAYOUTS = {
    "planar": (np.moveaxis(DEEP, -1, 0), DEEP, {"photometric": "rgb", "planarconfig": "separate"}),
    "deflate": (DEEP, DEEP, {"photometric": "rgb", "compression": "zlib"}),
    "predictor": (DEEP, DEEP, {"photometric": "rgb", "compression": "zlib", "predictor": True}),
    "other byte order": (STACK, STACK, {"photometric": "minisblack", "byteorder": ">"}),
    "64-bit offsets": (STACK, STACK, {"photometric": "minisblack", "bigtiff": True}),
    "tiles": (STACK, STACK, {"photometric": "minisblack", "tile": (16, 16)}),
    "one page": (GREY, GREY, {"metadata": None}),
    "white is 0": (GREY, 255 - GREY, {"photometric": "miniswhite"}),
    "white is 0, 16 bits": (STACK, 65535 - STACK, {"photometric": "miniswhite"}),
    "bits": (GREY > 99, (GREY > 99) * np.uint8(255), {"photometric": "minisblack"}),
    "bits, white is 0": (GREY > 99, (GREY <= 99) * np.uint8(255), {"photometric": "miniswhite"}),
    "ImageJ": (
        STACK.reshape(2, 2, 5, 7),
        STACK.reshape(2, 2, 5, 7),
        {"imagej": True, "metadata": {"axes": "ZCYX"}},
    ),
    "OME": (STACK.reshape(2, 2, 5, 7), STACK.reshape(2, 2, 5, 7), {"ome": True, "metadata": {"axes": "ZCYX"}}),
    "OME, one time": (STACK.reshape(1, 4, 5, 7), STACK, {"ome": True, "metadata": {"axes": "TCYX"}}),
    "tifffile's own": (STACK.reshape(2, 2, 5, 7), STACK.reshape(2, 2, 5, 7), {"photometric": "minisblack"}),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_tiff_of_every_layout(layout):
    stored, expected, options = LAYOUTS[layout]
    tifffile.imwrite("a.tif", stored, **options)
    assert_pixels("a.tif", expected, channels=expected is DEEP)


def test_a_page_may_be_chosen(ndpool_says):
    tifffile.imwrite("in.tif", STACK, photometric="minisblack", metadata=None)
    ndpool_says("pool in.tif -o out.png --kernel 2 --page 2")
    np.testing.assert_array_equal(load("out.png"), ndpool.max_pool(STACK[2], (2, 2)))
    assert "in.tif: --page 4: it has 4 pages, and the first is --page 0" in ndpool_says(
        "pool in.tif -o no.png --kernel 2 --page 4", code=2
    )
    assert "'--page'" in ndpool_says("pool in.tif -o no.png --kernel 2 --page -1", code=2)
    assert "out.png: PNG holds one page and the result has 4; write .tif or .npy" in ndpool_says(
        "pool in.tif -o out.png --kernel 2 --force", code=2
    )


def test_pages_that_differ_are_refused_by_name(ndpool_says):
    with tifffile.TiffWriter("in.tif") as writer:
        writer.write(GREY, metadata=None)
        writer.write(GREY[:3], metadata=None)
    assert "in.tif: its 2 pages differ (3 x 7 and 5 x 7); choose one, such as --page 0" in ndpool_says(
        "pool in.tif -o out.tif --kernel 2", code=2
    )
    assert_pixels("in.tif", GREY[:3], page=1)
    with tifffile.TiffWriter("in.tif") as writer:  # not by what they hold, only by how it is stored
        writer.write(GREY, metadata=None)
        writer.write(255 - GREY, metadata=None, compression="zlib")
    assert_pixels("in.tif", np.stack([GREY, 255 - GREY]), channels=False)


def test_copies_of_less_resolution_are_left_out():
    with tifffile.TiffWriter("below.tif") as writer:
        writer.write(GREY, metadata=None, subifds=1)
        writer.write(GREY[::2, ::2], subfiletype=1, metadata=None)
    with tifffile.TiffWriter("after.tif") as writer:
        writer.write(GREY, metadata=None)
        writer.write(GREY[::2, ::2], subfiletype=1, metadata=None)
    assert_pixels("below.tif", GREY)
    assert_pixels("after.tif", GREY)


def test_palettes_of_tiff_become_colours(ndpool_says):
    palette = rng.integers(0, 65536, (3, 256), np.uint16)
    tifffile.imwrite("in.tif", GREY, photometric="palette", colormap=palette)
    assert_pixels("in.tif", np.moveaxis(palette[:, GREY], 0, -1))
    for scale in (256, 257):  # both are in use for bytes
        tifffile.imwrite("in.tif", GREY, photometric="palette", colormap=palette // 256 * np.uint16(scale))
        assert_pixels("in.tif", np.moveaxis((palette // 256).astype(np.uint8)[:, GREY], 0, -1))
    with tifffile.TiffWriter("in.tif") as writer:
        for colours in (palette, palette[::-1]):
            writer.write(GREY, photometric="palette", colormap=colours, metadata=None, contiguous=False)
    assert "its pages differ in orientation or palette; choose one, such as --page 0" in ndpool_says(
        "pool in.tif -o out.tif --kernel 2", code=2
    )
    assert_pixels("in.tif", np.moveaxis(palette[::-1][:, GREY], 0, -1), page=1)


BY_PILLOW = {
    "colours, LZW": ("RGB", "tiff_lzw"),
    "alpha, LZW": ("RGBA", "tiff_lzw"),
    "grey and alpha, LZW": ("LA", "tiff_lzw"),
    "grey, LZW": ("L", "tiff_lzw"),
    "bits, fax": ("1", "group4"),
    "palette, LZW": ("P", "tiff_lzw"),
    "CMYK": ("CMYK", None),
}


@pytest.mark.parametrize("sort", BY_PILLOW)
def test_what_tifffile_cannot_decode_is_read_by_pillow(sort):
    mode, compression = BY_PILLOW[sort]
    image = Image.fromarray(COLOUR).convert(mode)
    image.save("a.tif", compression=compression)
    plain = image.convert({"1": "L", "P": "RGB", "CMYK": "RGB"}.get(mode, mode))
    assert_pixels("a.tif", np.asarray(plain))


def test_a_tiff_of_jpeg_becomes_rgb():
    Image.fromarray(COLOUR).convert("YCbCr").save("a.tif", compression="jpeg")
    with tifffile.TiffFile("a.tif") as tif:
        assert tif.pages[0].photometric.name == "YCBCR"
    with Image.open("a.tif") as image:
        expected = np.asarray(image.convert("RGB"))
    assert_pixels("a.tif", expected)


@pytest.mark.parametrize("dtype", ["uint16", "int32", "float32"])
def test_deep_grey_by_lzw(dtype):
    x = some((5, 7), dtype)
    Image.fromarray(x).save("a.tif", compression="tiff_lzw")
    assert_pixels("a.tif", x)


def test_pages_by_lzw():
    first, *others = (Image.fromarray(x) for x in STACK)
    first.save("a.tif", save_all=True, append_images=others, compression="tiff_lzw")
    assert_pixels("a.tif", STACK, channels=False)
    assert_pixels("a.tif", STACK[3], page=3)


def retagged(name, **values):
    """The same file with other values in short tags, which says what no encoder here would."""
    with tifffile.TiffFile(name) as tif:
        places = {tag.name: tag.valueoffset for tag in tif.pages[0].tags}
    with open(name, "r+b") as file:
        for tag, value in values.items():
            file.seek(places[tag])
            file.write(struct.pack("<H", value))


def test_colours_that_are_not_read_are_refused_by_name(ndpool_says):
    refused = {
        "CIELAB": (COLOUR, {"photometric": "cielab"}),
        "SEPARATED": (some((5, 7, 4), np.uint16), {"photometric": "separated"}),
        "no real numbers of 64 bits": (GREY.astype(np.complex64), {}),
        "0 is white in it and its numbers are float32": (GREY.astype(np.float32), {"photometric": "miniswhite"}),
    }
    for reason, (x, options) in refused.items():
        tifffile.imwrite("in.tif", x, **options)
        line = ndpool_says("pool in.tif -o out.tif --kernel 2", code=2)
        assert "ndpool: in.tif: " in line
        assert reason in line
        assert "save it as grey or RGB, of 8, 16, 32 or 64 bits" in line
    tifffile.imwrite("in.tif", GREY, metadata=None)
    retagged("in.tif", BitsPerSample=12)
    assert "its samples are unsigned of 12 bits" in ndpool_says("pool in.tif -o out.tif --kernel 2", code=2)


def test_a_compression_that_nobody_reads_says_what_to_install(ndpool_says, monkeypatch):
    tifffile.imwrite("in.tif", DEEP, photometric="rgb", metadata=None)
    retagged("in.tif", Compression=5)
    line = ndpool_says("pool in.tif -o out.tif --kernel 2", code=2)
    assert "in.tif: it is compressed by LZW and of uint16; install what reads that: pip install imagecodecs" in line
    missing = ModuleNotFoundError("No module named 'zstandard'", name="zstandard")
    monkeypatch.setattr(tiff, "_stored", lambda *_: (_ for _ in ()).throw(missing))
    Image.fromarray(COLOUR).save("in.tif")
    assert_pixels("in.tif", COLOUR)


def four_bits(photometric, x):
    """An uncompressed TIFF of four bits a sample, by hand."""
    packed = (x[:, ::2] << 4 | x[:, 1::2]).tobytes()
    height, width = x.shape
    tags = [(256, width), (257, height), (258, 4), (259, 1), (262, photometric), (273, 122), (277, 1), (278, height)]
    tags.append((279, len(packed)))
    entries = b"".join(struct.pack("<HHII", code, 4, 1, value) for code, value in tags)
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + struct.pack("<I", 0) + packed


def test_four_bits_become_bytes():
    x = rng.integers(0, 16, (5, 8), np.uint8)
    for photometric, expected in ((1, x * np.uint8(17)), (0, 255 - x * np.uint8(17))):
        with open("a.tif", "wb") as file:
            file.write(four_bits(photometric, x))
        assert_pixels("a.tif", expected)


def test_pages_that_are_not_there_are_no_zeros(ndpool_says):
    tifffile.imwrite("in.tif", STACK[:2], ome=True, metadata={"axes": "ZYX"})
    with open("in.tif", "rb") as file:
        whole = file.read()
    with open("in.tif", "wb") as file:
        file.write(whole.replace(b'SizeZ="2"', b'SizeZ="5"'))
    assert "in.tif: some of the pages that it speaks of are not in it" in ndpool_says(
        "pool in.tif -o out.tif --kernel 2", code=2
    )
    assert_pixels("in.tif", STACK[1], page=1)


def test_a_tiff_that_was_cut_never_gives_fewer_pages(ndpool_says):
    whole = io.BytesIO()
    with tifffile.TiffWriter(whole) as writer:
        for page in STACK:
            writer.write(page, metadata=None, contiguous=False)
    for length in range(8, len(whole.getvalue()), 23):
        with open("in.tif", "wb") as file:
            file.write(whole.getvalue()[:length])
        try:
            found = read("in.tif")
        except ValueError as fault:
            assert str(fault).startswith("in.tif: ")  # noqa: PT017
        else:
            np.testing.assert_array_equal(found.pixels, STACK)


def test_pages_that_cannot_be_found_are_missed():
    with tifffile.TiffWriter("a.tif") as writer:
        for page in STACK:
            writer.write(page, metadata=None, contiguous=False)
    with tifffile.TiffFile("a.tif") as tif:
        second = tif.pages[1]
        next_page = second.offset + 2 + 12 * len(second.tags)
    with open("a.tif", "r+b") as file:
        file.seek(next_page)
        file.write(struct.pack("<I", 1 << 30))
    with pytest.raises(ValueError, match=r"a.tif: not a tiff file that can be read \(.*page.*\); it is damaged"):
        read("a.tif")
    logged = logging.getLogger("tifffile")
    assert logged.propagate
    assert not [handler for handler in logged.handlers if handler.level == logging.WARNING]


def test_a_thumbnail_may_come_first():
    with tifffile.TiffWriter("a.tif") as writer:
        writer.write(COLOUR[:2, :3], subfiletype=1, photometric="rgb", metadata=None)
        writer.write(STACK[0], metadata=None)
        writer.write(STACK[1], metadata=None, compression="zlib")
    assert_pixels("a.tif", STACK[:2], channels=False)
    with tifffile.TiffWriter("a.tif") as writer:
        writer.write(COLOUR[:2, :3], subfiletype=1, photometric="rgb", metadata=None)
        writer.write(STACK[0], metadata=None)
    assert_pixels("a.tif", STACK[0])


def test_alpha_stays_where_white_is_0():
    two = some((5, 7, 2), np.uint8)
    tifffile.imwrite("a.tif", two, photometric="miniswhite", planarconfig="contig", extrasamples=["unassalpha"])
    assert_pixels("a.tif", np.stack([255 - two[..., 0], two[..., 1]], -1))


def test_a_channel_of_which_nothing_is_said_is_no_alpha(ndpool_says):
    two = some((5, 7, 2), np.uint8)
    tifffile.imwrite("in.tif", two, photometric="minisblack", planarconfig="contig", extrasamples=["unassalpha"])
    with tifffile.TiffFile("in.tif") as tif:
        place = tif.pages[0].tags["ExtraSamples"].offset
    with open("in.tif", "r+b") as file:
        file.seek(place)
        file.write(struct.pack("<H", 339))  # another tag in its place: that the samples are unsigned
        file.seek(place + 8)
        file.write(struct.pack("<H", 1))
    assert assert_pixels("in.tif", two).extras == (0,)
    assert "2 channels, not all of which are colours or alpha" in ndpool_says(
        "pool in.tif -o out.png --kernel 2", code=2
    )


@pytest.mark.parametrize("meaning", [images.UNKNOWN, images.MULTIPLIED_ALPHA])
def test_channels_whose_meaning_pillow_loses_are_not_read_by_it(ndpool_says, meaning):
    Image.fromarray(COLOUR).convert("RGBA").save("in.tif", compression="tiff_lzw")
    retagged("in.tif", ExtraSamples=meaning)
    line = ndpool_says("pool in.tif -o out.tif --kernel 2", code=2)
    assert "in.tif: it is compressed by LZW and of uint8; install what reads that: pip install imagecodecs" in line


def test_channels_keep_their_meaning(ndpool_says):
    four = some((5, 7, 4), np.uint8)
    for meaning, number in (("unspecified", 0), ("assocalpha", 1), ("unassalpha", 2)):
        tifffile.imwrite("in.tif", four, photometric="rgb", extrasamples=[meaning])
        ndpool_says("pool in.tif -o out.tif --kernel 2 --force")
        with tifffile.TiffFile("out.tif") as tif:
            assert tuple(tif.pages[0].extrasamples) == (number,)
            assert tif.pages[0].photometric.name == "RGB"
        if number == 2:
            ndpool_says("pool in.tif -o out.png --kernel 2")
            assert load("out.png").shape == (2, 3, 4)
        else:
            line = ndpool_says("pool in.tif -o no.png --kernel 2", code=2)
            expected = {0: "4 channels, not all of which are colours or alpha", 1: "multiplied by its alpha"}[number]
            assert expected in line
            assert "write .tif or .npy" in line
    tifffile.imwrite("in.tif", COLOUR, photometric="minisblack", planarconfig="contig")
    assert "3 channels, not all of which are colours" in ndpool_says("pool in.tif -o no.png --kernel 2", code=2)
    ndpool_says("pool in.tif -o out.tif --kernel 2 --force")
    with tifffile.TiffFile("out.tif") as tif:
        assert tif.pages[0].photometric.name == "MINISBLACK"
        assert tif.pages[0].samplesperpixel == 3


# --- PNG ------------------------------------------------------------------------------------------


def load(name):
    with Image.open(name) as image:
        return np.asarray(image)


def save_png(name, x, bits=16, **options):
    """By pypng: greyscale or colours, with alpha or without."""
    depth = x.shape[2] if x.ndim == 3 else 1
    writer = png.Writer(x.shape[1], x.shape[0], greyscale=depth < 3, alpha=depth in (2, 4), bitdepth=bits, **options)
    with open(name, "wb") as file:
        writer.write(file, x.reshape(x.shape[0], -1).tolist())


def load_png(name):
    with open(name, "rb") as file:
        width, height, rows, info = png.Reader(file=file).read()
        x = np.array([list(row) for row in rows]).reshape(height, width, info["planes"])
    return x, info["bitdepth"]


@pytest.mark.parametrize("interlace", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_sixteen_bits_of_every_channel(ndpool_says, depth, interlace):
    x = some((5, 7, depth), np.uint16) if depth > 1 else some((5, 7), np.uint16)
    save_png("in.png", x, interlace=interlace)
    assert_pixels("in.png", x)
    ndpool_says("pool in.png -o out.png --kernel 2")
    found, bits = load_png("out.png")
    assert bits == 16
    expected = ndpool.max_pool(x, 2, axes=(0, 1))
    np.testing.assert_array_equal(found, expected.reshape(2, 3, depth))
    ndpool_says("pool in.png -o out.tif --kernel 2")
    np.testing.assert_array_equal(tifffile.imread("out.tif"), expected)


@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
def test_a_transparent_grey_becomes_alpha(bits):
    x = rng.integers(0, 1 << bits, (5, 7)).astype(np.uint16 if bits == 16 else np.uint8)
    most = np.iinfo(x.dtype).max
    scaled = x * x.dtype.type(most // ((1 << bits) - 1))
    save_png("a.png", x, bits)
    assert_pixels("a.png", scaled)
    save_png("a.png", x, bits, transparent=int(x[2, 3]))
    alpha = np.where(x == x[2, 3], 0, most).astype(x.dtype)
    assert_pixels("a.png", np.stack([scaled, alpha], -1))


@pytest.mark.parametrize("x", [COLOUR, DEEP], ids=["8 bits", "16 bits"])
def test_a_transparent_colour_becomes_alpha(x):
    x = x.copy()
    x[0, 0] = x[2, 3]
    x[0, 1, 1:] = x[2, 3, 1:]  # two channels alike are not the colour
    save_png("a.png", x, 8 * x.dtype.itemsize, transparent=tuple(int(n) for n in x[2, 3]))
    alpha = np.full((5, 7, 1), np.iinfo(x.dtype).max, x.dtype)
    alpha[0, 0] = alpha[2, 3] = 0
    assert_pixels("a.png", np.concatenate([x, alpha], -1))


def test_palettes_of_png_become_colours_with_their_transparency():
    image = Image.fromarray(COLOUR).quantize(5)
    colours, places = np.asarray(image.convert("RGB")), np.asarray(image)
    image.save("a.png")
    assert_pixels("a.png", colours)
    image.save("a.png", transparency=2)
    assert_pixels("a.png", np.dstack([colours, np.where(places == 2, 0, 255).astype(np.uint8)]))
    table = np.array([0, 50, 100, 150, 200], np.uint8)
    image.save("a.png", transparency=table.tobytes())
    assert_pixels("a.png", np.dstack([colours, table[places]]))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "RGB", "RGBA"])
def test_eight_bits_of_every_channel(ndpool_says, mode):
    image = Image.fromarray(COLOUR).convert(mode)
    if mode in ("LA", "RGBA"):
        image.putalpha(Image.fromarray(GREY))
    image.save("in.png")
    x = np.asarray(image.convert("L") if mode == "1" else image)
    assert_pixels("in.png", x)
    ndpool_says("pool in.png -o out.png --kind min --kernel 2")
    np.testing.assert_array_equal(load("out.png"), ndpool.min_pool(x, 2, axes=(0, 1)))


def test_frames_are_pages(ndpool_says):
    frames = [Image.fromarray(x) for x in (COLOUR, 255 - COLOUR, COLOUR // 2)]
    frames[0].save("in.png", save_all=True, append_images=frames[1:])
    ndpool_says("pool in.png -o out.npy --kernel 2")
    expected = ndpool.max_pool(np.stack([np.asarray(frame) for frame in frames]), (2, 2), axes=(1, 2))
    np.testing.assert_array_equal(np.load("out.npy"), expected)
    assert "PNG holds one page and the result has 3" in ndpool_says("pool in.png -o out.png --kernel 2", code=2)
    ndpool_says("pool in.png -o out.png --kernel 2 --page 1")
    np.testing.assert_array_equal(load("out.png"), expected[1])


def test_deep_frames_are_refused_by_name(ndpool_says, monkeypatch):
    save_png("in.png", DEEP)
    with open("in.png", "rb") as file:
        whole = file.read()
    data = struct.pack(">II", 2, 0)
    control = struct.pack(">I", 8) + b"acTL" + data + struct.pack(">I", zlib.crc32(b"acTL" + data))
    with open("in.png", "wb") as file:
        file.write(whole[:33] + control + whole[33:])
    line = ndpool_says("pool in.png -o out.png --kernel 2", code=2)
    assert "in.png: it has 3 pages of 16 bits or with a transparent colour, which are not read" in line


def test_pictures_in_one_jpeg_that_differ_are_refused_by_name(ndpool_says):
    image = Image.fromarray(COLOUR)
    image.save("in.jpg", format="MPO", save_all=True, append_images=[image.resize((3, 3))])
    assert "in.jpg: its 2 pages differ (3 x 3 x 3 and 5 x 7 x 3); choose one, such as --page 0" in ndpool_says(
        "pool in.jpg -o out.png --kernel 2", code=2
    )
    assert_pixels("in.jpg", load("in.jpg"), page=0)


def test_a_jpeg_of_inks_becomes_colours():
    Image.fromarray(COLOUR).convert("CMYK").save("a.jpg", icc_profile=b"of inks")
    with Image.open("a.jpg") as image:
        expected = np.asarray(image.convert("RGB"))
    assert assert_pixels("a.jpg", expected).profile is None


# --- which way up ---------------------------------------------------------------------------------


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("ending", ["png", "jpg", "tif", "lzw.tif", "deep.png"])
def test_pictures_stand_upright(ndpool_says, ending, orientation):
    exif = Image.Exif()
    exif[images.ORIENTATION_TAG] = orientation
    stored, name = COLOUR, f"in.{ending}"
    if ending == "tif":
        tifffile.imwrite(name, stored, photometric="rgb", extratags=[(274, 3, 1, orientation, True)])
    elif ending == "deep.png":
        stored = DEEP
        save_png(name, stored)
        with open(name, "rb") as file:
            whole = file.read()
        data = exif.tobytes()[6:]
        chunk = struct.pack(">I", len(data)) + b"eXIf" + data + struct.pack(">I", zlib.crc32(b"eXIf" + data))
        with open(name, "wb") as file:
            file.write(whole[:33] + chunk + whole[33:])
    else:
        compression = {"compression": "tiff_lzw"} if ending == "lzw.tif" else {}
        Image.fromarray(stored).save(name, exif=exif, **compression)
        if ending == "jpg":
            stored = load(name)
    shown = Image.fromarray(stored[..., 0] if ending == "deep.png" else stored)
    shown.getexif()[images.ORIENTATION_TAG] = orientation
    expected = np.asarray(ImageOps.exif_transpose(shown))
    found = read(name).pixels
    np.testing.assert_array_equal(found[..., 0] if ending == "deep.png" else found, expected)
    target = "out.tif" if ending == "jpg" else name.replace("in", "out")
    ndpool_says(f"pool {name} -o {target} --kernel 2")
    with Image.open(target) as image:
        assert image.getexif().get(images.ORIENTATION_TAG, 1) == 1


@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_page_stands_upright(orientation):
    expected = np.stack([images.upright(page, orientation) for page in STACK])
    tifffile.imwrite(
        "a.tif", STACK, photometric="minisblack", metadata=None, extratags=[(274, 3, 1, orientation, False)]
    )
    assert_pixels("a.tif", expected, channels=False)
    exif = Image.Exif()
    exif[images.ORIENTATION_TAG] = orientation
    first, *others = (Image.fromarray(page) for page in STACK)
    first.save("a.tif", save_all=True, append_images=others, compression="tiff_lzw", exif=exif)
    assert_pixels("a.tif", expected, channels=False)


def test_turned_pages_that_pillow_turns_wrongly_are_refused(ndpool_says):
    pages = [Image.fromarray(COLOUR).convert("CMYK") for _ in range(2)]
    exif = Image.Exif()
    exif[images.ORIENTATION_TAG] = 6
    pages[0].save("in.tif", save_all=True, append_images=pages[1:], exif=exif)
    assert "several pages, SEPARATED, that do not stand upright" in ndpool_says(
        "pool in.tif -o out.tif --kernel 2", code=2
    )


def test_an_orientation_that_means_nothing_is_none():
    np.testing.assert_array_equal(images.upright(GREY, 0), GREY)
    np.testing.assert_array_equal(images.upright(GREY, 9), GREY)


# --- what else a file says ------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["out.png", "out.jpg", "out.tif"])
def test_the_profile_goes_with_the_colours(ndpool_says, target):
    Image.fromarray(COLOUR).save("in.png", icc_profile=b"some colours")
    ndpool_says(f"pool in.png -o {target} --kernel 2")
    with Image.open(target) as image:
        assert image.info["icc_profile"] == b"some colours"
    ndpool_says(f"pool in.png -o {target} --kernel 3 --axes 2 --force")  # what is left is grey
    with Image.open(target) as image:
        assert image.mode == "L"
        assert "icc_profile" not in image.info


@pytest.mark.parametrize("x", [COLOUR, DEEP], ids=["8 bits", "16 bits"])
def test_the_gamma_goes_with_a_png(ndpool_says, x):
    save_png("in.png", x, 8 * x.dtype.itemsize, gamma=0.5)
    ndpool_says("pool in.png -o out.png --kernel 2")
    with Image.open("out.png") as image:
        assert image.info["gamma"] == 0.5


def test_long_deep_pngs_are_in_several_chunks(monkeypatch):
    monkeypatch.setattr(deep_png, "LONGEST_CHUNK", 50)
    with open("a.png", "wb") as file:
        deep_png.write(file, DEEP, None, None)
    with open("a.png", "rb") as file:
        assert file.read().count(b"IDAT") > 3
    assert_pixels("a.png", DEEP)


def test_images_of_any_size_are_read(monkeypatch):
    Image.fromarray(COLOUR).save("a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    assert_pixels("a.png", COLOUR)
    assert Image.MAX_IMAGE_PIXELS == 10


# --- what a format can hold -----------------------------------------------------------------------


def test_floats_are_not_rounded_to_pixels(ndpool_says):
    tifffile.imwrite("in.tif", rng.random((6, 8), np.float32))
    np.save("in.npy", rng.random((6, 8)))
    for source, dtype in (("in.tif", "float32"), ("in.npy", "float64")):
        for target, held in (("out.png", "PNG holds uint8 and uint16"), ("out.jpg", "JPEG holds uint8")):
            for clip in ("", " --clip"):
                line = ndpool_says(f"pool {source} -o {target} --kernel 2,2{clip}", code=2)
                assert f"{target}: {held}, and {source} has {dtype}; write" in line
                assert "or scale it to whole numbers first" in line


@pytest.mark.parametrize("dtype", ["uint32", "int32", "int16", "bool"])
def test_other_whole_numbers_are_not_bent_to_pixels(ndpool_says, dtype):
    np.save("in.npy", np.ones((4, 4), dtype))
    line = ndpool_says("pool in.npy -o out.png --kernel 2,2", code=2)
    assert f"out.png: PNG holds uint8 and uint16, and in.npy has {dtype}; write .tif or .npy" in line
    assert "scale" not in line


def test_sixteen_bits_are_not_bent_to_jpeg(ndpool_says):
    save_png("in.png", np.full((4, 4), 200, np.uint16))
    for clip in ("", " --clip"):
        line = ndpool_says(f"pool in.png -o out.jpg --kernel 2{clip}", code=2)
        assert "out.jpg: JPEG holds uint8, and in.png has uint16; write .png, .tif or .npy" in line


def test_no_tiff_of_what_it_cannot_say(ndpool_says):
    np.save("in.npy", np.ones((4, 4), bool))
    line = ndpool_says("pool in.npy -o out.tif --kernel 2,2", code=2)
    assert "out.tif: TIFF holds numbers of 8 to 64 bits, and in.npy has bool; write .npy" in line


def test_alpha_and_bands_that_a_format_has_not(ndpool_says):
    for depth in (2, 4):
        x = some((4, 6, depth), np.uint8)
        Image.fromarray(x).save("in.png")
        line = ndpool_says("pool in.png -o out.jpg --kernel 2", code=2)
        assert "out.jpg: JPEG has no alpha channel, and in.png has one; write .png, .tif or .npy" in line
    np.save("in.npy", some((4, 6, 5), np.uint8))
    line = ndpool_says("pool in.npy -o out.png --kernel 2 --axes 0,1", code=2)
    assert "out.png: PNG holds grey or RGB, and the result has 5 channels" in line
    assert "write .tif or .npy" in line
    ndpool_says("pool in.npy -o out.tif --kernel 2 --axes 0,1")
    np.testing.assert_array_equal(tifffile.imread("out.tif"), ndpool.max_pool(np.load("in.npy"), 2, axes=(0, 1)))


def test_the_axes_of_an_array_as_an_image(ndpool_says):
    x = some((3, 8, 6, 4), np.uint8)
    for axes, stored, target, shape in (
        ("1,2", x, "out.tif", (3, 7, 5, 4)),  # pages, height, width, channels
        ("2,3", x, "out.tif", (24, 5, 3)),  # two axes of pages
        ("0,1", x[0], "out.png", (7, 5, 4)),  # height, width, channels
        ("1,2", x[:1, ..., 0], "out.png", (7, 5)),  # one page
        ("0", x[0, ..., 0], "out.png", (7, 6)),  # height and width of a picture of which one is pooled
        ("0,2", x[..., 0], "out.tif", (2, 8, 5)),  # no neighbours: the last two, of two pages
        ("0,2", x, "out.tif", (16, 5, 4)),
        ("0,1,2", x[..., 0], "out.tif", (2, 7, 5)),  # a volume
    ):
        np.save("in.npy", stored)
        ndpool_says(f"pool in.npy -o {target} --kernel 2 --axes {axes} --force --stride 1")
        y = ndpool.max_pool(stored, 2, 1, axes=tuple(map(int, axes.split(","))))
        np.testing.assert_array_equal(read(target).pixels, y.reshape(shape), strict=True)
    np.save("in.npy", x)
    line = ndpool_says("pool in.npy -o no.tif --kernel 2 --axes 0,1", code=2)
    assert "no.tif: an array of shape (3, 8, 6, 4) pooled over axes (0, 1) is no image; write .npy or .npz" in line
    np.save("in.npy", x[0, 0, :, 0])
    assert "is no image" in ndpool_says("pool in.npy -o no.tif --kernel 2 --axes 0", code=2)
    np.save("in.npy", x[:0])
    assert "has no pixels" in ndpool_says("pool in.npy -o no.tif --kernel 2,2", code=2)


def test_the_largest_whole_numbers_stay(ndpool_says):
    for dtype in ("int64", "uint64"):
        info = np.iinfo(dtype)
        x = np.full((2, 2), info.max, dtype)
        tifffile.imwrite("in.tif", x)
        ndpool_says("pool in.tif -o out.tif --kernel 2 --force")
        assert tifffile.imread("out.tif") == info.max
        # The mean is a float, and no float is so near to the largest number: 1 more than it.
        line = ndpool_says("pool in.tif -o no.tif --kind mean --kernel 2", code=2)
        assert f"its pixels hold {info.min} to {info.max}" in line
        ndpool_says("pool in.tif -o out.tif --kind mean --kernel 2 --force --clip")
        assert tifffile.imread("out.tif") == info.max


def test_rounding_and_clipping():
    def pixels(y, dtype, clip=False):
        like = Picture(np.zeros(y.shape, dtype), False)
        names = (Place.of("in.tif", ""), Place.of("out.tif", ""))
        return images.result(y, like, names, Format.TIFF, clip).pixels

    y = np.array([[-0.4, 0.5, 1.5, 254.6]])
    np.testing.assert_array_equal(pixels(y, np.uint8), np.array([[0, 0, 2, 255]], np.uint8), strict=True)
    for bad in (-0.6, 255.6, np.inf, -np.inf, np.nan):
        with pytest.raises(ValueError, match=r"out.tif: the result goes from .* pixels hold 0 to 255; write .npy"):
            pixels(np.array([[1.0, bad]]), np.uint8)
    clipped = pixels(np.array([[-np.inf, -3.0, 300.0, np.inf]]), np.int8, clip=True)
    np.testing.assert_array_equal(clipped, np.array([[-128, -3, 127, 127]], np.int8), strict=True)
    np.testing.assert_array_equal(pixels(np.array([[300]]), np.uint8, clip=True), np.array([[255]], np.uint8))
    with pytest.raises(ValueError, match="goes from nan"):
        pixels(np.array([[1.0, np.nan]]), np.uint8, clip=True)


def test_float_pixels_keep_their_type(ndpool_says):
    for dtype in ("float16", "float64"):
        x = some((4, 6), dtype)
        tifffile.imwrite("in.tif", x)
        ndpool_says("pool in.tif -o out.tif --kind mean --kernel 2 --force")
        y = tifffile.imread("out.tif")
        assert y.dtype == dtype
        np.testing.assert_array_equal(y, ndpool.avg_pool(x, (2, 2)))


# --- arrays ---------------------------------------------------------------------------------------


def test_arrays_of_every_number(ndpool_says):
    for dtype in (*SAMPLES, "bool", ">f4", ">i2"):
        x = rng.integers(0, 2, (4, 6)).astype(dtype)
        np.save("in.npy", np.asfortranarray(x))
        ndpool_says("pool in.npy -o out.npy --kernel 2,2 --force")
        np.testing.assert_array_equal(np.load("out.npy"), x.reshape(2, 2, 3, 2).max(axis=(1, 3)))
    for dtype in ("complex64", "longdouble", "datetime64[s]", "S3", [("a", float)]):
        np.save("in.npy", np.zeros((4, 6), dtype))
        line = ndpool_says("pool in.npy -o no.npy --kernel 2,2", code=2)
        assert "in.npy: has dtype" in line
        assert "give real numbers of at most 64 bits" in line


def test_an_empty_batch_stays_one(ndpool_says):
    np.save("in.npy", np.zeros((0, 8, 6)))
    ndpool_says("pool in.npy -o out.npy --kernel 2,2")
    assert np.load("out.npy").shape == (0, 4, 3)


def test_any_name_in_an_npz_is_kept(ndpool_says):
    with zipfile.ZipFile("in.npz", "w") as archive:
        for name in ("file", "allow_pickle", "a b"):
            member = io.BytesIO()
            np.save(member, GREY)
            archive.writestr(f"{name}.npy", member.getvalue())
    ndpool_says("pool in.npz -o out.npz --kernel 2,2")
    with np.load("out.npz") as found:
        assert sorted(found.files) == ["a b", "allow_pickle", "file"]
        for name in found.files:
            np.testing.assert_array_equal(found[name], ndpool.max_pool(GREY, (2, 2)))


def test_odd_archives_are_refused_by_name(ndpool_says):
    np.savez("in.npz")
    assert "in.npz: holds no array; give one that does" in ndpool_says("pool in.npz -o no.npz --kernel 2,2", code=2)
    with zipfile.ZipFile("in.npz", "w") as archive:
        archive.writestr("notes.txt", "words")
    assert "in.npz: 'notes.txt' in it is no array" in ndpool_says("pool in.npz -o no.npz --kernel 2,2", code=2)
    np.savez("in.npz", a=GREY, b=GREY[0])
    assert "in.npz: array 'b': 2 axes are pooled" in ndpool_says("pool in.npz -o no.npz --kernel 2,2", code=2)
    with open("in.npy", "wb") as file:
        np.save(file, GREY)
        np.save(file, GREY)
    line = ndpool_says("pool in.npy -o no.npy --kernel 2,2", code=2)
    assert "in.npy: something follows the first array; save several arrays as .npz" in line
    np.save("in.npy", np.array([None, 1]), allow_pickle=True)
    assert "in.npy: not a npy file that can be read (Object arrays" in ndpool_says(
        "pool in.npy -o no.npy --kernel 2,2", code=2
    )


def test_global_takes_the_last_two_axes_of_an_array(ndpool_says):
    x = rng.standard_normal((2, 3, 5, 7))
    np.savez("in.npz", four=x, two=x[0, 0], one=x[0, 0, 0])
    ndpool_says("pool in.npz -o out.npz --global --kind mean")
    with np.load("out.npz") as found:
        np.testing.assert_allclose(found["four"], x.mean((-2, -1), keepdims=True))
        np.testing.assert_allclose(found["two"], x[0, 0].mean((-2, -1), keepdims=True))
        np.testing.assert_allclose(found["one"], x[0, 0, 0].mean(keepdims=True))
    np.save("in.npy", np.float64(3))
    assert "in.npy: axes=() pools nothing" in ndpool_says("pool in.npy -o no.npy --global", code=2)
    tifffile.imwrite("in.tif", DEEP, photometric="rgb")
    ndpool_says("pool in.tif -o out.tif --global")
    np.testing.assert_array_equal(tifffile.imread("out.tif").ravel(), DEEP.max((0, 1)))


# --- standard streams -----------------------------------------------------------------------------


def piped(arguments, data, code=0):
    done = subprocess.run(
        [sys.executable, "-m", "ndpool", "pool", *arguments.split()], input=data, capture_output=True, timeout=300
    )
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr.decode()


def test_a_pipe_from_end_to_end():
    given = io.BytesIO()
    np.save(given, STACK)
    out, err = piped("- -o - --kernel 2,2", given.getvalue())
    np.testing.assert_array_equal(np.load(io.BytesIO(out)), ndpool.max_pool(STACK, (2, 2)))
    assert "(4, 5, 7) to (4, 2, 3), in standard output" in err
    out, err = piped("- -o - --kernel 9,9", given.getvalue(), code=2)
    assert (out, err.count("\n")) == (b"", 1)
    assert err.startswith("ndpool: standard input: kernel_size=9")


@pytest.fixture
def streams(monkeypatch):
    """Standard input of these bytes; returns what standard output gets."""

    def put(data):
        out = io.BytesIO()
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
        monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=out, isatty=lambda: False))
        return out

    return put


@pytest.mark.parametrize("given", ["png", "tiff", "jpeg", "npy", "npz"])
@pytest.mark.parametrize("asked", [None, "png", "tiff", "npy", "npz"])
def test_streams_of_every_format(streams, given, asked):
    data = io.BytesIO()
    if given in ("npy", "npz"):
        np.save(data, GREY) if given == "npy" else np.savez(data, x=GREY)
    else:
        Image.fromarray(GREY).save(data, format=given)
    x = GREY if given != "jpeg" else np.asarray(Image.open(data))
    out = streams(data.getvalue())
    option = ["--format", asked] if asked else []
    assert main(["pool", "-", "-o", "-", "--kernel", "2,2", *option]) == 0
    found = files.FIRST_BYTES[next(first for first in files.FIRST_BYTES if out.getvalue().startswith(first))]
    assert found == (asked or given)
    if found == "jpeg":
        return
    streams(out.getvalue())
    (y,) = files.read(Place.of("-", "standard input")).arrays.values()
    np.testing.assert_array_equal(y, ndpool.max_pool(x, (2, 2)))


def test_nothing_binary_for_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    np.save("in.npy", GREY)
    assert main(["pool", "in.npy", "-o", "-", "--kernel", "2,2"]) == 2
    assert "not text for a terminal; send it to a file or a pipe" in capsys.readouterr().err


def test_the_format_may_be_said(ndpool_says):
    np.save("in.npy", GREY)
    ndpool_says("pool in.npy -o out.bin --kernel 2,2 --format png")
    np.testing.assert_array_equal(load("out.bin"), ndpool.max_pool(GREY, (2, 2)))
    os.rename("out.bin", "in.dat")  # what a file holds is in its first bytes
    assert_pixels("in.dat", ndpool.max_pool(GREY, (2, 2)))
    assert "out.bin: the ending '.bin' says no format that is known" in ndpool_says(
        "pool in.npy -o out.bin --kernel 2,2", code=2
    )
    assert "'gif' is not one of 'png'" in ndpool_says("pool in.npy -o out.bin --kernel 2,2 --format gif", code=2)
    assert "--page 0: in.npy is no image and has no pages" in ndpool_says(
        "pool in.npy -o out.npy --kernel 2,2 --page 0", code=2
    )
    with pytest.raises(ValueError, match="nothing says its format; give --format"):
        files.format_of(Place.of("-", "standard output"), None)


def test_a_file_may_be_called_minus(ndpool_says):
    np.save("in.npy", GREY)
    ndpool_says("pool in.npy -o ./- --format npy --kernel 2,2")
    assert np.load("-").shape == (2, 3)
    ndpool_says("pool ./- -o out.npy --kernel 2,2")


def test_pipes_and_devices_with_a_name(ndpool_says):
    np.save("in.npy", GREY)
    os.mkfifo("pipe")
    with subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE) as reader:
        ndpool_says("pool in.npy -o pipe --format npy --kernel 2,2")
        found = np.load(io.BytesIO(reader.communicate(timeout=300)[0]))
    np.testing.assert_array_equal(found, ndpool.max_pool(GREY, (2, 2)))
    said = ndpool_says("pool in.npy -o /dev/null --format npy --kernel 2,2")
    assert "in /dev/null" in said
    assert not os.path.isfile("/dev/null")


def test_a_stream_that_cannot_go_back_is_read_whole():
    np.save("in.npy", GREY)
    done = subprocess.run(
        [
            "bash",
            "-c",
            f"cat in.npy | {sys.executable} -m ndpool pool /dev/stdin -o out.npy --kernel 2,2",
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load("out.npy"), ndpool.max_pool(GREY, (2, 2)))


# --- whole or not at all --------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["out.npy", "out.npz", "out.png", "out.tif", "out.jpg"])
def test_a_failure_leaves_the_old_file(ndpool_says, monkeypatch, tmp_path, target):
    Image.fromarray(COLOUR).save("in.png")
    with open(target, "wb") as file:
        file.write(b"what was there")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("the disk is full")))
    line = ndpool_says(f"pool in.png -o {target} --kernel 2 --force", code=2)
    assert f"{target}: could not be written (the disk is full)" in line
    with open(target, "rb") as file:
        assert file.read() == b"what was there"
    assert {path.name for path in tmp_path.iterdir()} == {"in.png", target}


def test_rights_and_links_stay(ndpool_says):
    np.save("in.npy", GREY)
    np.save("real.npy", GREY)
    os.chmod("real.npy", 0o600)
    os.symlink("real.npy", "out.npy")
    ndpool_says("pool in.npy -o out.npy --kernel 2,2 --force")
    assert os.path.islink("out.npy")
    assert np.load("real.npy").shape == (2, 3)
    assert os.stat("real.npy").st_mode & 0o777 == 0o600
    before = os.umask(0o027)
    try:
        ndpool_says("pool in.npy -o new.npy --kernel 2,2")
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
    assert os.stat("new.npy").st_mode & 0o777 == 0o640


def test_a_file_may_be_pooled_onto_itself(ndpool_says):
    for name in ("a.npy", "a.npz", "a.png", "a.tif"):
        if name.endswith("npz"):
            np.savez(name, x=GREY)
        elif name.endswith("npy"):
            np.save(name, GREY)
        else:
            Image.fromarray(GREY).save(name)
        ndpool_says(f"pool {name} -o {name} --kernel 2,2 --force")
        (y,) = files.read(Place.of(name, "")).arrays.values()
        np.testing.assert_array_equal(y, ndpool.max_pool(GREY, (2, 2)))


def test_folders_are_no_files(ndpool_says):
    os.mkdir("a.npy")
    np.save("in.npy", GREY)
    assert "a.npy: this is a folder; name a file" in ndpool_says("pool a.npy -o out.npy --kernel 2,2", code=2)
    assert "a.npy: this is a folder" in ndpool_says("pool in.npy -o a.npy --kernel 2,2 --force", code=2)


def test_names_are_printed_as_they_are(ndpool_says):
    np.save("in.npy", GREY)
    assert "in [bold]x[1].npy" in ndpool_says("pool in.npy -o [bold]x[1].npy --kernel 2,2")


# --- damaged files --------------------------------------------------------------------------------


def samples():
    """A file of every sort."""
    found = {}

    def keep(name, save):
        file = io.BytesIO()
        save(file)
        found[name] = file.getvalue()

    keep("a.npy", lambda file: np.save(file, GREY))
    keep("a.npz", lambda file: np.savez_compressed(file, x=GREY, y=GREY))
    keep("a.png", lambda file: Image.fromarray(COLOUR).save(file, "PNG"))
    keep("deep.png", lambda file: deep_png.write(file, DEEP, b"profile", 0.5))
    keep("a.jpg", lambda file: Image.fromarray(COLOUR).save(file, "JPEG", exif=b"Exif\0\0II*\0"))
    keep("a.tif", lambda file: tifffile.imwrite(file, STACK, photometric="minisblack"))
    keep("zip.tif", lambda file: tifffile.imwrite(file, DEEP, photometric="rgb", compression="zlib"))
    keep("lzw.tif", lambda file: Image.fromarray(COLOUR).save(file, "TIFF", compression="tiff_lzw"))
    return found


@pytest.mark.parametrize("name", samples())
def test_damaged_files_are_one_line(ndpool_says, name):
    whole, dice = samples()[name], np.random.default_rng(6)
    for trial in range(24):
        broken = bytearray(whole)
        if trial % 2:
            broken = broken[: dice.integers(len(broken))]
        else:
            for place in dice.integers(8, len(broken), 3):
                broken[place] ^= 1 << dice.integers(8)
        with open(f"in-{name}", "wb") as file:
            file.write(broken)
        try:
            files.read(Place.of(f"in-{name}", ""))
        except (ValueError, MemoryError) as fault:
            assert f"in-{name}: " in str(fault)  # noqa: PT017
            line = ndpool_says(f"pool in-{name} -o out.npz --kernel 2 --axes 0,1 --force", code=2)
            assert f"in-{name}: " in line
            assert ";" in line


def test_what_is_no_file_of_ours_is_refused_by_name(ndpool_says):
    Image.fromarray(COLOUR).save("in.png", format="GIF")
    line = ndpool_says("pool in.png -o out.png --kernel 2", code=2)
    assert "in.png: by its first bytes no PNG, TIFF, JPEG, .npy or .npz; convert it to one of them" in line
    with open("empty.npy", "wb"):
        pass
    assert "empty.npy: by its first bytes no PNG" in ndpool_says("pool empty.npy -o out.npy --kernel 2,2", code=2)


@pytest.mark.parametrize(("module", "name"), [("tifffile", "in.tif"), ("png", "in.png")])
def test_a_reader_that_is_not_there_is_named(ndpool_says, monkeypatch, module, name):
    save_png("in.png", DEEP)
    tifffile.imwrite("in.tif", DEEP, photometric="rgb")
    monkeypatch.setitem(sys.modules, module, None)
    line = ndpool_says(f"pool {name} -o out.npy --kernel 2", code=2)
    assert f"{name}: {module} is needed; install it with: pip install 'ndpool[cli]'" in line


def test_too_little_memory_is_one_line(ndpool_says, monkeypatch):
    np.save("in.npy", GREY)
    monkeypatch.setattr(np, "load", lambda *_, **__: (_ for _ in ()).throw(MemoryError))
    line = ndpool_says("pool in.npy -o out.npy --kernel 2,2", code=2)
    assert "in.npy: there is not enough memory for what it holds; cut it into smaller files" in line


def test_pictures_know_their_axes():
    picture = Picture(np.zeros((2, 3, 4, 5)), True)
    assert (picture.axes, picture.pages, picture.depth, picture.meanings()) == ((1, 2), 2, 5, (0, 0, 0, 0))
    flat = dataclasses.replace(picture, channels=False)
    assert (flat.axes, flat.pages, flat.depth, flat.meanings()) == ((2, 3), 6, 1, ())


def test_pixels_are_averaged_over_height_and_width(ndpool_says):
    tifffile.imwrite("in.tif", np.stack([COLOUR, 255 - COLOUR]), photometric="rgb", metadata=None)
    ndpool_says("pool in.tif -o out.tif --kind mean --kernel 3,2 --padding 1")
    y = Pool(Avg(), Window((3, 2), padding=1), axes=(1, 2))(np.stack([COLOUR, 255 - COLOUR]))
    np.testing.assert_array_equal(tifffile.imread("out.tif"), np.rint(y))
