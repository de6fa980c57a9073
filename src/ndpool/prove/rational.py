"""Claims about the rational kinds, shown by Z3 for every real input, or refuted by a window.

First the kind's own `value`, run on symbols, is shown to be its definition: a formula that says what y is without
saying how it is found. The claims about the function then use the formula. Claims about the derivative run `weights`,
`jvp` and `vjp` of the specification themselves.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import z3

from .. import spec
from ..kind import Cells, Kind, Weights
from ..kinds import Avg, Max, Median, Min, Mode, Quantile, Sum
from .findings import shaped
from .symbols import Paths, Real, value_of

if TYPE_CHECKING:
    from ..pool import Pool

#: What refutes a claim, by name.
Counterexample: TypeAlias = dict[str, Any]

PROVABLE = (Max, Min, Sum, Avg, Quantile, Median, Mode)


@dataclass
class Subject:
    """A pool over a shape of its pooled axes alone; `cases` counts what was looked at."""

    pool: Pool
    shape: tuple[int, ...]
    cases: int = 0

    @property
    def kind(self) -> Any:
        return self.pool.kind

    @cached_property
    def windows(self) -> list[tuple[int, int]]:
        """The windows that differ: how many real cells each has, and how many padded ones."""
        found = [
            (sum(c is not None for c in cells), len(cells)) for cells in spec.windows(self.pool, self.shape).values()
        ]
        return sorted({(real, every - real) for real, every in found if real})

    def window_of(self, model: Any, name: str, n: int) -> list[Any]:
        """The numbers of a window in a model, laid out as the kernel is where it is full."""
        cells = [str(value_of(model, z3.Real(f"{name}{i}"))) for i in range(n)]
        kernel = getattr(self.pool.window, "kernel_size", ())
        full = isinstance(kernel, tuple) and math.prod(kernel) == n
        return shaped(cells, kernel if full else ())


def symbols(name: str, n: int) -> list[Any]:
    """Real variables of the solver's."""
    return [z3.Real(f"{name}{i}") for i in range(n)]


def refuted(subject: Subject, solver: Any, wrong: Any, n: int, *names: str) -> Counterexample | None:
    """Numbers for which `wrong` holds beside what the solver knows, or None where there are none."""
    subject.cases += 1
    solver.push()
    solver.add(wrong)
    answer = solver.check()
    model = solver.model() if answer == z3.sat else None
    solver.pop()
    if answer == z3.unknown:
        raise TimeoutError("the solver gave up")
    return None if model is None else {name: subject.window_of(model, name, n) for name in names}


# --- definitions ----------------------------------------------------------------------------------


def definition(kind: Any, x: list[Any], y: Any, pad: int) -> Any:
    """The formula that says what y is."""
    if isinstance(kind, Max):
        return z3.And(z3.Or([y == cell for cell in x]), *[y >= cell for cell in x])
    if isinstance(kind, Min):
        return z3.And(z3.Or([y == cell for cell in x]), *[y <= cell for cell in x])
    if isinstance(kind, Mode):
        return _mode(kind.ties, x, y)
    if isinstance(kind, Quantile | Median):
        return _quantile(kind, x, y)
    return y == z3.Sum(x) / _divisor(kind, len(x), pad)


def _divisor(kind: Any, real: int, pad: int) -> int:
    """What a sum is divided by: rule "Padded cells"."""
    if isinstance(kind, Sum):
        return 1
    if kind.divisor_override is not None:
        return int(kind.divisor_override)
    return real + pad if kind.count_include_pad else real


def _quantile(kind: Any, x: list[Any], y: Any) -> Any:
    """Between two cells a and b of which as many are smaller, and no fewer at most as large, as their ranks say."""
    lo, hi, share = kind.place(len(x))

    def has_rank(cell: Any, rank: int) -> Any:
        smaller = z3.Sum([z3.If(other < cell, 1, 0) for other in x])
        not_larger = z3.Sum([z3.If(other <= cell, 1, 0) for other in x])
        return z3.And(smaller <= rank, rank < not_larger)

    exact = Fraction(share)
    b_part = z3.RealVal(f"{exact.numerator}/{exact.denominator}")
    choices = itertools.product(x, x) if lo != hi else ((cell, cell) for cell in x)
    return z3.Or([z3.And(has_rank(a, lo), has_rank(b, hi), y == a + (b - a) * b_part) for a, b in choices])


def _mode(ties: str, x: list[Any], y: Any) -> Any:
    """A cell that is had as often as any; among several such values the one seen first, the smallest or the largest."""

    def count(cell: Any) -> Any:
        return z3.Sum([z3.If(other == cell, 1, 0) for other in x])

    most = [z3.And(*[count(cell) >= count(other) for other in x]) for cell in x]
    if ties == "first":
        chosen = [z3.And(most[i], *[z3.Not(most[j]) for j in range(i)]) for i in range(len(x))]
    else:
        chosen = [
            z3.And(
                most[i],
                *[z3.Implies(most[j], x[i] <= x[j] if ties == "smallest" else x[i] >= x[j]) for j in range(len(x))],
            )
            for i in range(len(x))
        ]
    return z3.Or([z3.And(here, y == cell) for here, cell in zip(chosen, x, strict=True)])


