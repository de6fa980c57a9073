"""Bad input is refused by name and with the remedy, before anything is written; the command and its folder."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from building import COMPILERS, run

from ndpool import Adaptive, Avg, Global, Kind, Lp, Max, Median, Pool, SmoothMax, Sum, Window
from ndpool.c import PROFILES, export
from ndpool.cli import main

TWO = Window((2, 2))
EDGES = Window((3, 3), 2, 1)


class Own(Kind):
    def value(self, x, pad=0):
        return x[0]

    def weights(self, x, pad=0):
        return [(0, 1)]


@pytest.mark.parametrize(
    ("pool", "shape", "dtype", "options", "error", "words"),
    [
        (Pool(Median(), TWO), (4, 4), "float32", {}, TypeError, r"Median\(\) is not written in C; the kinds"),
        (Pool(Own(), TWO), (4, 4), "float32", {}, TypeError, "Own.* is not written in C; the kinds that are"),
        (Pool(Lp(3), TWO), (4, 4), "float32", {}, TypeError, r"Lp\(p=3\) is not written in C"),
        (Pool(Lp(2), TWO), (4, 4), "int8", {}, TypeError, "of int8 is not written in C, since it is no integer"),
        (Pool(SmoothMax(1.0), TWO), (4, 4), "uint8", {}, TypeError, "SmoothMax.* of uint8 .*export it for float32"),
        (Pool(Max(), TWO), (4, 4), "float64", {}, TypeError, "'float64' is not written in C; give one of float32"),
        (Pool(Max(), TWO), (4, 4), "no", {}, TypeError, "dtype='no' is no dtype; give one of float32, int8"),
        (Pool(Avg(), TWO), (4, 4), "int8", {}, TypeError, "gives float64, which small chips do not have"),
        (Pool(Max(), TWO, skip=0), (4, 4), "int8", {}, ValueError, "skip=0 is not written in C; leave it out"),
        (Pool(Max(), TWO), (0, 4, 4), "int8", {}, ValueError, r"shape=\(0, 4, 4\) has no cells"),
        (Pool(Max(), TWO), (4,), "int8", {}, ValueError, "2 axes are pooled and the input of shape"),
        (Pool(Max(), TWO), None, "int8", {}, TypeError, "shape is missing; C is written for one shape"),
        (Pool(Max(), TWO), (1 << 16, 1 << 16), "int8", {}, ValueError, "too large.*which no microcontroller has"),
        (Pool(SmoothMax(1e-40), TWO), (4, 4), "float32", {}, ValueError, "beta=1e-40 is too far from 1 for float32"),
        (Pool(Max(), TWO), (4, 4), "int8", {"vjp": True}, TypeError, "vjp=True of int8: derivatives in C are float32"),
        (Pool(Max(), TWO), (4, 4), "int8", {"name": "2d"}, ValueError, "name='2d' is no C identifier; give letters"),
        (Pool(Max(), TWO), (4, 4), "int8", {"name": "größe"}, ValueError, "is no C identifier"),
        (Pool(Max(), TWO), (4, 4), "int8", {"name": "while"}, ValueError, "name='while' is a word of C or C.. itself"),
        (Pool(Avg(), TWO), (4, 4), "int8", {"profile": "tf"}, ValueError, "'tf' is not known; give one of tflite"),
        (
            Pool(Max(), TWO),
            (4, 4),
            "int8",
            {"profile": "tflite"},
            ValueError,
            "is a rule for Avg.. of integers, and the kind is Max",
        ),
        (
            Pool(Avg(), TWO),
            (4, 4),
            "float32",
            {"profile": "tflite"},
            TypeError,
            "profile='tflite' is for int8 and int16, and dtype='float32'",
        ),
        (
            Pool(Avg(), TWO),
            (4, 4),
            "uint8",
            {"profile": "nnom"},
            TypeError,
            "profile='nnom' is for int8, and dtype='uint8'",
        ),
        (
            Pool(Avg(rounding="floor"), TWO),
            (4, 4),
            "int8",
            {"profile": "tflite"},
            ValueError,
            "rounds 'half_away', and .* says 'floor'",
        ),
        (
            Pool(Avg(), EDGES),
            (5, 5),
            "int8",
            {"profile": "tflite"},
            ValueError,
            "real cells alone, and with .* padding would have to count; give count_include_pad=False",
        ),
        (
            Pool(Avg(False), EDGES),
            (5, 5),
            "int8",
            {"profile": "esp-dl"},
            ValueError,
            "divides by the whole kernel, and .* leaves padding out",
        ),
        (
            Pool(Avg(), Window((3,), 2, ceil_mode=True)),
            (6,),
            "int8",
            {"profile": "esp-dl"},
            ValueError,
            "also where a window reaches beyond the padding",
        ),
        (Pool(Avg(), Adaptive((3,))), (7,), "int8", {"profile": "esp-dl-p4"}, ValueError, "bins of one length"),
        (Pool(Avg(divisor_override=4), TWO), (4, 4), "int8", {"profile": "tflite"}, ValueError, "is a rule for Avg"),
    ],
)
def test_bad_input_is_refused(pool, shape, dtype, options, error, words):
    with pytest.raises(error, match=words):
        export(pool, shape, dtype, **options)


def test_profiles_are_the_averages_that_they_say():
    rules = {name: (each.rounding, each.padding_counts) for name, each in PROFILES.items()}
    assert rules == {
        "tflite": ("half_away", False),
        "cmsis-nn": ("half_away", False),
        "esp-nn": ("half_away", False),
        "tflite-uint8": ("half_up", False),
        "nnom": ("truncate", False),
        "onnxruntime": ("half_even", None),
        "esp-dl": ("half_up", True),
        "esp-dl-p4": ("half_even", True),
    }
    for name, profile in PROFILES.items():
        for dtype in profile.dtypes:
            counts = bool(profile.padding_counts)
            padded = Window((3, 3), 2, 1) if profile.padding_counts is not None else TWO
            by_name = export(Pool(Avg(counts), padded, axes=(0, 1)), (7, 7, 2), dtype, profile=name)
            plain = export(Pool(profile.kind(counts), padded, axes=(0, 1)), (7, 7, 2), dtype)
            assert by_name.source == plain.source.replace(
                "ceil_mode=False)\n", f"ceil_mode=False)\n * rounding as {name} has it\n", 1
            )
            assert f"rounding as {name} has it" in by_name.source


def test_a_profile_that_leaves_padding_open_takes_what_is_said():
    for counts in (True, False):
        by_name = export(Pool(Avg(counts), EDGES), (5, 5), "int8", profile="onnxruntime")
        assert by_name.test == export(Pool(Avg(counts, rounding="half_even"), EDGES), (5, 5), "int8").test


# --- the folder and the command -------------------------------------------------------------------


def test_a_folder_that_exists_is_refused_without_force(tmp_path):
    code = export(Pool(Max(), TWO), (4, 4), "int8")
    assert [path.name for path in code.write(tmp_path / "new" / "pool")] == ["pool.h", "pool.c", "pool_test.c"]
    with pytest.raises(FileExistsError, match=r"pool exists; name another folder, or give force=True \(--force\)"):
        code.write(tmp_path / "new" / "pool")
    code.write(tmp_path / "new" / "pool", force=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError, match="is a file; name a folder"):
        code.write(tmp_path / "file", force=True)


ARGUMENTS = "c --shape 1,28,28 --kind avg --kernel 2 --dtype int8 --profile tflite -o build/pool"


def test_the_command_writes_what_export_gives(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(ARGUMENTS.split()) == 0
    said = capsys.readouterr().out
    code = export(Pool(Avg(), Window(2), axes=(1, 2)), (1, 28, 28), "int8", profile="tflite")
    for name, text in code.files.items():
        assert (tmp_path / "build/pool" / name).read_text() == text
        assert f"build/pool/{name}\n" in said
    assert "784 cells in, 196 out" in said
    (command,) = re.findall(r"test it here: (.*)", said)
    if COMPILERS and shutil.which("cc"):
        subprocess.run(command, shell=True, check=True, cwd=tmp_path)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ("-o build/pool --kind max", "profile='tflite' is a rule for Avg"),
        ("--dtype float64", "dtype='float64' is not written in C"),
        ("--name 1st", "name='1st' is no C identifier"),
        ("--padding 1", "padding would have to count; give count_include_pad=False (--no-count-include-pad)"),
        ("--profile other", "profile='other' is not known"),
        ("--shape 1,x", "is not a whole number"),
    ],
)
def test_the_command_refuses_before_it_writes(tmp_path, monkeypatch, capsys, changed, words):
    monkeypatch.chdir(tmp_path)
    assert main([*ARGUMENTS.split(), *changed.split()]) == 2
    assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_command_refuses_a_folder_that_exists(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "build/pool").mkdir(parents=True)
    assert main(ARGUMENTS.split()) == 2
    assert "build/pool exists; name another folder" in capsys.readouterr().err
    assert list((tmp_path / "build/pool").iterdir()) == []
    assert main([*ARGUMENTS.split(), "--force"]) == 0


def test_which_axes_the_command_pools(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for given, header in {
        "--shape 9 --kernel 3 -o a": "float[3]",
        "--shape 2,9 --kernel 3 -o b": "float[2][3]",
        "--shape 6,6,2 --kernel 3 --axes 0,1 -o c": "float[2][2][2]",
        "--shape 4,6,6 --kernel 2,3,3 -o d": "float[2][2][2]",
        "--shape 4,6,6 --global -o e --vjp --kind smooth-max --beta 2": "float[4][1][1]",
    }.items():
        assert main(["c", *given.split()]) == 0, capsys.readouterr()
        folder = given.partition("-o ")[2].split()[0]
        assert f"y        {header}" in (tmp_path / folder / "pool.h").read_text()


# --- what is written ------------------------------------------------------------------------------


def test_sizes_by_formula():
    code = export(Pool(Max(), EDGES), (2, 7, 7), "float32", vjp=True)
    sizes = code.report(measure=False).sizes
    assert (sizes.inputs, sizes.outputs) == (98, 32)
    assert (sizes.input_bytes, sizes.output_bytes, sizes.kept_bytes) == (392, 128, 32)
    assert sizes.ram_bytes == 392 + 128 + 32
    assert sizes.operations == 32 * 9
    assert "RAM    552 bytes" in str(code.report(measure=False))
    for macro in ("POOL_IN 98 ", "POOL_OUT 32 ", "POOL_SCRATCH_BYTES 0 ", "POOL_WINNER_BYTES 32 "):
        assert f"#define {macro}" in code.header
    assert export(Pool(Sum(), TWO), (4, 4), "int8").sizes.output_bytes == 4 * 8


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler: install g++")
def test_the_header_is_for_c_plus_plus_too(tmp_path):
    export(Pool(Max(), Global(), (0, 1)), (4, 4), "float32", vjp=True).write(tmp_path, force=True)
    (tmp_path / "main.cpp").write_text(
        '#include "pool.h"\nint main() { float x[POOL_IN] = {3}, y[POOL_OUT]; pool(x, y); return y[0] == 3 ? 0 : 1; }\n'
    )
    run("gcc", "-std=c99", "-c", tmp_path / "pool.c", "-o", tmp_path / "pool.o")
    run("g++", "-Wall", "-Wextra", "-Werror", tmp_path / "main.cpp", tmp_path / "pool.o", "-o", tmp_path / "main")
    run(tmp_path / "main")


#: What cppcheck's MISRA rules find in exported C, and why it stays.
MISRA = {
    "2.5": "sizes are macros for the caller",
    "8.7": "functions are offered to the caller",
    "10.8": "a place in a window is cast to the bytes that winners have",
    "12.1": "products before sums, without brackets",
    "15.5": "an early return where a NaN is found",
    "17.8": "y moves on from output to output",
    "18.4": "the place of a window is a pointer plus a number",
    "19.2": "the bits of a float are read by a union",
}


@pytest.mark.skipif(shutil.which("cppcheck") is None, reason="cppcheck is missing: apt-get install cppcheck")
def test_cppcheck_finds_little(tmp_path):
    """No error, no warning, nothing about portability; of MISRA's rules those that are listed here and no others."""
    pools = [
        (Pool(Max(), EDGES), "int8"),
        (Pool(Avg(False, rounding="half_away"), EDGES), "int8"),
        (Pool(Avg(rounding="half_even"), Window((2, 2))), "uint8"),
        (Pool(Lp(2), EDGES), "float32"),
        (Pool(SmoothMax(1.5), EDGES), "float32"),
        (Pool(Max(), EDGES), "float32"),
    ]
    for i, (pool, dtype) in enumerate(pools):
        export(pool, (2, 7, 7), dtype, name=f"p{i}", vjp=dtype == "float32").write(tmp_path, force=True)
    sources = [tmp_path / f"p{i}.c" for i in range(len(pools))]
    told = subprocess.run(
        ["cppcheck", "--std=c99", "--enable=warning,style,performance,portability", "--addon=misra", "--quiet",
         "--suppress=unusedFunction", "--template={id} {file}:{line} {message}", *map(str, sources)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = [line for line in told.stderr.splitlines() if re.match(r"\w", line)]
    rules = {match[1] for line in found if (match := re.match(r"misra-c2012-([\d.]+)", line))}
    assert [line for line in found if not line.startswith("misra")] == []
    assert rules == set(MISRA), [line for line in found if line.split()[0].rpartition("-")[2] not in MISRA]
