"""Random pools as C, on this machine: warnings are errors, sanitizers are quiet, results are the specification's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from building import COMPILERS, Library, program, run, written
from drawing import drawn_pools, hostile

from closeness import within
from ndpool import Adaptive, Avg, Global, Lp, Max, Min, Pool, SmoothMax, Sum, Window, spec
from ndpool.c import export
from ndpool.c.exporting import planned
from ndpool.c.loops import Nest
from ndpool.c.pools import stays_behind

COUNT = 300
#: Half a last place of float32, relative.
ROUNDING = 2.0**-24

pytestmark = pytest.mark.skipif(not COMPILERS, reason="no C compiler: install gcc or clang")


@pytest.fixture(scope="module")
def drawn():
    return drawn_pools(COUNT, seed=21)


@pytest.fixture(scope="module")
def codes(drawn):
    return [exported(each, i) for i, each in enumerate(drawn)]


def exported(each, i):
    """One in five for little flash."""
    return export(each.pool, each.shape, each.dtype, name=f"p{i}", vjp=each.dtype == "float32", small=i % 5 == 0)


@pytest.fixture(scope="module")
def library(codes, tmp_path_factory):
    return Library(COMPILERS[-1], codes, tmp_path_factory.mktemp("library"))


def test_self_tests_pass_under_sanitizers_without_a_warning(codes, tmp_path):
    written(codes, tmp_path)
    options = ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    run(program(COMPILERS[0], codes, tmp_path, options))


def test_what_is_written_is_the_same_each_time(drawn, codes):
    for i, code in list(enumerate(codes))[::7]:
        assert exported(drawn[i], i).files == code.files


def test_what_c_is_not_written_with(codes):
    """No allocation, no input or output, and no library but for roots and exponentials."""
    for code in codes:
        for word in ("malloc", "alloca", "stdio", "printf", "goto", "double", "string.h", "memcpy"):
            assert word not in code.source, (code.name, word)
        included = {line for line in code.source.splitlines() if line.startswith("#include")}
        assert included <= {f'#include "{code.name}.h"', "#include <math.h>"}


def test_small_is_one_function_where_windows_differ():
    edges, tiles = Pool(Max(), Window((3, 3), 2, 1)), Pool(Max(), Window((2, 2)))
    plain, small = (export(edges, (1, 9, 9), "int8", small=small) for small in (False, True))
    assert plain.test == small.test
    assert len(small.source) < len(plain.source)
    assert "pool_whole(" not in small.source
    assert export(tiles, (1, 8, 8), "int8", small=True).source == export(tiles, (1, 8, 8), "int8").source


# --- values ---------------------------------------------------------------------------------------


def value_slack(pool, x, y, cells):
    """How far float results may be, as `Code` states it: so many roundings of what is added up."""
    if y.dtype != np.float32:
        return 0.0
    size = np.where(np.isfinite(y), np.abs(y), 0).astype(np.float64)
    finite = np.where(np.isfinite(x), np.abs(x), 0).astype(np.float32)
    match pool.kind:
        case Max() | Min():
            return 0.0
        case Sum() | Avg():
            return (cells + 1) * ROUNDING * spec.forward(pool, finite).astype(np.float64)
        case Lp():
            return (cells + 4) * ROUNDING * size
        case SmoothMax(beta=beta):
            return (cells + 8) * ROUNDING * (size + (1 + math.log(cells)) / abs(beta))


def guarded(shape, dtype):
    """Room for a result between cells that nobody may write to."""
    size = math.prod(shape)
    room = np.full(size + 32, 77, dtype)
    return room, room[16 : 16 + size].reshape(shape)


def check_guards(room):
    assert (room[:16] == 77).all()
    assert (room[-16:] == 77).all()


@pytest.mark.parametrize("seed", range(4))
def test_results_are_those_of_the_specification(drawn, codes, library, seed):
    rng = np.random.default_rng(seed)
    for each, code in zip(drawn, codes, strict=True):
        x = hostile(rng, each.shape, each.dtype)
        kept = x.copy()
        expected = spec.forward(each.pool, x)
        room, y = guarded(expected.shape, expected.dtype)
        library.call(code.name, x, y)
        check_guards(room)
        np.testing.assert_array_equal(x, kept)
        cells = Nest(planned(each.pool, each.shape, each.dtype, None)[0]).cells
        with np.errstate(invalid="ignore", over="ignore"):
            within(y, expected, value_slack(each.pool, x, expected, cells))


def test_in_place_is_the_same_and_some_are(drawn, codes, library):
    rng = np.random.default_rng(5)
    done = 0
    for each, code in zip(drawn, codes, strict=True):
        if "_in_place(" in code.header:
            x = hostile(rng, each.shape, each.dtype)
            _, y = guarded(each.pool.output_shape(each.shape), each.dtype)
            library.call(code.name, x, y)
            inside, here = guarded(each.shape, each.dtype)
            here[...] = x
            library.call(f"{code.name}_in_place", here)
            check_guards(inside)
            np.testing.assert_array_equal(here.ravel()[: y.size].view(np.uint8), y.ravel().view(np.uint8))
            done += 1
    assert 30 < done < len(codes)


def test_in_place_is_offered_exactly_where_no_cell_is_read_after_it_is_written(drawn):
    """By the specification's own windows: output o is written to place o, after those before it."""
    for each in drawn:
        plan, pool = planned(each.pool, each.shape, each.dtype, None)
        if math.prod(each.shape) > 300:
            continue
        places = np.arange(math.prod(each.shape)).reshape(each.shape)
        first = Pool(Min(), pool.window, pool.axes)
        try:
            least = spec.forward(first, places).ravel()
        except ValueError:  # windows of padding alone
            continue
        safe = bool((least >= np.arange(least.size)).all())
        assert stays_behind(Nest(plan)) == safe, each


