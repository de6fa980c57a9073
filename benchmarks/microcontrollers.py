"""Exported C on emulated chips: instructions, flash, stack and cycles, beside other C for the same pools.

    python -m benchmarks.microcontrollers [--cases REGEX] [--output FOLDER]

The peers are the plain loop, which asks of every cell whether it is there, as the reference kernels of CMSIS-NN and of
TensorFlow Lite do, here with all sizes known to the compiler; and emx-onnx-cgen, which makes C of ONNX models, where it
has the pool. All are compared with the specification on this machine before they are measured. RV32 counts
instructions by `minstret` in QEMU, and an AVR cycles in simavr. Flash is what a linked program grows by, library
functions included.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from ndpool import Avg, Global, Max, Pool, Window, spec
from ndpool.c import avr, export
from ndpool.c.chips import CHIPS, Chip, compiled, linked, run, told
from ndpool.c.selftest import drawn

from .report import RESULTS

RV32: Chip = next(chip for chip in CHIPS if chip.counts)
LEVELS = ("-Os", "-O2")
C_TYPES = {"int8": "int8_t", "float32": "float"}
ONNX_TYPES = {"int8": "INT8", "float32": "FLOAT"}
#: What fits into the 2 KB of an AVR.
ON_AVR = {"int8": (2, 16, 16), "float32": (1, 12, 12)}
SHAPE = (8, 16, 16)


@dataclass(frozen=True)
class Case:
    """A pool over channels, rows and columns."""

    kind: str
    dtype: str
    window: str

    @property
    def name(self) -> str:
        return f"{self.kind} {self.window}, {self.dtype}"

    @property
    def pool(self) -> Pool:
        kinds = {"max": Max(), "avg": Avg(False, rounding="half_away" if self.dtype == "int8" else None)}
        windows = {"2x2 s2": Window((2, 2)), "3x3 s2 p1": Window((3, 3), 2, 1), "global": Global()}
        return Pool(kinds[self.kind], windows[self.window], (1, 2))


CASES = [Case(*each) for each in product(("max", "avg"), ("int8", "float32"), ("2x2 s2", "3x3 s2 p1", "global"))]


# --- who is measured ------------------------------------------------------------------------------


def ndpool_source(case: Case, shape: tuple[int, ...], folder: Path, small: bool = False) -> str:
    """Exported C, as a function `subject`."""
    code = export(case.pool, shape, case.dtype, name="pool", small=small)
    code.write(folder, force=True)
    c_type = C_TYPES[case.dtype]
    return f'#include "pool.c"\nvoid subject(const {c_type} *x, {c_type} *y)\n{{\n    pool(x, y);\n}}\n'


def small_source(case: Case, shape: tuple[int, ...], folder: Path) -> str | None:
    """The same for little flash, which makes a difference where windows do."""
    return ndpool_source(case, shape, folder, small=True) if "p1" in case.window else None


def plain_source(case: Case, shape: tuple[int, ...], folder: Path) -> str:
    """The loop that one writes by hand."""
    channels, height, width = shape
    c_type = C_TYPES[case.dtype]
    kernel, stride, pad = {"2x2 s2": (2, 2, 0), "3x3 s2 p1": (3, 2, 1), "global": (height, height, 0)}[case.window]
    _, rows, columns = case.pool.output_shape(shape)
    sum_type = "int32_t" if case.dtype == "int8" else "float"
    least = "-128" if case.dtype == "int8" else "-3.402823466e+38f"
    if case.kind == "max":
        start, step, end = f"{c_type} best = {least};", "if (value > best) { best = value; }", "best"
    else:
        start, step = f"{sum_type} sum = 0; int32_t n = 0;", "sum += value; ++n;"
        end = (
            "sum / (float)n" if case.dtype == "float32" else "(int8_t)(sum > 0 ? (sum + n / 2) / n : (sum - n / 2) / n)"
        )
    return f"""#include <stdint.h>
