"""Pyramids: every level the pool of the source, valid metadata, one pass, and runs that are interrupted."""

from __future__ import annotations

import errno
import json
import subprocess
import sys

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ndpool import Avg, Max, Median, Mode, Pool, Quantile, Sum, Window, pyramid
from ndpool.cli import main
from ndpool.pyramid import blocks, chunks, journal, ome, running, sizes, sources

zarr = pytest.importorskip("zarr")
tifffile = pytest.importorskip("tifffile")

RNG = np.random.default_rng(0)
X = RNG.integers(0, 60_000, (2, 150, 203), np.uint16)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """So that these small images have several."""
    monkeypatch.setattr(sizes, "BLOCK_BYTES", 1 << 13)


def write(source, target, *given, **more):
    return pyramid.write(source, target, *given, progress=False, **more)


def levels_of(target):
    group = zarr.open_group(str(target), mode="r")
    return [group[each["path"]][:] for each in group.attrs["ome"]["multiscales"][0]["datasets"]]


def expected(kind, x, factors, count, skip=None):
    """Each level from the source, by a pool of the whole."""
    found = []
    for level in range(count):
        sides = tuple(min(f**level, n) for f, n in zip(factors, x.shape, strict=True))
        found.append(Pool(kind, Window(sides, ceil_mode=True), skip=skip)(x))
    return found


def check(target, kind, x, factors, count, skip=None):
    found = levels_of(target)
    assert len(found) == count
    for a, b in zip(found, expected(kind, x, factors, count, skip), strict=True):
        assert (a.dtype, a.shape) == (x.dtype, b.shape)
        np.testing.assert_array_equal(a, b)


# --- levels ---------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(st.data())
def test_any_shape_chunks_and_factors(tmp_path_factory, data):
    shape = tuple(data.draw(st.integers(1, n)) for n in (6, 40, 50))
    factors = tuple(data.draw(st.integers(1, n)) for n in (2, 3, 4))
    count = data.draw(st.integers(1, 4))
    inner = tuple(data.draw(st.integers(1, n)) for n in (3, 20, 20))
    shards = tuple(data.draw(st.integers(1, 3)) * min(c, n) for c, n in zip(inner, shape, strict=True))
    x = RNG.integers(0, 255, shape, np.uint8)
    source = x if data.draw(st.booleans()) else da.from_array(x, tuple(data.draw(st.integers(1, n)) for n in shape))
    target = tmp_path_factory.mktemp("pyramid") / "a.zarr"
    report = write(
        source, target, factors=factors, levels=count, chunks=inner, shards=data.draw(st.sampled_from([None, shards]))
    )
    check(target, Avg(rounding="half_even"), x, factors, count)
    assert report.read == x.nbytes  # every cell, once
    assert report.shapes == tuple(level.shape for level in levels_of(target))


@pytest.mark.parametrize(
    ("kind", "chosen", "dtype"),
    [
        (None, Avg(rounding="half_even"), "u2"),
        (None, Avg(), "f4"),
        ("mean", Avg(rounding="half_even"), "i4"),
        ("mode", Mode(), "u4"),
        ("max", Max(), "f8"),
        ("median", Quantile(0.5, "lower"), "u1"),
        ("median", Median(), "f4"),
        (Avg(rounding="floor"), Avg(rounding="floor"), "u1"),
    ],
)
def test_kinds(tmp_path, kind, chosen, dtype):
    x = X.astype(dtype)
    write(x, tmp_path / "a.zarr", kind, levels=3, axes="cyx")
    check(tmp_path / "a.zarr", chosen, x, (1, 2, 2), 3)
    said = zarr.open_group(str(tmp_path / "a.zarr"), mode="r").attrs["ome"]["multiscales"][0]
    assert said["metadata"]["kind"] == repr(chosen)
    assert said["type"] in ("avg", "mode", "max", "median", "quantile")


