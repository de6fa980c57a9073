"""Proofs: what holds is proved, what does not is refuted by numbers that the specification confirms; the command."""

from __future__ import annotations

import re
import sys
from fractions import Fraction

import numpy as np
import pytest
import z3

from ndpool import Adaptive, Avg, Global, Kind, Lp, Max, Median, Min, Mode, Pool, Quantile, SmoothMax, Sum, Window
from ndpool.cli import main
from ndpool.prove import CLAIMS, Finding, prove, rational, table
from ndpool.prove.balls import Ball, Search, UndecidedError
from ndpool.prove.findings import shaped
from ndpool.prove.symbols import Paths, Real

PROVED = [
    Pool(Max("split"), Window((2, 2))),
    Pool(Max("first"), Window((3,), 1)),
    Pool(Max("all"), Window((2,), 1, 1)),
    Pool(Min("split"), Window((3,), 2)),
    Pool(Sum(), Window((2, 2), 1)),
    Pool(Avg(), Window((3,), 1, 1)),
    Pool(Avg(count_include_pad=False), Window((3,), 1, 1)),
    Pool(Avg(divisor_override=7), Window((2,))),
    Pool(Median(), Window((3,), 1)),
    Pool(Quantile(0.3, "higher"), Window((3,))),
    Pool(Quantile(0.7), Window((2,), 1)),
    *(Pool(Mode(ties), Window((3,), 1)) for ties in ("first", "smallest", "largest")),
]


@pytest.mark.parametrize("pool", PROVED, ids=repr)
def test_what_should_hold_is_proved(pool):
    for finding in prove(pool):
        assert finding.verdict == "proved", str(finding)
        assert finding.counterexample is None
        assert finding.cases >= 1


@pytest.mark.parametrize("kind", [SmoothMax(1.0), SmoothMax(-1.5), Lp(2)], ids=repr)
def test_smooth_kinds_over_a_box(kind):
    """Over a small box: the parts of a large one are as many as its size."""
    found = list(prove(Pool(kind, Window((2,))), box=[(0.5, 0.625)] * 2))
    assert [str(finding) for finding in found if finding.verdict != "proved"] == []
    assert ("monotone" in [finding.claim for finding in found]) == isinstance(kind, SmoothMax)


def test_padding_of_smooth_kinds():
    pool = Pool(SmoothMax(1.0), Window((2,), 1, 1))
    found = list(prove(pool, (2,), ["value", "monotone", "bounds"], [(0.5, 0.75)] * 2))
    assert [finding.verdict for finding in found] == ["proved"] * 3


# --- what does not hold ---------------------------------------------------------------------------


@pytest.mark.parametrize("ties", ["first", "split", "all"])
def test_ties_last_is_refuted(ties):
    (finding,) = prove(Pool(Max(ties), Window((2, 2))), claims=["ties last"])
    assert finding.verdict == "refuted"
    x = [Fraction(cell) for row in finding.counterexample["x"] for cell in row]
    weights = dict(Max(ties).weights(x))
    winners = [i for i, cell in enumerate(x) if cell == max(x)]
    assert len(winners) > 1
    assert weights != {winners[-1]: 1}
    assert [Fraction(w) for w in finding.counterexample["weights"]] == [weights.get(i, 0) for i in range(4)]


def test_another_policy_is_refuted_and_the_own_one_is_proved():
    for own in ("first", "split", "all"):
        claims = [f"ties {other}" for other in ("first", "split", "all")]
        verdicts = {f.claim: f.verdict for f in prove(Pool(Max(own), Window((3,))), claims=claims)}
        assert verdicts == {claim: "proved" if claim == f"ties {own}" else "refuted" for claim in claims}


@pytest.mark.parametrize("kind", [Max(), Min(), Avg(), Median()], ids=repr)
def test_a_smaller_lipschitz_constant_is_refuted(kind):
    pool = Pool(kind, Window((3,)))
    (finding,) = prove(pool, claims=["lipschitz 0.99"])
    assert finding.verdict == "refuted"
    x, z = ([Fraction(cell) for cell in finding.counterexample[name]] for name in "xz")
    moved = max(abs(a - b) for a, b in zip(x, z, strict=True))
    assert abs(kind.value(x) - kind.value(z)) > Fraction(99, 100) * moved
    (finding,) = prove(pool, claims=["lipschitz 1"])
    assert finding.verdict == "proved"


def test_smooth_kinds_are_refuted_too():
    (finding,) = prove(Pool(SmoothMax(1.0), Window((2,))), claims=["lipschitz 0.9"])
    assert finding.verdict == "refuted"
    x = [float(Fraction(cell)) for cell in finding.counterexample["x"]]
    assert sum(w for _, w in SmoothMax(1.0).weights(x)) > 0.9
    (finding,) = prove(Pool(Lp(2), Window((2,))), claims=["monotone"], box=[(-1.0, -0.5)] * 2)
    assert finding.verdict == "refuted"