void subject(const {c_type} *x, {c_type} *y)
{{
    for (int32_t c = 0; c < {channels}; ++c) {{
        for (int32_t i = 0; i < {rows}; ++i) {{
            for (int32_t j = 0; j < {columns}; ++j) {{
                {start}
                for (int32_t r = 0; r < {kernel}; ++r) {{
                    for (int32_t q = 0; q < {kernel}; ++q) {{
                        const int32_t row = i * {stride} - {pad} + r;
                        const int32_t column = j * {stride} - {pad} + q;
                        if (row >= 0 && row < {height} && column >= 0 && column < {width}) {{
                            const {c_type} value = x[(c * {height} + row) * {width} + column];
                            {step}
                        }}
                    }}
                }}
                y[(c * {rows} + i) * {columns} + j] = {end};
            }}
        }}
    }}
}}
"""


def emx_source(case: Case, shape: tuple[int, ...], folder: Path) -> str | None:
    """C that emx-onnx-cgen makes of an ONNX model; None where ONNX has no such pool."""
    if case.dtype == "int8" and (case.kind == "avg" or case.window == "global"):
        return None
    onnx: Any = importlib.import_module("onnx")
    out = case.pool.output_shape(shape)
    op = {"max": "MaxPool", "avg": "AveragePool"}[case.kind]
    numbers: dict[str, Any] = {
        "2x2 s2": {"kernel_shape": [2, 2], "strides": [2, 2]},
        "3x3 s2 p1": {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
        "global": {},
    }[case.window]
    node = onnx.helper.make_node(f"Global{op}" if case.window == "global" else op, ["x"], ["y"], **numbers)
    kind = getattr(onnx.TensorProto, ONNX_TYPES[case.dtype])
    values = [onnx.helper.make_tensor_value_info(n, kind, (1, *s)) for n, s in (("x", shape), ("y", out))]
    graph = onnx.helper.make_graph([node], "pool", values[:1], values[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(model, str(folder / "model.onnx"))
    told(
        str(Path(sys.executable).with_name("emx-onnx-cgen")),
        "compile",
        str(folder / "model.onnx"),
        str(folder / "model.c"),
    )
    c_type = C_TYPES[case.dtype]
    cast = lambda const, s: f"({const}{c_type} (*)[{s[0]}][{s[1]}][{s[2]}])"  # noqa: E731
    call = f"model({cast('const ', shape)}x, {cast('', out)}y);"
    return f'#include "model.c"\nvoid subject(const {c_type} *x, {c_type} *y)\n{{\n    {call}\n}}\n'


SUBJECTS = {
    "ndpool": ndpool_source,
    "ndpool, small": small_source,
    "plain loop": plain_source,
    "emx-onnx-cgen": emx_source,
}


# --- measuring ------------------------------------------------------------------------------------


def check(case: Case, source: Path, folder: Path) -> None:
    """That it computes what the specification says, on this machine."""
    told("cc", "-std=c99", "-O1", "-shared", "-fPIC", str(source), "-lm", "-o", str(folder / "subject.so"))
    x = drawn(int(np.prod(SHAPE)), case.dtype, seed=3).reshape(SHAPE)
    y = np.empty(case.pool.output_shape(SHAPE), case.dtype)
    library = ctypes.CDLL(str(folder / "subject.so"))
    library.subject(x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p))
    np.testing.assert_allclose(y, spec.forward(case.pool, x), rtol=0 if case.dtype == "int8" else 1e-5)


def _main(case: Case, shape: tuple[int, ...]) -> str:
    """A program that draws x, runs the subject once, and prints how many instructions that took."""
    cells, outputs = int(np.prod(shape)), int(np.prod(case.pool.output_shape(shape)))
    c_type = C_TYPES[case.dtype]
    return f"""#include <stdio.h>