def test_labels_are_never_made_up(tmp_path):
    x = RNG.choice(np.array([0, 7, 1000], np.uint32), (60, 60))
    write(x, tmp_path / "a.zarr", labels=True, levels=4)
    assert {int(v) for level in levels_of(tmp_path / "a.zarr") for v in np.unique(level)} <= {0, 7, 1000}
    check(tmp_path / "a.zarr", Mode(), x, (2, 2), 4)


def test_cells_that_are_not_there(tmp_path):
    x = np.where(RNG.random((60, 70)) < 0.3, np.nan, RNG.random((60, 70))).astype("f4")
    write(x, tmp_path / "a.zarr", levels=3, skip=np.nan)
    check(tmp_path / "a.zarr", Avg(), x, (2, 2), 3, np.nan)


def test_a_level_is_rounded_once_unless_it_cascades(tmp_path):
    x = np.array([[0, 1, 1, 1], [0, 1, 1, 1], [0, 0, 1, 1], [0, 1, 1, 1]], np.uint8)
    write(x, tmp_path / "once.zarr", levels=3)
    write(x, tmp_path / "each.zarr", levels=3, cascade=True)
    check(tmp_path / "once.zarr", Avg(rounding="half_even"), x, (2, 2), 3)
    half = Pool(Avg(rounding="half_even"), Window((2, 2)))
    assert levels_of(tmp_path / "each.zarr")[2] == half(half(x))
    assert levels_of(tmp_path / "once.zarr")[2] == 1
    assert levels_of(tmp_path / "each.zarr")[2] == 0


@pytest.mark.parametrize(
    "view", [X[:, ::-1], X[:, :, ::2], X.transpose(0, 2, 1), np.broadcast_to(X[:1], X.shape), X[::-1]]
)
def test_views_are_read_as_they_are(tmp_path, view):
    for i, more in enumerate(({}, {"cascade": True})):
        write(view, tmp_path / f"{i}.zarr", levels=3, axes="cyx", chunks=(1, 32, 32), kind="max", **more)
        check(tmp_path / f"{i}.zarr", Max(), np.ascontiguousarray(view), (1, 2, 2), 3)


def test_the_usual_number_of_levels_ends_with_a_small_one(tmp_path):
    report = write(np.zeros((10, 1100), np.uint8), tmp_path / "a.zarr", axes="yx")
    assert report.shapes == ((10, 1100), (5, 550), (3, 275), (2, 138))


