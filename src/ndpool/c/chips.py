"""Small chips whose compilers and emulators may be installed: how C is compiled for each, run, and measured.

Whatever is missing is left out, and `missing` names it. The commands are those of Debian's packages.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .text import checked_name

if TYPE_CHECKING:
    from .code import Code

#: An emulated chip that says nothing for so many seconds has failed.
PATIENCE = 60


@dataclass(frozen=True)
class Chip:
    """A chip: its compiler and the options for it, and the emulator that runs a program, if there is one.

    `run` ends with the program's own exit code. `counts` says whether the program can read how many instructions it has
    run.
    """

    name: str
    compiler: str
    size: str
    options: tuple[str, ...]
    linking: tuple[str, ...] = ()
    run: tuple[str, ...] = ()
    package: str = ""
    counts: bool = False

    @property
    def missing(self) -> list[str]:
        """The tools that would have to be installed to compile and run for it."""
        return [tool for tool in (self.compiler, self.size, *self.run[:1]) if shutil.which(tool) is None]

    def compiles(self, headers: Sequence[str] = ()) -> bool:
        """Whether its compiler is here, with these headers beside <stdint.h>."""
        if shutil.which(self.compiler) is None or shutil.which(self.size) is None:
            return False
        return has_headers([self.compiler, *self.options], ["stdint.h", *headers])


def has_headers(compiler: Sequence[str], headers: Sequence[str]) -> bool:
    """Whether a compiler finds these headers."""
    text = "".join(f"#include <{header}>\n" for header in headers)
    command = [*compiler, "-E", "-x", "c", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False).returncode == 0


def _memory(flash: str, flash_size: str, ram: str, ram_size: str) -> tuple[str, ...]:
    names = {"__flash": flash, "__flash_size": flash_size, "__ram": ram, "__ram_size": ram_size}
    return tuple(f"-Wl,--defsym={name}={value}" for name, value in names.items())


_PICOLIBC = ("--specs=picolibc.specs",)
_SEMIHOSTED = ("--oslib=semihost", "--crt0=hosted")
_QUIET = ("-nographic", "-monitor", "none", "-serial", "none", "-semihosting-config", "enable=on,target=native")


def _cortex(name: str, cpu: str, fpu: str, machine: str) -> Chip:
    return Chip(
        name,
        "arm-none-eabi-gcc",
        "arm-none-eabi-size",
        (*_PICOLIBC, f"-mcpu={cpu}", "-mthumb", "-mfloat-abi=hard", f"-mfpu={fpu}"),
        (*_SEMIHOSTED, *_memory("0", "0x200000", "0x20000000", "0x200000")),
        ("qemu-system-arm", "-machine", machine, *_QUIET, "-kernel"),
        "gcc-arm-none-eabi picolibc-arm-none-eabi qemu-system-arm",
    )


CHIPS = (
    _cortex("Cortex-M4", "cortex-m4", "fpv4-sp-d16", "mps2-an386"),
    _cortex("Cortex-M7", "cortex-m7", "fpv5-d16", "mps2-an500"),
    Chip(
        "RV32",
        "riscv64-unknown-elf-gcc",
        "riscv64-unknown-elf-size",
        (*_PICOLIBC, "-march=rv32imac", "-mabi=ilp32"),
        (*_SEMIHOSTED, *_memory("0x80000000", "0x200000", "0x80200000", "0x200000")),
        ("qemu-system-riscv32", "-machine", "virt", "-bios", "none", "-icount", "shift=0", *_QUIET, "-kernel"),
        "gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf qemu-system-misc",
        counts=True,
    ),
    Chip("AVR", "avr-gcc", "avr-size", ("-mmcu=atmega328p",), package="gcc-avr avr-libc"),
    Chip(
        "Xtensa lx106",
        "xtensa-lx106-elf-gcc",
        "xtensa-lx106-elf-size",
        ("-mlongcalls", "-ffreestanding"),
        package="gcc-xtensa-lx106",
    ),
)


@dataclass(frozen=True)
class Measured:
    """What a compiler says of exported C: bytes of code and constants, of the deepest frame, and instructions."""

    chip: str
    flash: int
    stack: int
    instructions: int | None = None

    def __str__(self) -> str:
        run = "" if self.instructions is None else f", {self.instructions} instructions"
        return f"{self.chip}: {self.flash} bytes of flash, {self.stack} of stack{run}"


def told(*command: str) -> str:
    """What a tool prints; where it fails, what it complains of."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def flash_of(chip: Chip, objects: Sequence[Path]) -> int:
    """Bytes of code and constants in objects."""
    said = told(chip.size, *map(str, objects))
    return sum(int(line.split()[0]) + int(line.split()[1]) for line in said.splitlines()[1:])