#include <stdint.h>
void subject(const {c_type} *x, {c_type} *y);
static {c_type} x[{cells}], y[{outputs}];
static uint32_t counted(void)
{{
    uint32_t count;
    __asm__ volatile (".insn i 0x73, 2, %0, x0, -0x4fe" : "=r"(count));
    return count;
}}
int main(void)
{{
    uint32_t state = 1;
    for (int32_t i = 0; i < {cells}; ++i) {{
        state = state * UINT32_C(1664525) + UINT32_C(1013904223);
        x[i] = ({c_type})((int32_t)(state >> 24) - 128);
    }}
    const uint32_t before = counted();
    subject(x, y);
    const uint32_t after = counted();
    printf("%lu\\n", (unsigned long)(after - before));
    return 0;
}}
"""


def on_rv32(case: Case, source: Path, folder: Path, level: str) -> dict[str, int]:
    """Instructions of one run, what the program grows by, and the deepest frame."""
    options = [level, "-ffunction-sections", "-fdata-sections"]
    (folder / "main.c").write_text(_main(case, SHAPE))
    (folder / "nothing.c").write_text("void subject(const void *x, void *y)\n{\n    (void)x;\n    (void)y;\n}\n")
    main, subject, nothing = compiled(RV32, [folder / "main.c", source, folder / "nothing.c"], folder, options)
    libraries = ["-lm", "-Wl,--gc-sections"]
    program = linked(RV32, [main, subject], folder / "subject.elf", libraries)
    empty = linked(RV32, [main, nothing], folder / "nothing.elf", libraries)
    done = run(RV32, program)
    stack = max(int(line.split("\t")[1]) for line in subject.with_suffix(".su").read_text().splitlines())
    return {
        "instructions": int(done.stdout + done.stderr),
        "flash": _flash(program) - _flash(empty),
        "stack": stack,
    }


def _flash(program: Path) -> int:
    text, data = told(RV32.size, str(program)).splitlines()[1].split()[:2]
    return int(text) + int(data)


def on_avr(case: Case, source: Path, folder: Path) -> int:
    """Cycles of one run over a smaller input, at -Os."""
    shape = ON_AVR[case.dtype]
    cells, outputs = int(np.prod(shape)), int(np.prod(case.pool.output_shape(shape)))
    c_type = C_TYPES[case.dtype]
    declared = f"void subject(const {c_type} *x, {c_type} *y);\nstatic {c_type} x[{cells}], y[{outputs}];"
    fill = f"for (int16_t i = 0; i < {cells}; ++i) {{ x[i] = ({c_type})(int8_t)(i * 37 + i / 7); }}"
    text = avr.main_of("subject(x, y);", declared).replace("    GPIOR0 = 1;", f"    {fill}\n    GPIOR0 = 1;")
    (folder / "avr_main.c").write_text(text)
    status, cycles = avr.run([folder / "avr_main.c", source], folder, ["-Os"])
    if status != 0:
        raise SystemExit(f"{case.name}: the AVR ended with {status}")
    return cycles


def measure(case: Case) -> list[dict[str, Any]]:
    records = []
    for name, source_of in SUBJECTS.items():
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            text = source_of(case, SHAPE, folder)
            if text is None:
                continue
            source = folder / "subject.c"
            source.write_text(text)
            check(case, source, folder)
            record: dict[str, Any] = {"case": case.name, "who": name}
            record |= {level: on_rv32(case, source, folder, level) for level in LEVELS}
            smaller = source_of(case, ON_AVR[case.dtype], folder)
            assert smaller is not None
            source.write_text(smaller)
            record["avr cycles"] = on_avr(case, source, folder)
            records.append(record)
    return records


# --- the report -----------------------------------------------------------------------------------


def line(record: dict[str, Any], least: dict[str, int]) -> str:
    """A row, with the smallest of each column in bold."""
    cells = []
    for what, value in columns(record).items():
        cells.append(f"**{value}**" if value == least[what] else str(value))
    return f"| {record['case']} | {record['who']} | {' | '.join(cells)} |"


def columns(record: dict[str, Any]) -> dict[str, int]:
    found = {}
    for what in ("instructions", "flash", "stack"):
        found |= {f"{what} {level}": record[level][what] for level in LEVELS}
    return found | {"AVR cycles": record["avr cycles"]}


def report(records: list[dict[str, Any]]) -> str:
    heads = list(columns(records[0]))
    compilers = [told(tool, "--version").splitlines()[0] for tool in (RV32.compiler, avr.AVR.compiler, RV32.run[0])]
    lines = [
        "# Exported C on emulated chips\n",
        f"{'; '.join(compilers)}; emx-onnx-cgen {version('emx-onnx-cgen')}.\n",
        f"RV32 (rv32imac, no FPU) over {SHAPE}: instructions, bytes of flash that the program grows by, bytes of the "
        f"deepest frame. AVR (ATmega328P) at -Os over {ON_AVR['int8']} for int8 and {ON_AVR['float32']} for float32. "
        "Channels first. The smallest are bold.\n",
        f"| pool | by | {' | '.join(heads)} |",
        f"|---|---|{'---|' * len(heads)}",
    ]
    for case in dict.fromkeys(record["case"] for record in records):
        ours = [record for record in records if record["case"] == case]
        least = {what: min(columns(record)[what] for record in ours) for what in heads}
        lines += [line(record, least) for record in ours]
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.microcontrollers", description=__doc__)
    parser.add_argument("--cases", default="", metavar="REGEX", help="only the cases whose name has this")
    parser.add_argument("--output", default=RESULTS, type=Path, metavar="FOLDER", help="default: %(default)s")
    options = parser.parse_args()
    missing = [*RV32.missing, *avr.missing()]
    if missing:
        raise SystemExit(f"{', '.join(missing)} is missing: apt-get install {RV32.package} {avr.PACKAGES}")
    records: list[dict[str, Any]] = []
    for case in CASES:
        if re.search(options.cases, case.name):
            new = measure(case)
            records += new
            for record in new:
                print(record["case"], record["who"], columns(record), flush=True)
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "microcontrollers.json").write_text(json.dumps(records, indent=1) + "\n")
    (options.output / "microcontrollers.md").write_text(report(records))
    print(f"See microcontrollers.md and microcontrollers.json in {options.output}.")


if __name__ == "__main__":
    try:
        main()
    except subprocess.TimeoutExpired as late:
        raise SystemExit(f"an emulated chip did not end in time: {late}") from None