def test_modes_do_not_grow_with_their_cells():
    (finding,) = prove(Pool(Mode(), Window((3,))), claims=["monotone"])
    assert finding.verdict == "refuted"
    x, z = ([Fraction(cell) for cell in finding.counterexample[name]] for name in "xz")
    assert all(a <= b for a, b in zip(x, z, strict=True))
    assert Mode().value(x) > Mode().value(z)


class Wrong(Max):
    """A maximum that is wrong at one place: the last of three cells is not looked at."""

    def value(self, x, pad=0):
        return super().value(x[:-1] if len(x) == 3 else x)


class Crooked(Max):
    """Weights of the last winner, where the first is meant."""

    def weights(self, x, pad=0):
        return [(self.winners(x)[-1], 1)]


def test_a_wrong_kind_is_found():
    subject = rational.Subject(Pool(Wrong(), Window((3,))), (3,))
    found = rational.value(subject)
    x = [Fraction(cell) for cell in found["x"]]
    assert Wrong().value(x) != max(x)
    subject = rational.Subject(Pool(Crooked(), Window((3,))), (3,))
    assert rational.weights(subject) is not None
    assert rational.weights(subject, "last") is None


def test_a_vjp_that_is_no_transpose_is_found(monkeypatch):
    right = rational.spec.vjp
    monkeypatch.setattr(rational.spec, "vjp", lambda pool, x, g: right(pool, x, g)[::-1])
    assert rational.transpose(rational.Subject(Pool(Max(), Window((2,), 1)), (3,))) is not None
    assert (
        rational.transpose(rational.Subject(Pool(SmoothMax(1.0), Window((2,), 1)), (3,)), any_weights=True) is not None
    )


def test_bounds_that_are_wrong_are_found(monkeypatch):
    """The claim about balls uses the engine's own intervals: one that is too narrow is refuted."""
    monkeypatch.setattr(Pool, "bounds", lambda self, lo, hi: (np.array([0.0]), np.array([0.5])))
    (finding,) = prove(Pool(SmoothMax(1.0), Window((2,))), claims=["bounds"])
    assert finding.verdict == "refuted"


# --- symbols and balls ----------------------------------------------------------------------------


def test_two_by_two_cells_have_27_paths():
    x = [Real(z3.Real(f"x{i}")) for i in range(4)]
    paths = Paths()
    values = {str(y) for y in paths.explore(lambda: Max().value(x))}
    assert paths.count == 27
    assert values == {"x0", "x1", "x2", "x3"}


def test_what_is_assumed_takes_paths_away():
    a, b = Real(z3.Real("a")), Real(z3.Real("b"))
    paths = Paths(a.term > b.term)
    assert [str(y) for y in paths.explore(lambda: Max().value([a, b]))] == ["a"]


def test_arithmetic_of_symbols():
    a = Real(z3.Real("a"))
    solver = z3.Solver()
    terms = [(1 - a, 1 - a.term), (2 / (a + 3), 2 / (a.term + 3)), (-a * 0.5, -a.term / 2), (a / 4, a.term / 4)]
    solver.add(z3.Or([made.term != meant for made, meant in terms]), a.term > 0)
    assert solver.check() == z3.unsat
    assert repr(Real(Fraction(1, 3))) == "1/3"
    assert a == a
    assert a < float("inf")
    assert len({a, Real(z3.Real("a"))}) == 1


def test_balls_are_decided_or_not():
    ball = Ball.between(Fraction(-1), Fraction(1))
    with pytest.raises(UndecidedError):
        bool(ball > 0)
    with pytest.raises(UndecidedError):
        bool(ball == 0)
    assert Ball(2) > 1
    assert Ball(2) != 1
    assert not Ball(Fraction(1, 3)) < 0
    assert (1 - Ball(3)) < 0
    assert (2 / Ball(4)) < 1


def test_a_search_that_ends():
    search = Search()
    assert search.refute(lambda x: x[0] * x[0], Fraction(5), [(Fraction(-2), Fraction(2))]) is None
    point = search.refute(lambda x: x[0] * x[0], Fraction(3), [(Fraction(-2), Fraction(2))])
    assert point is not None
    assert point[0] ** 2 > 3


def test_a_search_that_does_not(monkeypatch):
    monkeypatch.setattr("ndpool.prove.balls.MOST_PARTS", 50)
    (finding,) = prove(Pool(SmoothMax(1.0), Window((3,))), claims=["weights"])
    assert finding.verdict == "not shown"