# --- claims about the value -----------------------------------------------------------------------


def value(subject: Subject) -> Counterexample | None:
    """The value is the definition's."""
    for n, pad in subject.windows:
        x = symbols("x", n)
        paths = Paths()
        for y in paths.explore(partial(_value_of, subject.kind, x, pad)):
            found = refuted(subject, paths.solver, z3.Not(definition(subject.kind, x, y.term, pad)), n, "x")
            if found is not None:
                return found
    return None


def _value_of(kind: Any, x: list[Any], pad: int) -> Real:
    return Real(kind.value([Real(cell) for cell in x], pad))


def _two_points(subject: Subject) -> Iterator[tuple[Any, list[Any], list[Any], Any, Any, int]]:
    """A solver that knows of two windows x and z and of their values y and w."""
    for n, pad in subject.windows:
        x, z, y, w = symbols("x", n), symbols("z", n), z3.Real("y"), z3.Real("w")
        solver = z3.Solver()
        solver.add(definition(subject.kind, x, y, pad), definition(subject.kind, z, w, pad))
        yield solver, x, z, y, w, n


def monotone(subject: Subject) -> Counterexample | None:
    """No cell that grows makes the value smaller."""
    for solver, x, z, y, w, n in _two_points(subject):
        solver.add(*[a <= b for a, b in zip(x, z, strict=True)])
        found = refuted(subject, solver, y > w, n, "x", "z")
        if found is not None:
            return found
    return None


def lipschitz(subject: Subject, constant: Fraction) -> Counterexample | None:
    """In the largest norm, values are at most so many times as far apart as inputs."""
    k = z3.RealVal(f"{constant.numerator}/{constant.denominator}")
    for solver, x, z, y, w, n in _two_points(subject):
        d = z3.Real("d")
        for a, b in zip(x, z, strict=True):
            solver.add(a - b <= d, b - a <= d)
        found = refuted(subject, solver, y - w > k * d, n, "x", "z")
        if found is not None:
            return found
    return None


def bounds(subject: Subject) -> Counterexample | None:
    """The values at both ends of a box have all of its values between them."""
    for n, pad in subject.windows:
        lo, x, hi = symbols("lo", n), symbols("x", n), symbols("hi", n)
        ends = [z3.Real(name) for name in ("ylo", "y", "yhi")]
        solver = z3.Solver()
        for cells, y in zip((lo, x, hi), ends, strict=True):
            solver.add(definition(subject.kind, cells, y, pad))
        for i in range(n):
            solver.add(lo[i] <= x[i], x[i] <= hi[i])
        found = refuted(subject, solver, z3.Or(ends[1] < ends[0], ends[1] > ends[2]), n, "lo", "x", "hi")
        if found is not None:
            return found
    return None


def linear_bounds(subject: Subject) -> Counterexample | None:
    """Max lies below `c + sum a_i (x_i - lo_i)` and above each cell, for any c from the largest lo up; Min mirrored."""
    kind = subject.kind
    if isinstance(kind, Sum | Avg):
        return _is_itself(subject)
    if isinstance(kind, Quantile | Median):
        return bounds(subject)
    found = _one_cell(subject)
    if found is not None:
        return found
    sign = -1 if isinstance(kind, Min) else 1
    for n, pad in subject.windows:
        x, y, c, parts = symbols("x", n), z3.Real("y"), z3.Real("c"), symbols("s", n)
        solver = z3.Solver()
        solver.add(definition(kind, x, y, pad))
        for cell, part in zip(x, parts, strict=True):
            solver.add(part >= 0, sign * cell <= c + part)  # s_i = a_i (x_i - lo_i), by the claim about one cell
        above = sign * y > c + z3.Sum(parts)
        below = z3.Or([sign * y < sign * cell for cell in x])
        found = refuted(subject, solver, z3.Or(above, below), n, "x")
        if found is not None:
            return found
    return None


def _one_cell(subject: Subject) -> Counterexample | None:
    """`x <= c + a (x - lo)` and `a (x - lo) >= 0` for `a = max(0, hi - c) / (hi - lo)` and `lo <= x <= hi`, c >= lo."""
    x, lo, hi, c, a = (z3.Real(name) for name in ("x0", "lo0", "hi0", "c", "a"))
    solver = z3.SolverFor("QF_NRA")
    solver.add(lo <= x, x <= hi, lo < hi, c >= lo, a * (hi - lo) == z3.If(hi > c, hi - c, z3.RealVal(0)))
    return refuted(subject, solver, z3.Or(x > c + a * (x - lo), a * (x - lo) < 0), 1, "lo", "x", "hi")


def _is_itself(subject: Subject) -> Counterexample | None:
    """The value of a linear kind is the sum of its weights times its cells."""
    for n, pad in subject.windows:
        x = symbols("x", n)
        cells = [Real(cell) for cell in x]
        y = subject.kind.value(cells, pad)
        line = sum((w * cells[i] for i, w in subject.kind.weights(cells, pad)), Real(0))
        found = refuted(subject, z3.Solver(), y.term != line.term, n, "x")
        if found is not None:
            return found
    return None