# --- derivatives ----------------------------------------------------------------------------------


def test_derivatives_are_those_of_the_specification(drawn, codes, library):
    rng = np.random.default_rng(6)
    kinds = set()
    for each, code in zip(drawn, codes, strict=True):
        if each.dtype != "float32":
            continue
        x = hostile(rng, each.shape, "float32")
        if not isinstance(each.pool.kind, Max | Min):
            x = np.where(np.isfinite(x), x, np.float32(1.5))
        y, linear = each.pool.linearize(x)
        g = rng.standard_normal(y.shape).astype(np.float32)
        kept = [a for a in linear.residual if a is not None]
        if linear.residual.winners is not None:
            room, out = guarded(y.shape, np.float32)
            ours, winners = guarded(y.shape, linear.residual.winners.dtype)
            library.call(f"{code.name}_train", x, out, winners)
            check_guards(room)
            check_guards(ours)
            np.testing.assert_array_equal(out, y)
            np.testing.assert_array_equal(winners, linear.residual.winners)
            kept = [winners]
        room, gx = guarded(each.shape, np.float32)
        library.call(f"{code.name}_back", g, *map(np.ascontiguousarray, kept), gx)
        check_guards(room)
        expected = spec.vjp(each.pool, x, g)
        magnitudes = np.abs(x) if isinstance(each.pool.kind, Lp) else x
        mass = np.abs(spec.vjp(each.pool, magnitudes, np.abs(g))).astype(np.float64)
        cells = Nest(planned(each.pool, each.shape, "float32", None)[0]).cells
        within(gx, expected, 4 * (cells + 8) * ROUNDING * (mass + 1e-30) * (1 + _steepness(each.pool, x)))
        kinds.add(type(each.pool.kind))
    assert kinds == {Max, Min, Sum, Avg, Lp, SmoothMax}


def _steepness(pool, x):
    """A weight of SmoothMax is the exponential of a rounded number, as large as beta times the range of x."""
    return abs(pool.kind.beta) * float(np.ptp(x)) if isinstance(pool.kind, SmoothMax) else 0.0


# --- numbers that are far out ---------------------------------------------------------------------


@pytest.mark.parametrize("window", [Window((2, 2)), Window((3, 3), 2, 1), Global(), Adaptive((3, 2))], ids=repr)
def test_norms_neither_overflow_nor_underflow(tmp_path, window):
    pool = Pool(Lp(2), window, (0, 1))
    library = Library(COMPILERS[0], [export(pool, (7, 6), name="norm")], tmp_path)
    rng = np.random.default_rng(0)
    for scale in (1e-44, 1e-38, 1e-25, 1e-12, 1e18, 1e25, 1e37):
        x = (rng.standard_normal((7, 6)) * scale).astype(np.float32)
        y = np.empty(pool.output_shape(x.shape), np.float32)
        library.call("norm", x, y)
        np.testing.assert_allclose(y, spec.forward(pool, x), rtol=50 * 2.0**-24, atol=3e-45)


