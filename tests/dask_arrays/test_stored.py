"""Chunks of Zarr that are decoded without it, and copied where the target has the same."""

from __future__ import annotations

import errno

import numpy as np
import pytest

from ndpool import Avg, Pool, Window, pyramid
from ndpool.pyramid import chunks, sizes, stored
from ndpool.pyramid.stored import size_when_decoded, stored_of

zarr = pytest.importorskip("zarr")
numcodecs = pytest.importorskip("numcodecs")

RNG = np.random.default_rng(0)
X = RNG.integers(0, 4000, (2, 150, 203), np.uint16)

PLAIN = {
    "none": {"compressors": None},
    "zstd": {"compressors": zarr.codecs.ZstdCodec(level=1)},
    "zstd with a checksum": {"compressors": zarr.codecs.ZstdCodec(level=1, checksum=True)},
    "blosc": {"compressors": zarr.codecs.BloscCodec(cname="lz4", shuffle="bitshuffle")},
    "gzip": {"compressors": zarr.codecs.GzipCodec()},
    "other keys": {"chunk_key_encoding": {"name": "v2", "separator": "."}},
}
#: What is left to Zarr.
OTHERS = {
    "two compressors": {"compressors": [zarr.codecs.GzipCodec(), zarr.codecs.ZstdCodec()]},
    "transposed": {"filters": zarr.codecs.TransposeCodec(order=(0, 2, 1))},
    "shards": {"shards": (2, 64, 64)},
    "the other order of bytes": {"serializer": zarr.codecs.BytesCodec(endian="big")},
    "format 2": {"zarr_format": 2},
}