# --- claims about the derivative ------------------------------------------------------------------


def weights(subject: Subject, policy: str | None = None) -> Counterexample | None:
    """Who leans on whom: at ties as the policy says, and nobody else.

    Max and Min: "first", "split", "all", or "last", which none of them is. Others: the weights add up to what the
    definition says.
    """
    kind = subject.kind
    chosen = str(policy or getattr(kind, "ties", ""))
    for n, pad in subject.windows:
        x = symbols("x", n)

        def run(x: list[Any] = x, pad: int = pad) -> Weights:
            cells = [Real(cell) for cell in x]
            return list(kind.weights(cells, pad))

        paths = Paths()
        for given in paths.explore(run):
            dense = [z3.RealVal(0)] * n
            for i, w in given:
                dense[i] = dense[i] + Real(w).term if not isinstance(w, Real) else dense[i] + w.term
            wanted = _wanted(kind, x, pad, chosen)
            wrong = z3.Or([w != z3.simplify(v) for w, v in zip(dense, wanted, strict=True)]) if wanted else _sums(dense)
            found = refuted(subject, paths.solver, wrong, n, "x")
            if found is not None:
                found["weights"] = [str(z3.simplify(w)) for w in dense]
                return found
    return None


def _sums(dense: list[Any]) -> Any:
    """Order statistics: weights are not negative and add up to 1."""
    return z3.Or(z3.Sum(dense) != 1, *[w < 0 for w in dense])


def _wanted(kind: Any, x: list[Any], pad: int, policy: str) -> list[Any] | None:
    """The weight of each cell by the policy, as a formula of all cells."""
    n = len(x)
    if isinstance(kind, Sum | Avg):
        return [z3.RealVal(1) / _divisor(kind, n, pad)] * n
    if not isinstance(kind, Max | Min):
        return None
    larger = isinstance(kind, Max)
    wins = [z3.And(*[(x[i] >= other if larger else x[i] <= other) for other in x]) for i in range(n)]
    count = z3.Sum([z3.If(each, 1, 0) for each in wins])
    zero, one = z3.RealVal(0), z3.RealVal(1)
    if policy == "all":
        return [z3.If(each, one, zero) for each in wins]
    if policy == "split":
        # 1 / count, without a division by a symbol.
        share = zero
        for k in range(1, n + 1):
            share = z3.If(count == k, z3.RealVal(f"1/{k}"), share)
        return [z3.If(each, share, zero) for each in wins]
    before = [range(i) if policy == "first" else range(i + 1, n) for i in range(n)]
    return [z3.If(z3.And(wins[i], *[z3.Not(wins[j]) for j in before[i]]), one, zero) for i in range(n)]


class AnyWeights(Kind):
    """A kind of which nothing is known: its weights are symbols, which depend on the window alone."""

    def value(self, x: Cells, pad: int = 0) -> Any:
        return x[0]

    def weights(self, x: Cells, pad: int = 0) -> Weights:
        names = "_".join(str(cell.term) for cell in x)
        return [(i, Real(z3.Real(f"w{i}_{names}"))) for i in range(len(x))]


def transpose(subject: Subject, any_weights: bool = False) -> Counterexample | None:
    """The entries of `jvp` and of `vjp` are the same, one by one, with every overlap."""
    from ..pool import Pool

    kind = AnyWeights() if any_weights else subject.kind
    pool = Pool(kind, subject.pool.window, tuple(range(len(subject.shape))))
    n = math.prod(subject.shape)
    x = symbols("x", n)
    outputs = pool.output_shape(subject.shape)

    def run() -> list[tuple[Any, Any]]:
        cells = np.array([Real(cell) for cell in x] + [None], object)[:-1].reshape(subject.shape)
        entries = []
        ways = {j: spec.jvp(pool, cells, _unit(subject.shape, j))[1].ravel() for j in range(n)}
        for o in range(math.prod(outputs)):
            back = spec.vjp(pool, cells, _unit(outputs, o)).ravel()
            entries += [(_plain(ways[j][o]), _plain(back[j])) for j in range(n)]
        return entries

    paths = Paths()
    for entries in paths.explore(run):
        wrong = [a != b for a, b in entries if not z3.simplify(a).eq(z3.simplify(b))]
        subject.cases += 1
        found = refuted(subject, paths.solver, z3.Or(wrong), n, "x") if wrong else None
        if found is not None:
            return found
    return None


def _unit(shape: tuple[int, ...], place: int) -> Any:
    """1 at one place, 0 elsewhere, as exact numbers."""
    found = np.full(math.prod(shape), Fraction(0), object)
    found[place] = Fraction(1)
    return found.reshape(shape)


def _plain(a: Any) -> Any:
    return a.term if isinstance(a, Real) else Real(a).term


#: Claims that take no more than the pool.
PLAIN: dict[str, Callable[[Subject], Counterexample | None]] = {
    "value": value,
    "weights": weights,
    "transpose": transpose,
    "monotone": monotone,
    "bounds": bounds,
    "linear bounds": linear_bounds,
}