def test_smooth_maxima_of_large_numbers(tmp_path):
    pool = Pool(SmoothMax(2.0), Window((3,), 1, 1))
    library = Library(COMPILERS[0], [export(pool, (9,), name="smooth")], tmp_path)
    x = np.array([3e38, -3e38, 1e4, 1e4, -np.inf, -np.inf, -np.inf, np.inf, 0], np.float32)
    y = np.empty(9, np.float32)
    library.call("smooth", x, y)
    np.testing.assert_allclose(y, spec.forward(pool, x), rtol=1e-6)


@pytest.mark.parametrize("rounding", ["half_even", "half_up", "half_away", "floor", "truncate"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_every_mean_is_rounded_right(tmp_path, dtype, rounding):
    """Every sum of one to seven cells that can be: whole windows by their constants, edges by what divides them."""
    limits = np.iinfo(dtype)
    step = max(1, (int(limits.max) - int(limits.min)) // 499)
    values = np.unique(np.r_[np.arange(limits.min, limits.max + 1, step), [limits.min, limits.max, -1, 0, 1]])
    values = values[(values >= limits.min) & (values <= limits.max)]
    pools = [
        Pool(Avg(counted, rounding=rounding), Window((n,), n, padding, ceil_mode=True))
        for n in (2, 3, 4, 6, 7)
        for padding in (0, n - 1)
        for counted in (True, False)
    ]
    rng = np.random.default_rng(1)
    x = rng.choice(values, 6000).astype(dtype)
    near = rng.integers(-3, 4, 3000) + np.repeat(rng.choice(values, 500), 6)
    x[3000:] = np.clip(near, limits.min, limits.max).astype(dtype)
    codes = [export(pool, x.shape, dtype, name=f"mean{i}") for i, pool in enumerate(pools)]
    library = Library(COMPILERS[0], codes, tmp_path)
    for pool, code in zip(pools, codes, strict=True):
        y = np.empty(pool.output_shape(x.shape), dtype)
        library.call(code.name, x, y)
        np.testing.assert_array_equal(y, spec.forward(pool, x))


def test_sums_that_need_32_and_64_bits(tmp_path):
    ends = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767)}
    for dtype, (low, high) in ends.items():
        for cells in (100, 40_000, 70_000):
            pools = [Pool(Sum(), Global(), (0,)), Pool(Avg(rounding="half_away"), Global(), (0,))]
            codes = [export(p, (cells,), dtype, name=f"wide_{dtype}_{cells}_{i}") for i, p in enumerate(pools)]
            library = Library(COMPILERS[0], codes, tmp_path / f"{dtype}_{cells}")
            for value in (low, high):
                x = np.full(cells, value, dtype)
                for pool, code in zip(pools, codes, strict=True):
                    y = np.empty(1, pool.kind.result_dtype(x.dtype))
                    library.call(code.name, x, y)
                    assert int(y[0]) == (value * cells if isinstance(pool.kind, Sum) else value)


def test_large_inputs_are_drawn_on_the_chip_and_pass(tmp_path):
    pools = {"float32": Pool(Max(), Window((3, 3), 2, 1)), "int8": Pool(Avg(rounding="half_up"), Window((4, 4)))}
    codes = [export(pool, (3, 64, 64), dtype, name=f"large_{dtype}") for dtype, pool in pools.items()]
    assert all("state" in code.test and len(code.test) < 10_000 for code in codes)
    written(codes, tmp_path)
    run(program(COMPILERS[0], codes, tmp_path, ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]))


def test_a_wrong_golden_vector_fails(tmp_path):
    code = export(Pool(Avg(rounding="half_even"), Window((2, 2))), (4, 4), "int8")
    code.write(tmp_path / "right")
    (folder,) = [tmp_path / "wrong"]
    code.write(folder)
    test = folder / "pool_test.c"
    head, _, rest = test.read_text().partition("pool_golden_y[4] = {\n    ")
    first = int(rest.split(",")[0])
    test.write_text(f"{head}pool_golden_y[4] = {{\n    {first + 1}{rest[rest.index(',') :]}")
    for which, passes in (("right", True), ("wrong", False)):
        made = tmp_path / f"{which}.out"
        run(COMPILERS[0], "-std=c99", "-DPOOL_SELF_TEST", *(tmp_path / which).glob("*.c"), "-o", made)
        if passes:
            run(made)
        else:
            with pytest.raises(AssertionError, match="ended with 1"):
                run(made)