def made(path, x=X, **more):
    """An array with one chunk that is not there."""
    array = zarr.create_array(str(path), shape=x.shape, dtype=x.dtype, **{"chunks": (1, 32, 64), **more})
    x = x.copy()
    x[0, 32:64, 64:128] = array.fill_value
    array[:] = x
    return array, x


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Blocks of some parts, and chunks that are small and yet no less than a target has."""
    monkeypatch.setattr(sizes, "BLOCK_BYTES", 1 << 16)
    monkeypatch.setattr(sizes, "FEWEST_BYTES", 1 << 10)


def check(target, x, count=3):
    for level in range(count):
        side = 2**level
        expected = Pool(Avg(rounding="half_even"), Window((1, side, side), ceil_mode=True))(x)
        np.testing.assert_array_equal(zarr.open_array(f"{target}/{level}", mode="r")[:], expected)


def write(source, target, **more):
    return pyramid.write(source, target, levels=3, axes="cyx", progress=False, **more)


@pytest.mark.parametrize("name", [*PLAIN, *OTHERS])
def test_what_is_read_is_what_zarr_reads(tmp_path, name):
    array, x = made(tmp_path / "x.zarr", **{**PLAIN, **OTHERS}[name])
    found = stored_of(array)
    assert (found is None) == (name in OTHERS)
    assert write(tmp_path / "x.zarr", tmp_path / "a.zarr").read == x.nbytes
    check(tmp_path / "a.zarr", x)
    if found is None:
        return
    for region in (((0, 2), (0, 150), (0, 203)), ((1, 2), (32, 96), (64, 128)), ((0, 1), (128, 150), (192, 203))):
        np.testing.assert_array_equal(found.read(region), x[tuple(slice(*ends) for ends in region)])
    assert found.read(((0, 1), (0, 31), (0, 64))) is None  # which cuts a chunk


def test_chunks_are_copied_as_they_are(tmp_path):
    array, x = made(tmp_path / "x.zarr", **PLAIN["gzip"])
    write(tmp_path / "x.zarr", tmp_path / "a.zarr")
    first = zarr.open_array(str(tmp_path / "a.zarr" / "0"), mode="r")
    assert (first.chunks, first.metadata.codecs) == (array.chunks, array.metadata.codecs)
    files = {file.relative_to(tmp_path / "x.zarr") for file in (tmp_path / "x.zarr" / "c").rglob("*") if file.is_file()}
    assert len(files) == 39
    for file in files:
        assert (tmp_path / "x.zarr" / file).read_bytes() == (tmp_path / "a.zarr" / "0" / file).read_bytes()
    check(tmp_path / "a.zarr", x)


@pytest.mark.parametrize(
    "more", [{"chunks": (1, 64, 64)}, {"chunks": (1, 32, 64), "shards": (1, 64, 64)}], ids=["chunks", "shards"]
)
def test_other_chunks_are_not(tmp_path, more, monkeypatch):
    _, x = made(tmp_path / "x.zarr")
    monkeypatch.setattr(stored, "_kept", lambda *_: pytest.fail("copied"))
    write(tmp_path / "x.zarr", tmp_path / "a.zarr", **more)
    check(tmp_path / "a.zarr", x)


def test_cells_that_are_not_there_are_what_the_array_says(tmp_path):
    _, x = made(tmp_path / "x.zarr", fill_value=7)
    assert (x == 7).sum() >= 32 * 64
    write(tmp_path / "x.zarr", tmp_path / "a.zarr")
    assert zarr.open_array(str(tmp_path / "a.zarr" / "0"), mode="r").fill_value == 0
    check(tmp_path / "a.zarr", x)


def test_arrays_whose_own_order_of_bytes_is_not_that_of_their_chunks(tmp_path):
    """The numbers in the chunks are little-endian, whatever the object in memory says of its dtype."""
    x = RNG.integers(0, 4000, (40, 70)).astype(">u2")
    array = zarr.create_array(
        str(tmp_path / "x"),
        shape=x.shape,
        dtype=x.dtype,
        chunks=(40, 70),
        serializer=zarr.codecs.BytesCodec(endian="little"),
        compressors=None,
    )
    array[:] = x
    found = stored_of(array)
    assert found is not None
    np.testing.assert_array_equal(found.read(((0, 40), (0, 70))), x)


def test_a_store_that_is_no_folder():
    store = zarr.storage.MemoryStore()
    array = zarr.create_array(store, name="inner", shape=X.shape, chunks=(1, 32, 64), dtype=X.dtype)
    array[:] = X
    region = (0, 1), (0, 64), (0, 128)
    np.testing.assert_array_equal(stored_of(array).read(region), X[:1, :64, :128])


def test_tiny_and_odd_chunks_do_not_become_those_of_the_target(monkeypatch):
    monkeypatch.setattr(sizes, "BLOCK_BYTES", 8 << 20)
    assert sizes.suit_target((1, 512, 512), (4, 9000, 9000), 2, (1, 2, 2), 4)
    assert not sizes.suit_target((1, 8, 8), (4, 9000, 9000), 2, (1, 2, 2), 4)
    assert not sizes.suit_target((4, 9000, 9000), (4, 9000, 9000), 2, (1, 2, 2), 4)
    assert not sizes.suit_target((1, 501, 501), (4, 9000, 9000), 2, (1, 2, 2), 6)


@pytest.mark.parametrize("size", [1, 200, 255, 256, 300, 70_000, 1 << 20])
def test_sizes_when_decoded(size):
    data = RNG.integers(0, 9, size, np.uint8).tobytes()
    for codec in (numcodecs.Zstd(1), numcodecs.Zstd(1, checksum=True), numcodecs.Blosc()):
        assert size_when_decoded(codec.encode(data)) == size
    assert size_when_decoded(numcodecs.GZip().encode(data)) is None
    assert size_when_decoded(b"") is None


def test_numbers_that_look_like_compressed_ones(tmp_path):
    """A chunk that is stored as it is, and starts as a block of Zstandard does that has just as many bytes."""
    array = zarr.create_array(str(tmp_path / "x.zarr"), shape=(2, 256), chunks=(1, 256), dtype="u1", compressors=None)
    x = RNG.integers(0, 9, (2, 256), np.uint8)
    x[0, :7] = [0x28, 0xB5, 0x2F, 0xFD, 0x60, 0, 0]  # 256 bytes, in a single segment
    array[:] = x
    assert size_when_decoded(x[0]) == 256
    np.testing.assert_array_equal(stored_of(array).read(((0, 2), (0, 256))), x)


@pytest.mark.parametrize("name", ["zstd", "blosc", "gzip", "none"])
@pytest.mark.parametrize("damage", ["cut", "short", "words", "nothing"])
def test_damaged_chunks_are_errors_and_are_not_copied(tmp_path, name, damage):
    made(tmp_path / "x.zarr", **PLAIN[name])
    file = tmp_path / "x.zarr" / "c" / "1" / "2" / "1"
    codec = {"zstd": numcodecs.Zstd(), "blosc": numcodecs.Blosc(), "gzip": numcodecs.GZip()}.get(name)
    short = bytes(100) if codec is None else codec.encode(bytes(100))
    file.write_bytes(
        {"cut": file.read_bytes()[:50], "short": short, "words": b"not what was written", "nothing": b""}[damage]
    )
    with pytest.raises(ValueError, match=r"x.zarr cannot be read at \[1:2, .*\], and is perhaps damaged"):
        write(tmp_path / "x.zarr", tmp_path / "a.zarr")
    assert not (tmp_path / "a.zarr" / "0" / "c" / "1" / "2" / "1").exists()
    assert not (tmp_path / "a.zarr" / "zarr.json").exists()


def test_a_disk_that_is_full_while_chunks_are_copied(tmp_path, monkeypatch):
    _, x = made(tmp_path / "x.zarr")

    def full(target, level, index, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(chunks, "put", full)
        with pytest.raises(OSError, match="the disk is full; free some space and run again with resume"):
            write(tmp_path / "x.zarr", tmp_path / "a.zarr")
    write(tmp_path / "x.zarr", tmp_path / "a.zarr", resume=True)
    check(tmp_path / "a.zarr", x)
