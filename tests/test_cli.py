"""The command line, through the command line: every command's help, every result, every error path."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import typer
from PIL import Image
from rich.console import Console

import ndpool
from ndpool import Avg, Max, Pool, Window, spec
from ndpool.cli import checking, frameworks, main, work
from ndpool.cli import demo as demo_module
from ndpool.cli.app import app
from ndpool.cli.arguments import KINDS, OTHER_NAMES
from ndpool.kinds import METHODS, MODE_TIES, ROUNDINGS
from ndpool.table import KINDS as TABLED
from ndpool.viz import demo

COMMANDS = ("demo", "pool", "pyramid", "explain", "check", "c", "prove")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")


@pytest.fixture
def ndpool_says(capsys):
    """What `ndpool ARGUMENTS` prints, after its exit code has been checked."""

    def run(arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        assert main(arguments.split()) == code, capsys.readouterr()
        printed = capsys.readouterr()
        if code == 2:
            assert printed.out == ""
            (line,) = printed.err.splitlines()
            assert line.startswith("ndpool: ")
            return line
        return printed.out

    return run


# --- help -----------------------------------------------------------------------------------------


def test_no_arguments_is_help(ndpool_says):
    said = ndpool_says("")
    assert said == ndpool_says("--help")
    assert all(command in said for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(ndpool_says, command):
    said = ndpool_says(f"{command} --help")
    assert f"Usage: ndpool {command}" in said
    options = re.findall(r"(--[a-z-]+)", said)
    assert "--help" in options
    assert len(options) > 1


def test_help_says_the_defaults(ndpool_says):
    said = " ".join(re.sub(r"[│╭╮╰╯─]", " ", ndpool_says("pool --help")).split())
    for words in (
        "(default: first)",
        "(default: yes)",
        "(default: the kernel)",
        "(default: 1)",
        "(default: height and width of an image, ",
        "for max and min: first, split or all; for mode: first, smallest or largest (default: first)",
        "for quantile: linear, midpoint, lower, higher or nearest (default: linear)",
        "for avg: half_even, half_up, half_away, floor or truncate",
        "Which cells are there",
    ):
        assert words in said


@pytest.mark.parametrize("columns", [60, 80, 99, 100, 120])
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_no_help_is_cut_off(ndpool_says, monkeypatch, command, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    said = ndpool_says(f"{command} --help")
    assert "\N{HORIZONTAL ELLIPSIS}" not in said
    assert max(map(len, said.splitlines())) <= columns
    words = " ".join(re.sub(r"[│╭╮╰╯─]", " ", said).split())
    group = typer.main.get_command(app)
    if not command:
        for each in group.commands.values():
            assert each.help.splitlines()[0] in words
        return
    for parameter in group.commands[command].params:
        assert all(option in words.replace(",", " ").split() for option in parameter.opts if option.startswith("-"))
        assert all(option in words.split() for option in parameter.secondary_opts)
        for word in parameter.help.split():
            assert word in re.sub(r"(?<=\w)- (?=\w)", "-", words)  # a line may end after a hyphen


def test_version(ndpool_says):
    assert ndpool_says("--version") == f"ndpool {ndpool.__version__}\n"


@pytest.mark.parametrize("command", [["-m", "ndpool"], ["-c", "import sys, ndpool.cli; sys.exit(ndpool.cli.main())"]])
def test_as_a_process(command):
    def run(*arguments):
        return subprocess.run([sys.executable, *command, *arguments], capture_output=True, text=True, timeout=300)

    good = run("explain", "--shape", "4", "--kernel", "2")
    assert (good.returncode, good.stderr) == (0, "")
    bad = run("explain", "--shape", "4", "--kernel", "9")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr.startswith("ndpool: kernel_size=9 with dilation=1 reaches over 9 cells")
    assert bad.stderr.count("\n") == 1


def test_without_typer_one_is_told_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "ndpool.cli.app", raising=False)
    assert main(["demo"]) == 2
    assert "pip install 'ndpool[cli]'" in capsys.readouterr().err


def test_import_needs_numpy_alone():
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['typer', 'rich', 'PIL', 'matplotlib', 'torch'])); import ndpool"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


# --- pool -----------------------------------------------------------------------------------------

IMAGE = np.random.default_rng(0).integers(0, 256, (9, 12, 3), dtype=np.uint8)


def save(name, array):
    Image.fromarray(array).save(name)


def load(name):
    with Image.open(name) as image:
        return np.asarray(image)


@pytest.mark.parametrize("ending", ["png", "tif", "tiff"])
def test_pool_an_image(ndpool_says, ending):
    save("in.png", IMAGE)
    said = ndpool_says(f"pool in.png -o out.{ending} --kind max --kernel 2,2 --stride 2")
    assert "(9, 12, 3) to (4, 6, 3)" in said
    expected = ndpool.max_pool(IMAGE, (2, 2), 2, axes=(0, 1))
    np.testing.assert_array_equal(load(f"out.{ending}"), expected)


def test_pool_a_jpeg(ndpool_says):
    save("in.jpg", IMAGE)
    ndpool_says("pool in.jpg -o out.JPEG --kind avg --kernel 3")
    assert load("out.JPEG").shape == (3, 4, 3)


def test_averages_become_the_nearest_pixels(ndpool_says):
    save("in.png", IMAGE[..., 0])
    ndpool_says("pool in.png -o out.png --kind avg --kernel 3 --padding 1")
    y = ndpool.avg_pool(IMAGE[..., 0], (3, 3), padding=1)
    np.testing.assert_array_equal(load("out.png"), np.rint(y))


def test_sixteen_bits_stay_sixteen(ndpool_says):
    deep = np.random.default_rng(1).integers(0, 65536, (6, 8)).astype(np.uint16)
    save("in.tif", deep)
    ndpool_says("pool in.tif -o out.png --kernel 2")
    np.testing.assert_array_equal(load("out.png"), ndpool.max_pool(deep, (2, 2)))


def test_float_images(ndpool_says):
    x = np.random.default_rng(2).random((6, 8), dtype=np.float32)
    save("in.tif", x)
    ndpool_says("pool in.tif -o out.tif --kind avg --kernel 2")
    np.testing.assert_array_equal(load("out.tif"), ndpool.avg_pool(x, (2, 2)))


@pytest.mark.parametrize("mode", ["1", "P", "LA", "RGBA", "CMYK"])
def test_other_images_are_read(ndpool_says, mode):
    image = Image.fromarray(IMAGE).convert(mode)
    if "A" in mode:
        image.putalpha(Image.fromarray(IMAGE[..., 1]))
    image.save(f"in.{'tif' if mode == 'CMYK' else 'png'}")
    ndpool_says(f"pool in.{'tif' if mode == 'CMYK' else 'png'} -o out.png --kernel 3")
    plain = np.asarray(image.convert({"1": "L", "P": "RGB", "CMYK": "RGB"}.get(mode, mode)))
    np.testing.assert_array_equal(load("out.png"), ndpool.max_pool(plain, 3, axes=(0, 1)), strict=True)


def test_what_pixels_cannot_hold_is_refused_or_clipped(ndpool_says):
    save("in.png", IMAGE)
    line = ndpool_says("pool in.png -o out.png --kind sum --kernel 3", code=2)
    assert "its pixels hold 0 to 255; write .npy or .npz, or give --clip" in line
    ndpool_says("pool in.png -o out.png --kind sum --kernel 3 --clip")
    expected = np.minimum(ndpool.sum_pool(IMAGE, 3, axes=(0, 1)), 255)
    np.testing.assert_array_equal(load("out.png"), expected)


X = np.random.default_rng(3).standard_normal((2, 3, 7, 8))
KIND_OPTIONS = {
    "--kind max --ties split": ndpool.Max("split"),
    "--kind min": ndpool.Min(),
    "--kind avg --no-count-include-pad": ndpool.Avg(False),
    "--kind mean --no-count-include-pad": ndpool.Avg(False),
    "--kind avg --divisor 3": ndpool.Avg(divisor_override=3),
    "--kind sum": ndpool.Sum(),
    "--kind smooth-max --beta -2": ndpool.SmoothMax(-2.0),
    "--kind lp --p 3": ndpool.Lp(3),
    "--kind mode --ties smallest": ndpool.Mode("smallest"),
    "--kind quantile --q 0.75": ndpool.Quantile(0.75),
    "--kind quantile --q 0.1 --method nearest": ndpool.Quantile(0.1, "nearest"),
    "--kind median": ndpool.Median(),
}
WINDOW_OPTIONS = {
    "--kernel 3,2 --stride 2,1 --padding 1:0,1": ndpool.Window((3, 2), (2, 1), ((1, 0), 1)),
    "--kernel-size 2,2 --padding same --dilation 2": ndpool.Window((2, 2), None, "same", 2),
    "--kernel 3,3 --stride 2 --ceil-mode": ndpool.Window((3, 3), 2, ceil_mode=True),
    "--adaptive 3,2": ndpool.Adaptive((3, 2)),
}


@pytest.mark.parametrize("kind", KIND_OPTIONS)
@pytest.mark.parametrize("window", WINDOW_OPTIONS)
def test_pool_arrays_with_every_kind_and_window(ndpool_says, kind, window):
    np.save("in.npy", X)
    ndpool_says(f"pool in.npy -o out.npy {kind} {window}")
    expected = Pool(KIND_OPTIONS[kind], WINDOW_OPTIONS[window])(X)
    np.testing.assert_array_equal(np.load("out.npy"), expected)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, np.uint64])
def test_rounded_means_are_of_the_dtype_that_comes_in(ndpool_says, rounding, dtype):
    x = np.random.default_rng(4).integers(-90 if np.dtype(dtype).kind == "i" else 0, 90, (3, 6, 7)).astype(dtype)
    x[0] = np.iinfo(dtype).max
    np.save("in.npy", x)
    ndpool_says(f"pool in.npy -o out.npy --kind avg --rounding {rounding} --kernel 2,3")
    expected = spec.forward(Pool(Avg(rounding=rounding), Window((2, 3))), x)
    np.testing.assert_array_equal(np.load("out.npy"), expected, strict=True)


SKIPS = {
    "--skip nan": {"skip": np.nan},
    "--skip NaN --min-count 3": {"skip": np.nan, "min_count": 3},
    "--skip -9999": {"skip": -9999},
    "--skip 1.5 --min-count 2": {"skip": 1.5, "min_count": 2},
    "--skip=-inf": {"skip": -np.inf},
}


@pytest.mark.parametrize("skip", SKIPS)
@pytest.mark.parametrize("kind", KIND_OPTIONS)
def test_skipped_cells(ndpool_says, kind, skip):
    x = np.random.default_rng(5).choice([np.nan, -9999, 1.5, -np.inf, 2.0, 3.0], (4, 6, 5))
    np.save("in.npy", x)
    said = ndpool_says(f"pool in.npy -o out.npy {kind} {skip} --kernel 2,2 --padding 1")
    pool = Pool(KIND_OPTIONS[kind], Window((2, 2), padding=1), **SKIPS[skip])
    assert "skip=" in said
    assert ("min_count=" in said) == ("min_count" in SKIPS[skip])
    np.testing.assert_allclose(np.load("out.npy"), spec.forward(pool, x), rtol=1e-12)


@pytest.mark.parametrize(
    ("dtype", "skip"), [(np.uint8, 0), (np.int64, -(2**63)), (np.uint64, 2**64 - 1), (np.int64, 2**53 + 1)]
)
def test_integers_of_64_bits_are_skipped_exactly(ndpool_says, dtype, skip):
    near = skip - 1 if skip > 0 else skip + 1  # as a float it may be the same
    x = np.array([[skip, near, skip, skip], [near, near, near, near]], dtype)
    np.save("in.npy", x)
    ndpool_says(f"pool in.npy -o out.npy --kind mode --kernel 1,4 --skip {skip}")
    assert np.load("out.npy").tolist() == [[near], [near]]
    ndpool_says(f"pool in.npy -o out.npy --kind min --kernel 1,4 --skip {skip} --min-count 2 --force")
    assert np.load("out.npy").tolist() == [[skip], [near]]


def test_images_of_labels_and_rounded_images_keep_their_type(ndpool_says):
    labels = np.random.default_rng(6).integers(0, 4, (8, 10)).astype(np.uint16) * 1000
    save("labels.png", labels)
    ndpool_says("pool labels.png -o out.png --kind mode --ties largest --kernel 3 --stride 2 --skip 0")
    pool = Pool(ndpool.Mode("largest"), Window((3, 3), 2), skip=0)
    np.testing.assert_array_equal(load("out.png"), spec.forward(pool, labels), strict=True)
    save("in.png", IMAGE)
    ndpool_says("pool in.png -o dark.png --kind avg --rounding truncate --kernel 2")
    rounded = spec.forward(Pool(Avg(rounding="truncate"), Window((2, 2)), axes=(0, 1)), IMAGE)
    np.testing.assert_array_equal(load("dark.png"), rounded, strict=True)


def test_every_kind_has_a_name():
    assert tuple(dict.fromkeys(KINDS.values())) == TABLED
    assert len(KINDS) == len(TABLED) + len(OTHER_NAMES)
    assert {type(kind) for kind in KIND_OPTIONS.values()} == set(TABLED)


def test_global_and_axes(ndpool_says):
    np.save("in.npy", X)
    ndpool_says("pool in.npy -o out.npy --global --axes=1,-1 --kind avg")
    np.testing.assert_allclose(np.load("out.npy"), X.mean(axis=(1, 3), keepdims=True), rtol=1e-12)


def test_npz_keeps_its_names(ndpool_says):
    np.savez("in.npz", a=X, b=X[0, 0])
    said = ndpool_says("pool in.npz -o out.npz --kernel 2,2")
    assert "(2, 3, 7, 8) to (2, 3, 3, 4) and (7, 8) to (3, 4)" in said
    found = np.load("out.npz")
    assert sorted(found) == ["a", "b"]
    np.testing.assert_array_equal(found["b"], ndpool.max_pool(X[0, 0], (2, 2)))


def test_formats_can_change(ndpool_says):
    save("in.png", IMAGE)
    ndpool_says("pool in.png -o out.npz --kernel 2")
    np.testing.assert_array_equal(np.load("out.npz")["y"], ndpool.max_pool(IMAGE, 2, axes=(0, 1)))
    ndpool_says("pool out.npz -o back.npy --kernel 1,1 --axes 0,1")
    np.testing.assert_array_equal(np.load("back.npy"), np.load("out.npz")["y"])


def test_nothing_is_overwritten_without_force(ndpool_says):
    np.save("in.npy", X)
    Path("out.npy").touch()
    assert "out.npy exists; give another name, or --force" in ndpool_says("pool in.npy -o out.npy --kernel 2,2", code=2)
    assert Path("out.npy").read_bytes() == b""
    ndpool_says("pool in.npy -o out.npy --kernel 2,2 --force")
    assert np.load("out.npy").shape == (2, 3, 3, 4)


def test_a_failure_leaves_nothing_behind(ndpool_says, tmp_path, monkeypatch):
    np.save("in.npy", X)
    monkeypatch.setattr(np, "save", lambda *args, **more: (_ for _ in ()).throw(OSError("the disk is full")))
    assert "the disk is full" in ndpool_says("pool in.npy -o out.npy --kernel 2,2", code=2)
    assert [path.name for path in tmp_path.iterdir()] == ["in.npy"]


def test_pieces_give_the_whole(monkeypatch):
    monkeypatch.setattr(work, "PIECE_CELLS", 50)
    steps = []
    for pool in [Pool(Avg(), Window((2, 2))), Pool(Max(), Window((2, 2)), axes=(0, 3)), Pool(Max(), Window((1,) * 4))]:
        np.testing.assert_array_equal(work.pooled(pool, X, lambda: steps.append(1)), pool(X))
    assert len(steps) == 3 + 7 + 1


def test_the_bar_comes_after_a_while(monkeypatch, capsys):
    monkeypatch.setattr(work, "PATIENCE_S", 0.05)
    monkeypatch.setattr(work, "Console", lambda **more: Console(**more, force_terminal=True))
    monkeypatch.setenv("TERM", "xterm")
    with work.progress(4, "pooling") as step:
        time.sleep(0.3)
        step()
    assert "pooling" in capsys.readouterr().err
    with work.progress(4, "pooling") as step:
        step()
    assert capsys.readouterr().err == ""


# --- errors ---------------------------------------------------------------------------------------

ERRORS = {
    "": "Missing argument 'INPUT'; see ndpool pool --help",
    "in.npy": "Missing option '--output' / '-o'; see ndpool pool --help",
    "none.npy -o out.npy --kernel 2,2": "none.npy: there is no such file",
    "in.txt -o out.npy --kernel 2,2": "in.txt: by its first bytes no PNG, TIFF, JPEG, .npy or .npz; convert it",
    "in.npy -o out --kernel 2,2": "out: the ending '' says no format",
    "in.npy -o nowhere/out.npy --kernel 2,2": "nowhere: there is no such folder",
    "broken.npy -o out.npy --kernel 2,2": "broken.npy: not a npy file that can be read",
    "broken.npz -o out.npy --kernel 2,2": "broken.npz: not a npz file that can be read",
    "broken.png -o out.npy --kernel 2,2": "broken.png: not a png file that can be read",
    "words.npy -o out.npy --kernel 1 --axes 0": "words.npy: has dtype <U3; give real numbers",
    "two.npz -o out.npy --kernel 2,2": "two.npz holds 2 arrays and out.npy one; write .npz",
    "in.npy -o out.png --kernel 2,2": "out.png: PNG holds uint8 and uint16, and in.npy has float64; write .tif or .npy",
    "in.npy -o out.npy": "there is no window; give --kernel",
    "in.npy -o out.npy --kernel 2": "in.npy: one number for --kernel does not say how many axes to pool; give one for "
    "each, or --axes",
    "in.npy -o out.npy --adaptive 2": "one number for --adaptive does not say how many axes to pool",
    "in.npy -o out.npy --kernel 2,x": "--kernel 2,x: 'x' is not a whole number",
    "in.npy -o out.npy --kernel 2,2 --padding half": "'half' is not a whole number; give one for all axes, or one for "
    "each with commas, one of valid, same, same_lower, or before:after",
    "in.npy -o out.npy --kernel 2,2 --stride 9223372036854775808": ": 9223372036854775808 has more than 64 "
    "bits; give a smaller number",
    "in.npy -o out.npy --kernel 0,2": "kernel_size[0]=0 is less than 1; give an int >= 1",
    "in.npy -o out.npy --kernel 2,2 --stride 0": "stride=0 is less than 1",
    "in.npy -o out.npy --kernel 9,9": "in.npy: kernel_size=9 with dilation=1 reaches over 9 cells",
    "in.npy -o out.npy --kernel 2,2 --padding 3": "sees no real cell",
    "in.npy -o out.npy --kernel 2,2 --adaptive 2": "--adaptive and --kernel are two ways",
    "in.npy -o out.npy --global --adaptive 2": "--adaptive and --global are two ways",
    "in.npy -o out.npy --kernel 2,2 --axes 0,9": "9 is out of range for shape (2, 3, 7, 8)",
    "in.npy -o out.npy --kernel 2,2 --kind middle": "'middle' is not one of 'max', 'min', 'mode', 'quantile', 'median'",
    "in.npy -o out.npy --kernel 2,2 --p 2 --kind mean": "--p is for --kind lp; leave it out with --kind mean",
    "in.npy -o out.npy --kernel 2,2 --no-count-include-pad": "is for --kind avg and smooth-max; leave it out with",
    "in.npy -o out.npy --kernel 2,2 --ties last": "'last' is not one of 'first', 'split', 'all', 'smallest', 'largest'",
    "in.npy -o out.npy --kernel 2,2 --ties largest": "ties='largest' is not a policy; give one of ('first', 'split'",
    "in.npy -o out.npy --kernel 2,2 --kind mode --ties split": "ties='split' is not a policy of Mode; give one of",
    "in.npy -o out.npy --kernel 2,2 --kind sum --ties first": "--ties is for --kind max, min and mode; leave it out",
    "in.npy -o out.npy --kernel 2,2 --kind quantile": "--kind quantile needs --q; give for example --q 0.25",
    "in.npy -o out.npy --kernel 2,2 --kind quantile --q 2": "q=2.0 is not a share of the cells; give a number",
    "in.npy -o out.npy --kernel 2,2 --kind quantile --q .5 --method hazen": "'hazen' is not one of 'linear', 'midp",
    "in.npy -o out.npy --kernel 2,2 --kind median --q 0.5": "--q is for --kind quantile; leave it out with --kind med",
    "in.npy -o out.npy --kernel 2,2 --kind avg --rounding up": "'up' is not one of 'half_even', 'half_up', 'half_away'",
    "in.npy -o out.npy --kernel 2,2 --kind avg --rounding floor": "in.npy: rounding='floor' is for integers, and x has "
    "float64; leave rounding out",
    "in.npy -o out.npy --kernel 2,2 --kind avg --rounding floor --divisor 3": "rounding='floor' with divisor_overr",
    "in.npy -o out.npy --kernel 2,2 --kind sum --rounding floor": "--rounding is for --kind avg; leave it out with",
    "in.npy -o out.npy --kernel 2,2 --skip abc": "--skip abc: this is no number; give the number that stands for a "
    "cell not there, or nan",
    "in.npy -o out.npy --kernel 2,2 --min-count 2": "--min-count 2 counts the cells that are not skipped; give --skip",
    "in.npy -o out.npy --kernel 2,2 --skip 0 --min-count 0": "min_count=0, and Max(ties='first') of no cell has no",
    "in.npy -o out.npy --kernel 2,2 --skip 0 --min-count -1": "min_count=-1 is less than 0",
    "in.npy -o out.npy --kernel 2,2 --skip 0 --min-count 1.5": "Invalid value for '--min-count'",
    "in.npy -o out.npy --kernel 2,2 --skip 0 --min-count 5": "in.npy: min_count=5, and a window has 4 cells at most",
    "whole.npy -o out.npy --kernel 2,2 --skip nan": "whole.npy: skip=nan is no uint8; give an integer from 0 to 255",
    "whole.npy -o out.npy --kernel 2,2 --skip 256": "whole.npy: skip=256 is no uint8; give an integer from 0 to 255",
    "in.npy -o out.npy --kernel 2,2 --kind smooth-max": "--kind smooth-max needs --beta; give for example --beta 1.0",
    "in.npy -o out.npy --kernel 2,2 --kind lp": "--kind lp needs --p; give for example --p 2",
    "in.npy -o out.npy --kernel 2,2 --kind lp --p 0.5": "p=0.5 must be finite and >= 1",
    "in.npy -o out.npy --kernel 2,2 --beta 2": "--beta is for --kind smooth-max; leave it out with --kind max",
    "in.npy -o out.npy --kernel 2,2 --kind sum --divisor 2": "--divisor is for --kind avg",
    "in.npy -o out.npy --kernel 2,2 --depth 3": "No such option: --depth",
}


@pytest.mark.parametrize("arguments", ERRORS)
def test_bad_arguments_are_one_line(ndpool_says, arguments):
    np.save("in.npy", X)
    np.savez("two.npz", a=X, b=X)
    np.save("whole.npy", X.astype(np.uint8))
    np.save("words.npy", np.array(["one", "two"]))
    starts = {"broken.npy": b"\x93NUMPY", "broken.npz": b"PK\3\4", "broken.png": b"\x89PNG\r\n\x1a\n", "in.txt": b""}
    for name, start in starts.items():
        with open(name, "wb") as file:
            file.write(start + b"and then not what it says")
    assert ERRORS[arguments] in ndpool_says(f"pool {arguments}", code=2)


def test_unknown_command(ndpool_says):
    line = ndpool_says("pol", code=2)
    assert "No such command 'pol'" in line
    assert line.endswith("; see ndpool --help")


# --- explain --------------------------------------------------------------------------------------


def test_explain_draws_the_windows(ndpool_says):
    said = ndpool_says("explain --shape 8 --kernel 4 --stride 3 --padding 1 --ceil-mode --kind avg")
    assert "(8,) becomes (3,)" in said
    rows = [line.split()[2:] for line in said.splitlines() if line.strip().startswith("output ")]
    assert ["".join(row) for row in rows] == ["□■■■······", "···■■■■···", "······■■■□"]
    assert "divisor: 4 in every window" in said
    assert "no cell is dropped" in said


def test_explain_counts_and_drops(ndpool_says):
    said = ndpool_says("explain --shape 5,5 --kernel 3,3 --stride 2 --padding 1 --ceil-mode")
    assert "(5, 5) becomes (3, 3)" in said
    assert [line.split() for line in said.splitlines() if re.fullmatch(r"\s*\d+\s+\d+\s+\d+\s*", line)] == [
        ["4", "6", "4"],
        ["6", "9", "6"],
        ["4", "6", "4"],
    ]
    said = ndpool_says("explain --shape 7 --kernel 3 --stride 4")
    assert "dropped: along axis 0, cell 3 is in no window" in said
    said = ndpool_says("explain --shape 4 --kernel 3 --stride 2 --ceil-mode --kind avg")
    assert "\N{MULTIPLICATION SIGN}" in said
    assert "beyond the padding: never counts" in said
    assert re.search(r"divisor, for each output:\s+3\s+2\s*\n", said)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--shape 2,3,224,224 --kernel 7,7 --stride 2 --padding 3", "sees 217 to 223"),
        ("--shape 8,9,10 --kernel 2 --kind avg", "divisor: 8 in every window"),
        ("--shape 8,9,10 --kernel 3 --stride 1 --padding 1 --kind smooth-max --beta 1", "terms in the sum: 27 in"),
        ("--shape 7 --adaptive 3", "7 cells shared out to 3 outputs"),
        ("--shape 7,3 --global --kind lp --p 2", "cells in the norm: 21 in every window"),
        ("--shape 99 --kernel 3 --stride 2 --dilation 2 --padding 2", "sees 0 to 2 in steps of 2 and 1 padded"),
        ("--shape 20 --kernel 1 --stride 1 --kind sum", "..."),
        ("--shape 5,9,9 --kernel 3,3,3 --stride 1 --padding 1", "cells that can win: from 8 to 27"),
        ("--shape 8 --kernel 2 --kind median", "cells that are sorted: 2 in every window"),
        ("--shape 8 --kernel 2 --skip nan --min-count 2", "an output with fewer than 2 others is nan"),
        ("--shape 8 --kernel 2 --kind avg --rounding half_up", "Pool(Avg(rounding='half_up'), Window(2), axes=(0,))"),
    ],
)
def test_explain_any_rank_and_window(ndpool_says, arguments, words):
    assert words in ndpool_says(f"explain {arguments}")


def test_explain_agrees_with_the_specification(ndpool_says):
    """Every mark, also of places that only ceil_mode reaches; of many outputs, the first six and the last six."""
    rng = np.random.default_rng(4)
    cross, compared, uncounted = "\N{MULTIPLICATION SIGN}", 0, 0
    for _ in range(60):
        length, kernel, stride, padding, dilation = (int(n) for n in rng.integers([3, 1, 1, 0, 1], [16, 5, 4, 2, 3]))
        ceil = " --ceil-mode" * int(rng.integers(2))
        pool = Pool(ndpool.Sum(), Window((kernel,), stride, padding, dilation, bool(ceil)))
        try:
            windows = spec.windows(pool, (length,))
        except ValueError:
            continue
        said = ndpool_says(
            f"explain --kind sum --shape {length} --kernel {kernel} --stride {stride} --padding {padding} "
            f"--dilation {dilation}{ceil}"
        )
        outputs = list(range(len(windows)))
        outputs = outputs if len(outputs) <= 12 else outputs[:6] + outputs[-6:]
        expected = {}
        for i in outputs:
            places = [i * stride - padding + k * dilation for k in range(kernel)]
            expected[i] = {
                place: "■" if 0 <= place < length else "□" if place < length + padding else cross for place in places
            }
            counted = [None if mark == "□" else (place,) for place, mark in expected[i].items() if mark != cross]
            assert sorted(counted, key=str) == sorted(windows[(i,)], key=str)
            uncounted += cross in expected[i].values()
        drawn = {}
        for line in said.splitlines():
            if line.strip().startswith("output "):
                _, output, *marks = line.split()
                drawn[int(output)] = {k - padding: mark for k, mark in enumerate(marks) if mark != "·"}
        assert drawn == expected
        compared += 1
    assert compared > 30
    assert uncounted > 5


def test_explain_writes_a_page(ndpool_says, tmp_path):
    said = ndpool_says("explain --shape 5,5 --kernel 3,3 --html page.html")
    assert "page.html: open it in a browser" in said
    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    before = (tmp_path / "page.html").read_text(encoding="utf-8")
    line = ndpool_says("explain --shape 5,5 --kernel 3,3 --html page.html", code=2)
    assert "page.html exists; give another name, or --force" in line
    ndpool_says("explain --shape 6 --kernel 3 --html page.html --force")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") != before


@pytest.mark.parametrize(
    ("options", "config"),
    [
        ("--kind quantile --q 0.9 --method lower --skip nan --min-count 2", {"skip": "nan", "min_count": 2}),
        ("--kind avg --rounding half_even --skip 3", {"skip": "3", "min_count": 1}),
        ("--kind mode --skip -0.5", {"skip": "-0.5", "min_count": 1}),
        ("--kind sum --skip 1e30 --min-count 0", {"skip": str(int(1e30)), "min_count": 0}),
        (f"--skip {10**30}", {"skip": str(int(1e30)), "min_count": 1}),
        ("--kind median", {"skip": "", "min_count": 1}),
    ],
)
def test_the_page_begins_with_what_was_asked_for(capsys, options, config):
    assert main(f"explain --shape 6,7 --kernel 2,2 {options} --html -".split()) == 0
    text = re.search(r'<script id="config" type="application/json">(.*?)</script>', capsys.readouterr().out)[1]
    found = json.loads(text)
    assert {name: found[name] for name in config} == config
    cells = [cell for row in found["x"] for cell in row]
    assert 3 < cells.count(config["skip"]) < 20 or not config["skip"]
    name = options.partition("--kind ")[2].partition(" ")[0]
    assert found["kind"]["name"].lower() == (name or "max")
    if name == "quantile":
        assert (found["kind"]["q"], found["kind"]["method"]) == (0.9, "lower")
    if name == "avg":
        assert found["kind"]["rounding"] == "half_even"


def test_a_page_to_standard_output_is_all_there(capsys):
    assert main(["explain", "--shape", "5,5", "--kernel", "3,3", "--html", "-"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("<!DOCTYPE html>")
    assert printed.out.rstrip().endswith("</html>")
    assert "(5, 5) becomes (1, 1)" in printed.err
    assert not Path("-").exists()


def test_a_page_that_cannot_be_written_leaves_the_old_one(ndpool_says, tmp_path, monkeypatch):
    (tmp_path / "page.html").write_text("what was there")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("the disk is full")))
    line = ndpool_says("explain --shape 5,5 --kernel 3,3 --html page.html --force", code=2)
    assert "page.html: could not be written (the disk is full)" in line
    assert (tmp_path / "page.html").read_text() == "what was there"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--kernel 3", "Missing option '--shape'"),
        ("--shape 5,a --kernel 3", "--shape 5,a: 'a' is not a whole number"),
        ("--shape 5,5 --kernel 3,3,3", "3 axes are pooled and the input of shape (5, 5) has 2"),
        ("--shape 5 --kernel 2 --padding 2", "sees no real cell"),
        ("--shape 0 --kernel 2", "has length 0"),
        ("--shape 4,100001 --kernel 2", "--shape 4,100001: axes of up to 100000 cells are explained; give a smaller"),
        ("--shape 4,4,4 --kernel 2 --html page.html", "the page shows one axis or two, of at most 24 cells each"),
        ("--shape 4,4 --kernel 2,2 --axes 0 --html page.html", "axes=(0,) names 1 axes"),
        ("--shape 4,4 --kernel 2 --axes 0 --html page.html", "1 of the 2 axes of x are pooled; the page pools all"),
        ("--shape 4,4 --kernel 2 --html nowhere/page.html", "nowhere: there is no such folder"),
        ("--shape 4 --kernel 2 --skip nothing", "--skip nothing: this is no number"),
        ("--shape 4 --kernel 2 --skip nan --min-count 3", "min_count=3, and a window has 2 cells at most"),
        ("--shape 4 --kernel 2 --skip nan --min-count 0", "of no cell has no value; give min_count >= 1"),
        (
            "--shape 4 --kernel 2 --kind avg --rounding floor --skip nan --html a.html",
            "rounding='floor' is for integers",
        ),
        ("--shape 4 --kernel 2 --kind quantile", "--kind quantile needs --q"),
    ],
)
def test_explain_refuses(ndpool_says, arguments, words):
    assert words in ndpool_says(f"explain {arguments}", code=2)


# --- check ----------------------------------------------------------------------------------------


def test_check_agrees(ndpool_says):
    said = ndpool_says("check -n 60 --seed 2")
    assert "60 configurations of seed 2" in said
    assert "Everything agrees." in said
    assert said == ndpool_says("check -n 60 --seed 2")
    for framework in frameworks.installed():
        assert framework.name in said


def test_check_draws_the_configurations_of_its_seed(ndpool_says, monkeypatch):
    monkeypatch.setattr(checking, "difference", lambda got, want: 1.0)
    for seed in (0, 1, 7):
        said = " ".join(ndpool_says(f"check -n 2 --seed {seed} --no-frameworks", code=1).split())
        for case in checking.cases(2, seed):
            assert f"engine: gx is off by 1 in {case}" in said
    assert "and 2 more" in ndpool_says("check -n 3 --no-frameworks", code=1)
    drawn = [{str(case): case.x.tobytes() for case in checking.cases(20, seed)} for seed in (0, 1, 0)]
    assert drawn[0] == drawn[2]
    assert not set(drawn[0].values()) & set(drawn[1].values())


def test_check_draws_every_kind_option_and_cell():
    drawn = list(checking.cases(400, 0))
    kinds = {type(case.pool.kind) for case in drawn}
    assert kinds == set(TABLED)
    assert {case.pool.kind.ties for case in drawn if isinstance(case.pool.kind, ndpool.Mode)} == set(MODE_TIES)
    assert {case.pool.kind.method for case in drawn if isinstance(case.pool.kind, ndpool.Quantile)} == set(METHODS)
    rounded = [case for case in drawn if getattr(case.pool.kind, "rounding", None)]
    assert {case.pool.kind.rounding for case in rounded} == set(ROUNDINGS)
    assert {case.x.dtype.kind for case in rounded} == {"i", "u"}
    assert {case.x.dtype.name for case in drawn} == {*checking.FLOATS, *checking.WHOLE}
    skipping = [case for case in drawn if case.pool.skip is not None]
    assert {type(case.pool.kind) for case in skipping} == kinds
    assert {case.pool.min_count for case in skipping} == {0, 1, 2, 3, 4}
    with_nan = [case for case in skipping if np.isnan(case.pool.skip)]
    assert 20 < len(with_nan) < len(skipping) - 20
    assert sum(bool(np.isnan(case.x).any()) for case in with_nan) > len(with_nan) / 2
    ends = [case for case in drawn if case.x.dtype == np.int64 and abs(int(case.x.flat[0])) > 2**62]
    assert len(ends) > 3


def test_frameworks_are_not_asked_for_what_they_do_not_have():
    x = np.random.default_rng(9).standard_normal((2, 3, 8, 8)).astype(np.float32)
    for framework in frameworks.installed():
        for window in (Window((2, 2)), ndpool.Adaptive((3, 3))):
            for kind in (ndpool.Mode(), ndpool.Quantile(0.5), ndpool.Median(), Avg(rounding="floor")):
                assert framework.pooling(Pool(kind, window), x) is None
            for kind in (Max(), Avg(), ndpool.Sum(), ndpool.Min()):
                assert framework.pooling(Pool(kind, window, skip=0), x) is None
        assert framework.pooling(Pool(Max(), Window((2, 2))), x) is not None


def test_check_sees_a_disagreement(ndpool_says, monkeypatch):
    right = Pool.__call__
    monkeypatch.setattr(Pool, "__call__", lambda self, x, out=None: right(self, x, out) + 1e-3)
    said = ndpool_says("check -n 10 --no-frameworks", code=1)
    assert re.search(r"engine: y is off by 0.00\d+ in #\d: Pool\(", said)
    assert "Everything agrees" not in said


def test_check_sees_a_framework_disagree(ndpool_says, monkeypatch):
    class Wrong:
        name, package = "Wrong", "wrong"

        def pooling(self, pool, x):
            return pool

        def forward(self, function, x):
            return lambda: function(x)[..., :1]

        def pull(self, function, x, g):
            return np.full_like(x, np.nan)

    monkeypatch.setattr(frameworks, "installed", lambda: [Wrong()])
    said = ndpool_says("check -n 10", code=1)
    assert "Wrong: y is off by inf in #" in said
    assert "Wrong: gx is off by inf in #" in said


def test_difference():
    assert checking.difference(np.array([1.0, np.nan]), np.array([1.0, np.nan])) == 0
    assert checking.difference(np.array([1.0, 3.0]), np.array([1.0, np.nan])) == np.inf
    assert checking.difference(np.array([1.0, -np.inf]), np.array([1.0, np.inf])) == np.inf
    assert checking.difference(np.array([np.nan]), np.array([1.0])) == np.inf
    assert checking.difference(np.array([101.0]), np.array([100.0])) == 0.01
    last = np.array([2**64 - 1], np.uint64)
    assert checking.difference(last, last) == 0
    assert checking.difference(last, last - 1) == 1  # as floats they are the same
    assert checking.difference(np.array([-(2**63)]), np.array([2**63 - 1])) == 2.0**64


NOT_OFFERED = {
    "PyTorch": set(),
    "ONNX Runtime": {ndpool.Min, ndpool.Sum},
    "JAX": {Avg},
    "TensorFlow": {ndpool.Min, ndpool.Sum, Avg},
}


def test_a_tally_counts_by_result_and_is_strict_by_dtype():
    found = {case.x.dtype.name: case for case in checking.cases(20, 0)}
    want, tally = np.array([0.5, -0.25]), checking.Tally("someone")
    tally.compare(found["float64"], "dy", want + 1e-9, want)
    assert [fault.partition(" in #")[0] for fault in tally.faults] == ["someone: dy is off by 1e-09"]
    assert tally.agreed == {"y": 0, "dy": 0, "gx": 0}
    tally.compare(found["float32"], "gx", want + 1e-6, want)
    tally.compare(found["float32"], "gx", want, want)
    tally.compare(found["float32"], "y", want + 1e-4, want)
    assert tally.agreed == {"y": 0, "dy": 0, "gx": 2}
    assert tally.largest == pytest.approx(1e-6)
    assert len(tally.faults) == 2


def test_check_sees_a_value_beside_the_derivative_differ(ndpool_says, monkeypatch):
    right = Pool.jvp
    monkeypatch.setattr(Pool, "jvp", lambda self, x, t: (right(self, x, t)[0] + 1e-14, right(self, x, t)[1]))
    assert "engine: y beside dy differs from y alone in #" in ndpool_says("check -n 4 --no-frameworks", code=1)


def test_padding_that_a_framework_needs():
    def axes(window, length, kind=None):
        return frameworks.axes_of(Pool(kind or Avg(), window), np.empty((1, 1, length)))

    overhanging = axes(Window((3,), 3, ((0, 1),), ceil_mode=True), 7)
    assert [frameworks.needed_padding(axis) for axis in overhanging] == [(0, 2)]
    assert frameworks.seen_cells(overhanging) == (slice(7),)
    assert not frameworks.counts_kernel(Avg(), overhanging)
    short = axes(Window((2,)), 5)
    assert [frameworks.needed_padding(axis) for axis in short] == [(0, -1)]
    assert frameworks.seen_cells(short) == (slice(4),)
    assert frameworks.counts_kernel(Avg(False), short)
    assert not frameworks.counts_kernel(Avg(divisor_override=2), short)
    padded = axes(Window((3,), 1, 1), 5)
    assert [frameworks.needed_padding(axis) for axis in padded] == [(1, 1)]
    assert frameworks.counts_kernel(Avg(), padded)
    assert not frameworks.counts_kernel(Avg(False), padded)
    before = axes(Window((3,), 1, ((1, 0),)), 5)
    assert not frameworks.counts_kernel(Avg(False), before)


@pytest.mark.parametrize("kind", [Max(), ndpool.Min(), Avg(), Avg(False), ndpool.Sum()], ids=str)
def test_frameworks_with_windows_that_overhang(kind):
    x = np.random.default_rng(8).standard_normal((2, 3, 8, 7)).astype(np.float32)
    pool = Pool(kind, Window((3, 3), 2, 1, ceil_mode=True))
    for framework in frameworks.installed():
        function = framework.pooling(pool, x)
        if function is None:
            assert type(kind) in NOT_OFFERED[framework.name], framework.name
        else:
            np.testing.assert_allclose(framework.forward(function, x)(), pool(x), rtol=1e-5, err_msg=framework.name)


def test_silence_ends(capfd):
    with frameworks.silence():
        os.write(2, b"not heard")
    os.write(2, b"heard")
    assert capfd.readouterr().err == "heard"


@pytest.mark.parametrize("arguments", ["-n 0", "-n x", "--seed -1"])
def test_check_refuses(ndpool_says, arguments):
    assert "Invalid value for '--" in ndpool_says(f"check {arguments}", code=2)


# --- demo -----------------------------------------------------------------------------------------


def test_demo(ndpool_says, tmp_path):
    start = time.perf_counter()
    said = ndpool_says("demo")
    assert time.perf_counter() - start < 60
    assert said.count("proved") == len(demo_module.KINDS)
    assert "WRONG" not in said
    assert "NumPy" in said
    for framework in frameworks.installed():
        assert frameworks.title(framework) in said
    with Image.open(tmp_path / "ndpool-demo.png") as picture:
        assert picture.size[0] > 1000


@pytest.fixture
def short_demo(monkeypatch):
    """One kind, no times, and the name of the format for a picture."""
    monkeypatch.setattr(demo_module, "KINDS", (Max(),))
    monkeypatch.setattr(demo_module, "_times", lambda photo: "")
    monkeypatch.setattr(demo_module, "draw", lambda photo, window, kinds, file, format_: file.write(format_.encode()))


def test_demo_writes_nothing_over(ndpool_says, tmp_path, short_demo):
    (tmp_path / "ndpool-demo.png").write_text("what was there")
    for arguments in ("", " -o ndpool-demo.png"):
        line = ndpool_says(f"demo{arguments}", code=2)
        assert "ndpool-demo.png exists; give another name, or --force to write over it" in line
    assert (tmp_path / "ndpool-demo.png").read_text() == "what was there"
    ndpool_says("demo --force")
    assert (tmp_path / "ndpool-demo.png").read_text() == "png"


@pytest.mark.parametrize(("name", "format_"), [("a.svg", "svg"), ("a.PDF", "pdf"), ("[bold]a.png", "png")])
def test_demo_draws_what_the_ending_says(ndpool_says, tmp_path, short_demo, name, format_):
    assert f" {name}\n" in ndpool_says(f"demo -o {name}")
    assert (tmp_path / name).read_text() == format_


def test_a_drawing_of_another_format():
    drawn = io.BytesIO()
    demo.draw(IMAGE, Window((2, 2)), (Max(),), drawn, "svg")
    assert drawn.getvalue().startswith(b"<?xml")


def test_demo_says_when_a_result_is_wrong(monkeypatch, capsys, short_demo):
    monkeypatch.setattr(demo_module, "ENOUGH_ULPS", -1.0)
    assert main(["demo", "-o", "here.png"]) == 2
    assert "further from the exact one than rounding allows" in capsys.readouterr().err


@pytest.mark.parametrize("errors", [(0.0, 1e9), (1e9, 0.0)])
def test_demo_proves_values_and_gradients(monkeypatch, capsys, short_demo, errors):
    monkeypatch.setattr(demo_module, "_errors", lambda *_: errors)
    assert main(["demo"]) == 2
    assert "WRONG" in capsys.readouterr().out


def test_demo_refuses_a_folder_that_is_not_there(ndpool_says):
    assert "nowhere: there is no such folder" in ndpool_says("demo -o nowhere/x.png", code=2)
    line = ndpool_says("demo -o x.jpg", code=2)
    assert "x.jpg: the picture is PNG, SVG or PDF; give a name that ends in .png, .svg, .pdf" in line


def test_the_photograph_is_small():
    from importlib import resources

    assert len(resources.files("ndpool").joinpath("data/lake.jpg").read_bytes()) < 60_000
    assert demo_module.photograph().shape == (240, 320, 3)
