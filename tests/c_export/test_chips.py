"""Exported C on emulated chips: the self tests run there, a wrong number fails, a network classifies as in Python.

What is not installed is skipped by name. Debian has all of it: see `.ci/run`.
"""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import numpy as np
import pytest
from building import WARNINGS, written
from drawing import drawn_pools

from ndpool import Adaptive, Avg, Global, Graph, Lp, Max, Pool, SmoothMax, Sum, Window
from ndpool.c import avr, export
from ndpool.c.chips import CHIPS, PATIENCE, compiled, linked, measured, run
from ndpool.cli import main

EMULATED = [chip for chip in CHIPS if chip.run]
XTENSA = next(chip for chip in CHIPS if chip.name.startswith("Xtensa"))
EXAMPLES = Path(__file__).parents[2] / "examples"


def needs(chip):
    """Skips where a tool of the chip is missing, and says which package has it."""
    if chip.missing or not chip.compiles(["math.h"] if chip.run else []):
        pytest.skip(
            f"{chip.name}: {', '.join(chip.missing) or 'its C library'} is missing: apt-get install {chip.package}"
        )
    return chip


@pytest.fixture(params=EMULATED, ids=lambda chip: chip.name)
def chip(request):
    return needs(request.param)


def all_tests_main(codes):
    """Ends with the number of self tests that fail."""
    declared = "".join(f"int {code.name}_self_test(void);\n" for code in codes)
    calls = "".join(f"    failed += {code.name}_self_test() != 0;\n" for code in codes)
    return f"{declared}int main(void)\n{{\n    int failed = 0;\n{calls}    return failed;\n}}\n"


def program_of(chip, codes, folder, options=("-O2",)):
    """One program with all self tests, compiled without a warning, in one unit."""
    written(codes, folder)
    lines = []
    for code in codes:
        test = f"{code.name.upper()}_SELF_TEST"
        lines += [
            f"#define {test}",
            f"#define {test}_NO_MAIN",
            f'#include "{code.name}.c"',
            f'#include "{code.name}_test.c"',
        ]
    (folder / "all.c").write_text("\n".join(lines) + "\n")
    (folder / "all_main.c").write_text(all_tests_main(codes))
    given = [*WARNINGS[1:], *options]
    return linked(chip, compiled(chip, [folder / "all.c", folder / "all_main.c"], folder, given), folder / "all.elf")


def small_network():
    rng = np.random.default_rng(3)
    draw = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731
    graph = Graph()
    x = graph.input((1, 2, 9, 8), name="x", dtype=np.float32)
    y = graph.relu(graph.conv(x, graph.constant(draw(4, 2, 3, 3)), graph.constant(draw(4)), padding="same"))
    y = graph.avg_pool2d(y, 3, stride=2, padding=1)
    y = graph.softmax(graph.linear(graph.flatten(y), graph.constant(draw(5, 80)), graph.constant(draw(5))))
    return export(graph.build(y), name="net")


def test_self_tests_pass(chip, tmp_path):
    drawn = [each for each in drawn_pools(90, seed=9) if np.prod(each.shape) <= 300]
    codes = [
        export(each.pool, each.shape, each.dtype, name=f"p{i}", vjp=each.dtype == "float32")
        for i, each in enumerate(drawn)
    ]
    assert len(codes) > 40
    done = run(chip, program_of(chip, [*codes, small_network()], tmp_path))
    assert done.returncode == 0, (chip.name, done)


def test_a_wrong_golden_vector_fails(chip, tmp_path):
    code = export(Pool(Avg(rounding="half_even"), Window((2, 2))), (4, 4), "int8")
    program = program_of(chip, [code], tmp_path)
    assert run(chip, program).returncode == 0
    head, _, rest = code.test.partition("pool_golden_y[4] = {\n    ")
    first, _, rest = rest.partition(",")
    wrong = type(code)(
        code.name, code.header, code.source, f"{head}pool_golden_y[4] = {{\n    {int(first) ^ 1},{rest}", code.sizes
    )
    assert run(chip, program_of(chip, [wrong], tmp_path / "wrong")).returncode == 1


# --- AVR ------------------------------------------------------------------------------------------

ON_AVR = {
    "max int8": (Pool(Max(), Window((2, 2))), (1, 12, 12), "int8"),
    "mean int8 at edges": (Pool(Avg(False, rounding="half_away"), Window((3, 3), 2, 1)), (2, 9, 9), "int8"),
    "mean int16 half even": (Pool(Avg(rounding="half_even"), Window((4,), 2, 1)), (60,), "int16"),
    "mean uint8 over bins": (Pool(Avg(rounding="half_up"), Adaptive((3, 2))), (1, 8, 7), "uint8"),
    "sum int8 of many": (Pool(Sum(), Global(), (0,)), (700,), "int8"),
    "max float32": (Pool(Max(), Window((3, 3), 2, 1)), (1, 8, 8), "float32"),
    "norm float32": (Pool(Lp(2), Window((2, 2))), (1, 6, 6), "float32"),
    "smooth float32": (Pool(SmoothMax(1.5), Window((3,), 1, 1)), (20,), "float32"),
}