def compiled(chip: Chip, sources: Sequence[Path], folder: Path, options: Sequence[str] = ("-Os",)) -> list[Path]:
    """Objects of the sources, and beside each the stack that its functions use."""
    made = []
    for source in sources:
        made.append(folder / f"{source.stem}.o")
        given = [*chip.options, *options, "-fstack-usage", "-c", str(source), "-o", str(made[-1])]
        told(chip.compiler, "-std=c99", *given)
    return made


def linked(chip: Chip, objects: Sequence[Path], program: Path, libraries: Sequence[str] = ("-lm",)) -> Path:
    told(chip.compiler, *chip.options, *chip.linking, *map(str, objects), *libraries, "-o", str(program))
    return program


def run(chip: Chip, program: Path) -> subprocess.CompletedProcess[str]:
    """The program on the emulated chip; its exit code is that of its main."""
    return subprocess.run([*chip.run, str(program)], capture_output=True, text=True, check=False, timeout=PATIENCE)


def measured(chip: Chip, code: Code, options: Sequence[str] = ("-Os",)) -> Measured:
    """Flash and stack of exported C, and instructions of one run where the chip counts them."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        code.write(folder, force=True)
        source = folder / f"{code.name}.c"
        (thing,) = compiled(chip, [source], folder, options)
        stack = max(int(line.split("\t")[1]) for line in thing.with_suffix(".su").read_text().splitlines())
        instructions = None
        if chip.counts and not chip.missing:
            instructions = _instructions(chip, code, folder, thing, options)
        return Measured(chip.name, flash_of(chip, [thing]), stack, instructions)


def _instructions(chip: Chip, code: Code, folder: Path, thing: Path, options: Sequence[str]) -> int:
    """Run it once between two looks at the chip's counter of instructions."""
    main = folder / "count.c"
    main.write_text(counting_main(code), encoding="utf-8")
    objects = compiled(chip, [main], folder, options)
    said = run(chip, linked(chip, [thing, *objects], folder / "count.elf"))
    if said.returncode != 0:
        raise RuntimeError(f"{chip.name}: {code.name} ended with {said.returncode} while it was counted: {said.stderr}")
    return int(said.stdout + said.stderr)  # emulators print on either of them


def counting_main(code: Code) -> str:
    """A program that prints how many instructions one run takes, by RISC-V's `minstret`."""
    name, sizes = checked_name(code.name), code.sizes
    upper = name.upper()
    is_network = f"{name}_run(" in code.header
    call = f"{name}_run(x, y, arena);" if is_network else f"{name}(x, y);"
    return f"""#include <stdio.h>
#include "{name}.h"

static {sizes.input_type} x[{upper}_IN];
static {sizes.output_type} y[{upper}_OUT];
{f"static float arena[{upper}_SCRATCH_BYTES / 4 + 1];" if is_network else ""}

static uint32_t counted(void)
{{
    uint32_t count;
    /* csrr count, minstret: by its bits, since some assemblers know the name and others do not */
    __asm__ volatile (".insn i 0x73, 2, %0, x0, -0x4fe" : "=r"(count));
    return count;
}}

int main(void)
{{
    uint32_t state = 1;
    for (int32_t i = 0; i < {upper}_IN; ++i) {{
        state = state * UINT32_C(1664525) + UINT32_C(1013904223);
        x[i] = ({sizes.input_type})((int32_t)(state >> 24) - 128);
    }}
    const uint32_t before = counted();
    {call}
    const uint32_t after = counted();
    printf("%lu\\n", (unsigned long)(after - before));
    return 0;
}}
"""


def measured_on_all(code: Code) -> tuple[Measured, ...]:
    """On every chip whose compiler is here."""
    return tuple(measured(chip, code) for chip in CHIPS if chip.compiles(code.sizes.headers))