def test_chunks_are_written_whole_by_one_task_each(tmp_path, monkeypatch):
    written, put = [], chunks.put

    def noted(target, level, index, data):
        written.append((level, index))
        put(target, level, index, data)

    monkeypatch.setattr(chunks, "put", noted)
    write(X, tmp_path / "a.zarr", levels=3, axes="cyx", chunks=(1, 32, 32))
    assert len(set(written)) == len(written)
    for level in range(3):
        array = zarr.open_array(str(tmp_path / "a.zarr" / str(level)), mode="r")
        counts = [-(-n // c) for n, c in zip(array.shape, array.chunks, strict=True)]
        assert {index for number, index in written if number == level} == set(np.ndindex(*counts))


def test_memory_holds_a_few_blocks(tmp_path, monkeypatch):
    most, now = [0], [0]
    make = blocks.make

    def counted(work, region):
        now[0] += 1
        most[0] = max(most[0], now[0])
        try:
            return make(work, region)
        finally:
            now[0] -= 1

    monkeypatch.setattr(running, "make", counted)
    write(X, tmp_path / "a.zarr", levels=2, axes="cyx", chunks=(1, 32, 32))
    assert 1 <= most[0] <= 64


# --- sources --------------------------------------------------------------------------------------


def made(tmp_path, what):
    path = tmp_path / what
    if what == "x.npy":
        np.save(path, X)
    elif what == "tiled.tif":
        tifffile.imwrite(path, X, tile=(64, 64), photometric="minisblack")
    elif what == "big.tif":
        tifffile.imwrite(path, X, bigtiff=True, byteorder=">", photometric="minisblack")
    elif what.startswith("v"):
        found = zarr.create_array(str(path), shape=X.shape, chunks=(1, 40, 50), dtype=X.dtype, zarr_format=int(what[1]))
        found[:] = X
    elif what == "image.zarr":
        write(X, path, levels=2, axes="cyx", scale=(0.5, 0.25), unit="micrometer")
    return path


@pytest.mark.parametrize("what", ["x.npy", "tiled.tif", "big.tif", "v2.zarr", "v3.zarr", "image.zarr"])
def test_sources(tmp_path, what):
    path = made(tmp_path, what)
    axes = None if what == "image.zarr" else "cyx"
    report = write(path, tmp_path / "a.zarr", levels=3, axes=axes)
    check(tmp_path / "a.zarr", Avg(rounding="half_even"), X, (1, 2, 2), 3)
    assert report.read == X.nbytes


def test_an_open_array_of_zarr(tmp_path):
    found = zarr.open_array(str(made(tmp_path, "v3.zarr")), mode="r")
    write(found, tmp_path / "a.zarr", levels=2, axes="cyx")
    check(tmp_path / "a.zarr", Avg(rounding="half_even"), X, (1, 2, 2), 2)


def test_an_image_gets_other_levels_and_keeps_its_frame(tmp_path):
    path = made(tmp_path, "image.zarr")
    write(path, path, "max", levels=4)
    check(path, Max(), X, (1, 2, 2), 4)
    image = zarr.open_group(str(path), mode="r").attrs["ome"]["multiscales"][0]
    assert image["datasets"][1]["coordinateTransformations"][0]["scale"] == [1.0, 1.0, 0.5]
    assert image["axes"][2]["unit"] == "micrometer"
    write(path, path, levels=2)
    check(path, Avg(rounding="half_even"), X, (1, 2, 2), 2)
    assert not (path / "2").exists()


# --- metadata -------------------------------------------------------------------------------------


def test_metadata_is_valid_and_can_be_read(tmp_path):
    models = pytest.importorskip("ome_zarr_models.v05")
    path = tmp_path / "a.zarr"
    write(X[None], path, levels=4, axes="tcyx", scale=(2.0, 0.5), unit="micrometer")
    image = models.Image.from_zarr(zarr.open_group(str(path), mode="r"))
    (multiscale,) = image.ome_attributes.multiscales
    assert [axis.name for axis in multiscale.axes] == list("tcyx")
    assert [axis.unit for axis in multiscale.axes] == [None, None, "micrometer", "micrometer"]
    for level, dataset in enumerate(multiscale.datasets):
        scale, translation = dataset.coordinateTransformations
        assert scale.scale == [1, 1, 2.0 * 2**level, 0.5 * 2**level]
        centre = (2**level - 1) / 2
        assert translation.translation == [0, 0, 2.0 * centre, 0.5 * centre]
    assert [2**level / 2 - 0.5 for level in (1, 2, 3)] == [0.5, 1.5, 3.5]
    assert multiscale.type == "avg"
    names = {zarr.open_array(str(path / str(level)), mode="r").metadata.dimension_names for level in range(4)}
    assert names == {("t", "c", "y", "x")}


def test_other_readers_read_it(tmp_path):
    pytest.importorskip("ome_zarr")
    from ome_zarr.io import parse_url
    from ome_zarr.reader import Reader

    write(X, tmp_path / "a.zarr", levels=3, axes="cyx")
    (node,) = list(Reader(parse_url(tmp_path / "a.zarr"))())
    for found, level in zip(node.data, expected(Avg(rounding="half_even"), X, (1, 2, 2), 3), strict=True):
        np.testing.assert_array_equal(np.asarray(found), level)


def test_the_frame_of_older_metadata():
    old = {
        "multiscales": [
            {
                "axes": [{"name": "y", "type": "space"}, {"name": "x", "type": "space"}],
                "datasets": [{"path": "s0", "coordinateTransformations": [{"type": "scale", "scale": [2, 3]}]}],
                "coordinateTransformations": [
                    {"type": "scale", "scale": [10, 10]},
                    {"type": "translation", "translation": [1, 2]},
                ],
            }
        ]
    }
    frame, path = ome.frame_of(old)
    assert (path, frame.scale, frame.translation) == ("s0", (20.0, 30.0), (1.0, 2.0))


# --- interruptions --------------------------------------------------------------------------------


class Interrupted(Exception):  # noqa: N818 - no error
    pass


def failing_after(monkeypatch, count, fault):
    """A run that makes some blocks and then fails."""
    made, make = [], blocks.make

    def failing(work, region):
        if len(made) >= count:
            raise fault
        made.append(region)
        return make(work, region)

    monkeypatch.setattr(running, "make", failing)
    return made


def test_an_interrupted_run_is_no_image_and_is_resumed(tmp_path, monkeypatch):
    target, given = tmp_path / "a.zarr", {"levels": 3, "axes": "cyx", "chunks": (1, 32, 32)}
    with monkeypatch.context() as patch:
        made = failing_after(patch, 5, Interrupted())
        with pytest.raises(Interrupted):
            write(X, target, **given)
    assert made
    assert not (target / "zarr.json").exists()
    assert (target / journal.NAME).exists()
    with pytest.raises(FileExistsError, match=r"exists; .* or resume=True \(--resume\) to go on"):
        write(X, target, **given)
    with pytest.raises(ValueError, match=r"begun with other settings \(kind\)"):
        write(X, target, "max", resume=True, **given)
    with monkeypatch.context() as patch:
        again = failing_after(patch, 1000, Interrupted())
        report = write(X, target, resume=True, **given)
    assert len(set(again) & set(made)) < len(made)  # what other threads had just done is done again
    assert 0 < report.read < X.nbytes
    assert report.read < report.written < sum(level.nbytes for level in levels_of(target))
    check(target, Avg(rounding="half_even"), X, (1, 2, 2), 3)
    assert not (target / journal.NAME).exists()
    with pytest.raises(ValueError, match="no interrupted run to resume"):
        write(X, target, resume=True, **given)


def test_a_process_that_is_killed_is_resumed(tmp_path):
    np.save(tmp_path / "x.npy", X)
    script = (
        "import os, sys; from ndpool.pyramid import blocks, running, sizes, write\n"
        "sizes.BLOCK_BYTES = 1 << 13; n = []\n"
        "def make(work, part):\n    n.append(1)\n    return os._exit(9) if len(n) > 6 else blocks.make(work, part)\n"
        "running.make = make; write(sys.argv[1], sys.argv[2], axes='cyx', levels=3, chunks=(1, 32, 32), progress=False)"
    )
    run = subprocess.run([sys.executable, "-c", script, tmp_path / "x.npy", tmp_path / "a.zarr"], check=False)
    assert run.returncode == 9
    assert not (tmp_path / "a.zarr" / "zarr.json").exists()
    write(tmp_path / "x.npy", tmp_path / "a.zarr", axes="cyx", levels=3, chunks=(1, 32, 32), resume=True)
    check(tmp_path / "a.zarr", Avg(rounding="half_even"), X, (1, 2, 2), 3)


def test_the_command_says_how_to_go_on_where_it_is_interrupted(tmp_path, monkeypatch, capsys):
    np.save(tmp_path / "x.npy", X)
    given = [str(tmp_path / "x.npy"), str(tmp_path / "a.zarr"), "--axes", "cyx", "--levels", "2", "--chunks", "1,32,32"]
    with monkeypatch.context() as patch:
        failing_after(patch, 2, KeyboardInterrupt())
        with pytest.raises(SystemExit) as ended:
            main(["pyramid", *given])
    assert ended.value.code == 130
    assert "a.zarr is not finished; run again with --resume to go on" in capsys.readouterr().err
    assert main(["pyramid", *given, "--resume"]) == 0
    check(tmp_path / "a.zarr", Avg(rounding="half_even"), X, (1, 2, 2), 2)


def test_a_full_disk(tmp_path, monkeypatch):
    def full(target, level, index, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(chunks, "put", full)
        with pytest.raises(OSError, match="the disk is full; free some space and run again with resume") as raised:
            write(X, tmp_path / "a.zarr", axes="cyx")
    assert raised.value.errno == errno.ENOSPC
    assert not (tmp_path / "a.zarr" / "zarr.json").exists()
    write(X, tmp_path / "a.zarr", axes="cyx", resume=True)
    check(tmp_path / "a.zarr", Avg(rounding="half_even"), X, (1, 2, 2), len(levels_of(tmp_path / "a.zarr")))


def test_a_source_that_is_damaged(tmp_path):
    path = made(tmp_path, "v3.zarr")
    (path / "c" / "1" / "0" / "0").write_bytes(b"not what was written")
    with pytest.raises(ValueError, match=r"v3.zarr cannot be read at \[.*\], and is perhaps damaged"):
        write(path, tmp_path / "a.zarr", axes="cyx", levels=2)
    assert not (tmp_path / "a.zarr" / "zarr.json").exists()
    tifffile.imwrite(tmp_path / "x.tif", X)
    (tmp_path / "x.tif").write_bytes((tmp_path / "x.tif").read_bytes()[:3000])
    with pytest.raises(ValueError, match="cannot be read"):
        write(tmp_path / "x.tif", tmp_path / "b.zarr", axes="cyx", levels=2)


def test_targets_that_exist(tmp_path):
    write(X, tmp_path / "a.zarr", axes="cyx", levels=2)
    with pytest.raises(FileExistsError, match=r"exists; give overwrite=True \(--force\) to replace it$"):
        write(X, tmp_path / "a.zarr", axes="cyx", levels=2)
    write(X[:, :50], tmp_path / "a.zarr", axes="cyx", levels=3, overwrite=True)
    check(tmp_path / "a.zarr", Avg(rounding="half_even"), X[:, :50], (1, 2, 2), 3)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(FileExistsError, match="is no image of Zarr, and is not removed"):
        write(X, tmp_path / "mine", axes="cyx", overwrite=True)
    assert (tmp_path / "mine" / "letter.txt").exists()


# --- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"kind": "nearest"}, ValueError, "kind='nearest' is not a kind without numbers; give one of"),
        ({"kind": Sum()}, ValueError, "makes uint64 of uint16, and all levels of an image have one dtype"),
        ({"kind": 3}, TypeError, "kind=3 is a int; give a Kind"),
        ({"kind": "avg", "labels": True}, ValueError, "of labels is a label that is not there"),
        ({"factors": 0}, ValueError, "factors=0 is less than 1"),
        ({"factors": (2, 2, 2, 2)}, ValueError, r"factors=\(2, 2, 2, 2\) for the axes 'cyx'"),
        ({"levels": 0}, ValueError, "levels=0 is less than 1"),
        ({"axes": "xyz"}, ValueError, "axes='xyz' for a source of 3 axes"),
        ({"axes": "yx"}, ValueError, "axes='yx' for a source of 3 axes"),
        ({"scale": (1.0,)}, ValueError, r"scale=\(1.0,\) for the axes 'cyx'"),
        ({"scale": (0.0, 1.0)}, ValueError, "give a positive size"),
        ({"chunks": (1, 2)}, ValueError, r"chunks=\(1, 2\) for 3 axes"),
        ({"chunks": (1, 10, 10), "shards": (1, 15, 10)}, ValueError, "are not multiples of chunks"),
        ({"skip": -1}, ValueError, "skip=-1 is no uint16"),
        ({"resume": True}, ValueError, "no interrupted run to resume"),
    ],
)
def test_bad_arguments(tmp_path, given, error, message):
    with pytest.raises(error, match=message):
        write(X, tmp_path / "a.zarr", **{"axes": "cyx", **given})
    assert not (tmp_path / "a.zarr").exists()


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("nowhere.npy", FileNotFoundError, "there is no such file or folder"),
        ([1, 2], TypeError, "source is a builtins.list; give a NumPy or Dask array"),
        (np.zeros((2, 2), complex), TypeError, "the source has dtype complex128"),
        (np.zeros((0, 2)), ValueError, "no cell"),
        (np.zeros(9), ValueError, "the source has 1 axes, and an image of OME-Zarr has 2 to 5"),
        (da.zeros(9)[da.zeros(9) > 1], ValueError, "compute_chunk_sizes"),
    ],
)
def test_bad_sources(tmp_path, source, error, message):
    with pytest.raises(error, match=message):
        write(source, tmp_path / "a.zarr")


