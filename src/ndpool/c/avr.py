"""Programs on an emulated AVR, an ATmega328P with 2 KB of memory: their status and their cycles, by simavr."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .chips import CHIPS, PATIENCE, Chip, compiled, has_headers, linked, told

AVR: Chip = next(chip for chip in CHIPS if chip.name == "AVR")
RUNNER = Path(__file__).with_name("simavr_run.c")
PACKAGES = "gcc-avr avr-libc libsimavr-dev"

#: The memory that programs may fill with constants and variables.
RAM_BYTES = 2048


def missing() -> list[str]:
    """What would have to be installed to run programs."""
    tools = [tool for tool in ("cc", AVR.compiler) if shutil.which(tool) is None]
    return tools or ([] if has_headers(["cc"], ["simavr/sim_avr.h"]) else ["simavr/sim_avr.h"])


def main_of(call: str, includes: str, status: str = "0") -> str:
    """A program that counts the cycles of a call, and ends with a status."""
    return f"""#include <avr/io.h>
{includes}

int main(void)
{{
    GPIOR0 = 1;
    {call}
    GPIOR0 = 2;
    GPIOR1 = (uint8_t)({status});
    for (;;) {{
    }}
}}
"""


def run(sources: Sequence[Path], folder: Path, options: Sequence[str] = ("-Os",)) -> tuple[int, int]:
    """Compile and run: the status, and the cycles between the marks."""
    runner = folder / "simavr_run"
    if not runner.exists():
        told("cc", "-O2", str(RUNNER), "-lsimavr", "-o", str(runner))
    program = linked(AVR, compiled(AVR, sources, folder, options), folder / "program.elf")
    said = subprocess.run([str(runner), str(program)], capture_output=True, text=True, check=False, timeout=PATIENCE)
    status, cycles = said.stdout.split()[-2:]
    return int(status), int(cycles)
