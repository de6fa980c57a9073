"""Exported C, many at a time: compiled as one library for ctypes, or as one program that runs every self test."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from ndpool.c import Code

#: What every compiler has to take without a word.
WARNINGS = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
COMPILERS = [each for each in ("gcc", "clang") if shutil.which(each)]


def run(*command: object, **more: object) -> subprocess.CompletedProcess[str]:
    """A command that has to succeed; what it said is in the error where it does not."""
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True, check=False, **more)  # type: ignore[call-overload]
    if done.returncode:
        said = f"{done.stdout}{done.stderr}"[-4000:]
        raise AssertionError(f"{' '.join(map(str, command[:3]))} ... ended with {done.returncode}:\n{said}")
    return done


def written(codes: Sequence[Code], folder: Path) -> Path:
    """All files in one folder."""
    for code in codes:
        code.write(folder, force=True)
    return folder


def _units(codes: Sequence[Code], folder: Path, count: int, tests: bool) -> list[Path]:
    """A few sources that include all: one compiler run does many of them."""
    units = []
    for u in range(count):
        lines = []
        for code in codes[u::count]:
            if tests:
                test = f"{code.name.upper()}_SELF_TEST"
                lines += [f"#define {test}", f"#define {test}_NO_MAIN", f'#include "{code.name}_test.c"']
            lines.append(f'#include "{code.name}.c"')
        unit = folder / f"all_{'tests' if tests else 'code'}_{u}.c"
        unit.write_text("\n".join(lines) + "\n")
        units.append(unit)
    return units


def _compiled(compiler: str, units: Sequence[Path], options: Sequence[str]) -> list[Path]:
    def one(unit: Path) -> Path:
        made = unit.with_suffix(f".{Path(compiler).name}.o")
        run(compiler, *WARNINGS, *options, "-c", unit, "-o", made)
        return made

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(one, units))


def program(compiler: str, codes: Sequence[Code], folder: Path, options: Sequence[str]) -> Path:
    """A program that runs all self tests, and ends with 0 or prints the names of those that fail."""
    units = _units(codes, folder, min(2, len(codes)), tests=True)
    main = folder / "all_main.c"
    declared = [f"int {code.name}_self_test(void);" for code in codes]
    calls = [f'    if ({code.name}_self_test()) {{ puts("{code.name}"); failed = 1; }}' for code in codes]
    main.write_text(
        "\n".join(
            [
                "#include <stdio.h>",
                *declared,
                "int main(void) {",
                "    int failed = 0;",
                *calls,
                "    return failed;",
                "}",
                "",
            ]
        )
    )
    made = folder / f"all.{compiler}"
    objects = _compiled(compiler, [*units, main], options)
    run(compiler, *options, *objects, "-lm", "-o", made)
    return made


class Library:
    """Exported C in this process."""

    def __init__(self, compiler: str, codes: Sequence[Code], folder: Path, options: Sequence[str] = ("-O1",)) -> None:
        units = _units(codes, written(codes, folder), min(2, len(codes)), tests=False)
        made = folder / f"all.{compiler}.so"
        run(compiler, "-shared", *_compiled(compiler, units, [*options, "-fPIC"]), "-lm", "-o", made)
        self._library = ctypes.CDLL(str(made))

    def call(self, name: str, *arrays: np.ndarray) -> None:
        """A function of the library, given arrays."""
        getattr(self._library, name)(*(a.ctypes.data_as(ctypes.c_void_p) for a in arrays))