def test_files_and_folders_that_are_none(tmp_path):
    (tmp_path / "x.txt").write_text("words")
    with pytest.raises(ValueError, match=r"x.txt cannot be read: by its first bytes no .npy and no TIFF"):
        write(tmp_path / "x.txt", tmp_path / "a.zarr")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match="is a folder, and no array or image of Zarr"):
        write(tmp_path / "folder", tmp_path / "a.zarr")
    zarr.open_group(str(tmp_path / "group"), mode="w")
    with pytest.raises(ValueError, match="is a group of Zarr without an image"):
        write(tmp_path / "group", tmp_path / "a.zarr")


def test_an_image_of_the_older_format_is_not_changed(tmp_path):
    group = zarr.open_group(str(tmp_path / "old.zarr"), mode="w", zarr_format=2)
    group.create_array("0", shape=(8, 8), dtype="u1")
    group.attrs["multiscales"] = [
        {"axes": [{"name": "y", "type": "space"}, {"name": "x", "type": "space"}], "datasets": [{"path": "0"}]}
    ]
    with pytest.raises(ValueError, match=r"is not OME-Zarr 0.5 with a level '0'; give another target"):
        write(tmp_path / "old.zarr", tmp_path / "old.zarr")


# --- the command ----------------------------------------------------------------------------------