def test_a_solver_that_gives_up(monkeypatch):
    monkeypatch.setattr(z3.Solver, "check", lambda self, *a: z3.unknown)
    (finding,) = prove(Pool(Sum(), Window((2,))), claims=["value"])
    assert finding.verdict == "not shown"


def test_windows_are_printed_as_they_lie():
    assert shaped(["1", "2", "3", "4"], (2, 2)) == [["1", "2"], ["3", "4"]]
    text = str(Finding("c", "refuted", "4 cells", "all reals", 2, 0.5, {"x": [["1", "-20"], ["3", "4"]], "y": ["1"]}))
    assert text.splitlines() == [
        "c: refuted for all reals, 4 cells (2 cases, 0.50 s)",
        "    x = ",
        "        [  1, -20]",
        "        [  3,   4]",
        "    y = [1]",
    ]


# --- arguments ------------------------------------------------------------------------------------


def test_bad_arguments():
    pool = Pool(Max(), Window((2,)))
    with pytest.raises(ValueError, match="claim 'wins' is not known; give one of value, weights"):
        prove(pool, claims=["wins"])
    with pytest.raises(ValueError, match="claim 'lipschitz x' is not known"):
        prove(pool, claims=["lipschitz x"])
    with pytest.raises(ValueError, match="claim 'ties most' is not known"):
        prove(pool, claims=["ties most"])
    with pytest.raises(ValueError, match=r"shape=\(2, 2\) has 2 axes and 1 are pooled"):
        prove(pool, (2, 2))
    with pytest.raises(ValueError, match="has no size of its own; give the shape of the pooled axes"):
        prove(Pool(Max(), Adaptive((2,))))
    with pytest.raises(ValueError, match="proofs are about cells that are there; leave it out"):
        prove(Pool(Max(), Window((2,)), skip=0))
    with pytest.raises(ValueError, match="is about integers, and proofs are about real numbers"):
        prove(Pool(Avg(rounding="floor"), Window((2,))))
    with pytest.raises(ValueError, match="has no ties; leave it out"):
        list(prove(Pool(SmoothMax(1.0), Window((2,))), claims=["ties first"]))

    class Own(Kind):
        def value(self, x, pad=0):
            return x[0]

        def weights(self, x, pad=0):
            return [(0, 1)]

    with pytest.raises(TypeError, match="has no definition to be held against; test it with check_kind"):
        prove(Pool(Own(), Window((2,))))


def test_other_windows_with_a_shape():
    for window in (Adaptive((2,)), Global()):
        found = list(prove(Pool(Max(), window, (0,)), (3,)))
        assert {finding.verdict for finding in found} == {"proved"}


@pytest.mark.parametrize("missing", ["z3", "flint"])
def test_what_is_missing_is_named(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(
        ModuleNotFoundError, match=rf"proofs need {missing}; install it with: pip install 'ndpool\[prove\]'"
    ):
        prove(Pool(Max(), Window((2,))))


# --- the command ----------------------------------------------------------------------------------


def test_the_command_proves(capsys):
    assert main(["prove", "--kind", "max", "--ties", "split", "--kernel", "2,2"]) == 0
    said = capsys.readouterr().out
    assert [line.partition(":")[0] for line in said.splitlines()] == list(CLAIMS)
    assert said.count("proved for all reals") == len(CLAIMS)


def test_the_command_refutes(capsys):
    code = main(["prove", "--kernel", "2,2", "--claim", "ties last", "--claim", "lipschitz 0.99", "--claim", "value"])
    said = capsys.readouterr().out
    assert code == 1
    assert said.count("refuted") == 2
    assert re.search(r"x = \n {8}\[.*\]\n {8}\[.*\]\n", said)


def test_the_command_over_a_box(capsys):
    code = main(
        ["prove", "--kind", "smooth-max", "--beta", "2", "--kernel", "2", "--claim", "monotone", "--box=-1:0.5"]
    )
    assert code == 0
    assert "proved for cells from -1 to 1/2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kernel", "2", "--claim", "wins"], "claim 'wins' is not known"),
        (["--kernel", "2", "--box", "1"], "--box 1: give two numbers with a colon"),
        (["--kernel", "2", "--box", "2:1"], "--box 2:1: the first number is to be below the second"),
        (["--global"], "has no size of its own; give the shape"),
        (["--kernel", "2", "--skip", "0"], "proofs are about cells that are there"),
    ],
)
def test_the_command_complains_in_one_line(capsys, arguments, said):
    assert main(["prove", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_the_table():
    lines = table([Pool(Max(), Window((2,)))]).splitlines()
    assert lines[0].startswith("| pool | claim |")
    assert len(lines) == 2 + len(CLAIMS)
    assert all("proved" in line for line in lines[2:])