@pytest.fixture
def on_avr(tmp_path):
    if avr.missing():
        pytest.skip(f"AVR: {', '.join(avr.missing())} is missing: apt-get install {avr.PACKAGES}")

    def run_test(code):
        code.write(tmp_path, force=True)
        main = tmp_path / "main.c"
        main.write_text(avr.main_of("const int failed = pool_self_test();", '#include "pool.h"', "failed != 0"))
        sources = [tmp_path / "pool.c", tmp_path / "pool_test.c", main]
        options = [*WARNINGS[1:], "-Os", "-DPOOL_SELF_TEST", "-DPOOL_SELF_TEST_NO_MAIN"]
        return avr.run(sources, tmp_path, options)

    return run_test


@pytest.mark.parametrize("case", ON_AVR)
def test_self_tests_pass_on_an_avr(on_avr, case):
    """16-bit ints, 2 KB of memory, no double: indices, sums and promotions are as the C says."""
    pool, shape, dtype = ON_AVR[case]
    status, cycles = on_avr(export(pool, shape, dtype))
    assert status == 0
    assert cycles > 100


def test_a_wrong_golden_vector_fails_on_an_avr(on_avr):
    pool, shape, dtype = ON_AVR["max int8"]
    code = export(pool, shape, dtype)
    head, found, rest = code.test.partition("pool_golden_y[36] = {\n    ")
    first, _, rest = rest.partition(",")
    assert (
        on_avr(type(code)(code.name, code.header, code.source, f"{head}{found}{int(first) ^ 1},{rest}", code.sizes))[0]
        == 1
    )


# --- Xtensa ---------------------------------------------------------------------------------------


def test_it_compiles_for_xtensa(tmp_path):
    """There is a compiler for the lx106, without a C library: what needs no <math.h> compiles."""
    needs(XTENSA)
    drawn = drawn_pools(40, seed=4)
    codes = [export(each.pool, each.shape, each.dtype, name=f"p{i}") for i, each in enumerate(drawn)]
    codes = [code for code in codes if not code.sizes.headers]
    written(codes, tmp_path)
    (tmp_path / "all.c").write_text("".join(f'#include "{code.name}.c"\n' for code in codes))
    (made,) = compiled(XTENSA, [tmp_path / "all.c"], tmp_path, [*WARNINGS[1:], "-Os"])
    assert made.stat().st_size > 1000


# --- what is measured -----------------------------------------------------------------------------


def test_instructions_are_counted_and_the_same_each_time():
    rv32 = needs(next(chip for chip in CHIPS if chip.counts))
    code = export(Pool(Max(), Window((2, 2))), (1, 8, 8), "int8")
    first, again = measured(rv32, code), measured(rv32, code)
    larger = measured(rv32, export(Pool(Max(), Window((2, 2))), (4, 8, 8), "int8"))
    assert first == again
    assert 16 * 4 < first.instructions < larger.instructions
    assert 20 < first.flash < 2000
    assert 0 <= first.stack < 500


def test_the_command_measures(tmp_path, monkeypatch, capsys):
    chip = needs(next(chip for chip in CHIPS if chip.counts))
    monkeypatch.chdir(tmp_path)
    assert main(["c", "--shape", "1,8,8", "--dtype", "int8", "--kernel", "2", "--measure", "-o", "pool"]) == 0
    said = capsys.readouterr().out
    code = export(Pool(Max(), Window(2), (1, 2)), (1, 8, 8), "int8")
    assert f"  {measured(chip, code)}\n" in said
    assert f"{chip.name}: " in str(code.report())


# --- a network ------------------------------------------------------------------------------------


def example():
    for needed in ("matplotlib", "tqdm"):
        pytest.importorskip(needed, reason=f"the example draws with {needed}: install ndpool[examples]")
    spec = importlib.util.spec_from_file_location("example_signals", EXAMPLES / "signals.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_signals_are_classified_on_a_cortex_m4_as_in_python(tmp_path):
    """The example's network is trained here and run there: the same class for each of 200 new signals."""
    m4 = needs(next(chip for chip in CHIPS if chip.name == "Cortex-M4"))
    signals = example()
    rng = np.random.default_rng(0)
    model = signals.network(rng)
    signals.train(model, rng, steps=60)
    x, labels = signals.signals(rng, 200)
    expected = model.eval()(x).argmax(-1)
    assert (expected == labels).mean() > 0.8
    code = export(model, (1, 1, signals.LENGTH), name="signals")
    code.write(tmp_path, force=True)
    rows = ",\n".join("{" + ", ".join(f"{float(v)!r}f" for v in row.ravel()) + "}" for row in x)
    (tmp_path / "main.c").write_text(f"""#include <stdio.h>
#include "signals.h"
static const float given[{len(x)}][SIGNALS_IN] = {{{rows}}};
static float arena[SIGNALS_SCRATCH_BYTES / 4];
int main(void)
{{
    for (int i = 0; i < {len(x)}; ++i) {{
        float y[SIGNALS_OUT];
        signals_run(given[i], y, arena);
        int best = 0;
        for (int k = 1; k < SIGNALS_OUT; ++k) {{
            best = y[k] > y[best] ? k : best;
        }}
        putchar('0' + best);
    }}
    return 0;
}}
""")
    sources = [tmp_path / "signals.c", tmp_path / "main.c"]
    program = linked(m4, compiled(m4, sources, tmp_path, ["-O2"]), tmp_path / "signals.elf")
    done = subprocess.run([*m4.run, str(program)], capture_output=True, text=True, check=True, timeout=PATIENCE)
    classes = [int(digit) for digit in (done.stdout + done.stderr).strip()]
    assert classes == expected.tolist()