def test_the_command(tmp_path, capsys):
    source, target = str(made(tmp_path, "x.npy")), str(tmp_path / "a.zarr")
    options = ["--axes", "cyx", "--factor", "1,2,2", "--levels", "3", "--scale", "1,0.5,0.5", "--unit", "micrometer"]
    assert main(["pyramid", source, target, *options]) == 0
    assert "3 levels (2x150x203, 2x75x102, 2x38x51)" in capsys.readouterr().out
    check(target, Avg(rounding="half_even"), X, (1, 2, 2), 3)
    assert main(["pyramid", source, target, *options]) == 2
    assert "--force" in capsys.readouterr().err
    assert main(["pyramid", source, target, "--labels", "--force", "--axes", "cyx", "--levels", "2"]) == 0
    check(target, Mode(), X, (1, 2, 2), 2)
    assert main(["pyramid", source, target, "--scale", "wide", "--force"]) == 2
    assert "--scale wide: these are no numbers" in capsys.readouterr().err
    assert main(["pyramid", source, target, "--resume", "--axes", "cyx"]) == 2


def test_the_demo(tmp_path):
    assert main(["pyramid", "demo", str(tmp_path / "lake.zarr"), "--levels", "3"]) == 0
    assert [level.shape for level in levels_of(tmp_path / "lake.zarr")] == [(3, 240, 320), (3, 120, 160), (3, 60, 80)]


def test_the_report(tmp_path):
    report = write(X, tmp_path / "a.zarr", axes="cyx", levels=2)
    assert report.written == sum(level.nbytes for level in levels_of(tmp_path / "a.zarr"))
    assert report.stored > 0
    assert report.peak > 1 << 20
    assert "2 levels (2x150x203, 2x75x102)" in str(report)


def test_the_journal_is_readable(tmp_path):
    kept = journal.Journal(tmp_path)
    kept.start({"kind": "Max()"})
    kept.add(3)
    assert kept.done({"kind": "Max()"}) == {3}
    assert json.loads(kept.path.read_text().splitlines()[0]) == {"kind": "Max()"}


def test_a_source_is_opened_anew_for_each_run(tmp_path):
    path = tmp_path / "x.npy"
    for fill in (1, 2):
        np.save(path, np.full((4, 4), fill, np.uint8))
        assert sources.source_of(path).read(((0, 4), (0, 4))).max() == fill
