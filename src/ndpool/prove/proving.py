"""Which claims there are, who shows them, and the table of what was shown."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ..kinds import Lp, SmoothMax
from ..reprs import brief
from ..windows import Window
from .findings import Finding

if TYPE_CHECKING:
    from ..pool import Pool

#: What can be claimed, in short. "lipschitz K" has a constant of your own, and "ties POLICY" another policy.
CLAIMS = {
    "value": "the value is the definition's",
    "weights": "the weights are the derivative, at ties as the policy says",
    "transpose": "JVP and VJP are transposes, entry by entry, with every overlap",
    "monotone": "no cell that grows makes the value smaller",
    "lipschitz": "in the largest norm, values are no farther apart than the constant times the inputs",
    "bounds": "the interval bounds hold",
    "linear bounds": "the affine bounds hold",
}

#: What a user's own claims begin with.
LIPSCHITZ, TIES = "lipschitz ", "ties "


def prove(
    pool: Pool,
    shape: Sequence[int] | None = None,
    claims: Iterable[str] | None = None,
    box: Sequence[tuple[float, float]] | None = None,
) -> Iterator[Finding]:
    """A finding for each claim about the pool: proved for all inputs, refuted by a window, or not shown.

    `shape` is that of the pooled axes; without it, two windows that overlap, or one where that is much. `claims` are
    among `CLAIMS`; "lipschitz 0.99" has a constant of your own, and "ties last" another policy for ties. SmoothMax
    and Lp are looked at over a `box` of a window's cells, one pair a cell.

    >>> from ndpool import Max, Pool, Window
    >>> for finding in prove(Pool(Max("split"), Window((2,))), claims=["value", "ties last"]):
    ...     print(finding.claim, finding.verdict, finding.counterexample)
    value proved None
    ties last refuted {'x': ['0', '0'], 'weights': ['1/2', '1/2']}
    """
    _needs(pool)
    sizes = _shape_of(pool) if shape is None else tuple(shape)
    _in_pooled_axes(pool, sizes)
    chosen = _default_claims(pool) if claims is None else list(claims)
    for claim in chosen:
        _check_claim(claim)
    return (_found(pool, sizes, claim, box) for claim in chosen)


def _needs(pool: Pool) -> None:
    if pool.skip is not None:
        raise ValueError(f"skip={pool.skip!r}: proofs are about cells that are there; leave it out")
    if getattr(pool.kind, "rounding", None) is not None:
        raise ValueError(f"{pool.kind!r} is about integers, and proofs are about real numbers; leave rounding out")
    try:
        import flint as flint
        import z3 as z3
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(
            f"proofs need {missing.name}; install it with: pip install 'ndpool[prove]'", name=missing.name
        ) from None
    from .rational import PROVABLE

    if type(pool.kind) not in (*PROVABLE, SmoothMax, Lp):
        raise TypeError(
            f"{pool.kind!r} is no kind of ndpool's, and has no definition to be held against; test it with check_kind"
        )


def _check_claim(claim: str) -> None:
    if claim in CLAIMS:
        return
    if claim.startswith(TIES) and claim.removeprefix(TIES) in ("first", "split", "all", "last"):
        return
    if claim.startswith(LIPSCHITZ):
        try:
            if Fraction(claim.removeprefix(LIPSCHITZ)) >= 0:
                return
        except ValueError:
            pass
    known = ", ".join(CLAIMS)
    raise ValueError(
        f'claim {claim!r} is not known; give one of {known}, "lipschitz NUMBER" or "ties first|split|all|last"'
    )


def _shape_of(pool: Pool) -> tuple[int, ...]:
    """Two windows side by side along the last axis, or one where that has more than six cells."""
    window = pool.window
    if not isinstance(window, Window):
        raise ValueError(f"{window!r} has no size of its own; give the shape of the pooled axes")
    rank = window.rank or len(pool.axes or ())
    sides = [window.of_axis(j, rank) for j in range(rank)]
    reach = [dilation * (kernel - 1) + 1 for kernel, _, _, dilation in sides]
    two = [*reach[:-1], reach[-1] + sides[-1][1]]
    return tuple(two if math.prod(two) <= 6 else reach)


def _in_pooled_axes(pool: Pool, shape: tuple[int, ...]) -> None:
    rank = pool.window.rank or len(pool.axes or ()) or len(shape)
    if rank != len(shape):
        raise ValueError(f"shape={shape} has {len(shape)} axes and {rank} are pooled; give the lengths of these alone")


def _default_claims(pool: Pool) -> list[str]:
    from ..kinds import Mode

    jumps = ("monotone", "lipschitz", "bounds", "linear bounds") if isinstance(pool.kind, Mode) else ()
    falls = ("monotone",) if isinstance(pool.kind, Lp) else ()
    return [claim for claim in CLAIMS if claim not in (*jumps, *falls)]


def _found(pool: Pool, shape: tuple[int, ...], claim: str, box: Any) -> Finding:
    from ..pool import Pool

    alone = Pool(pool.kind, pool.window, tuple(range(len(shape))))
    start = time.perf_counter()
    look = _by_balls if isinstance(pool.kind, SmoothMax | Lp) and claim != "transpose" else _by_solver
    verdict, size, about, cases, wrong = look(alone, shape, claim, box)
    return Finding(claim, verdict, size, about, cases, time.perf_counter() - start, wrong)


Looked = tuple[str, str, str, int, "dict[str, Any] | None"]


def _by_solver(pool: Pool, shape: tuple[int, ...], claim: str, box: Any) -> Looked:
    from . import rational

    subject = rational.Subject(pool, shape)
    cells = max(real for real, _ in subject.windows)
    size = f"windows of {cells} cells" if claim != "transpose" else f"an input of {math.prod(shape)} cells"
    try:
        wrong = _solved(subject, claim)
    except TimeoutError:
        return "not shown", size, "all reals", subject.cases, None
    about = "any weights" if claim == "transpose" and isinstance(pool.kind, SmoothMax | Lp) else "all reals"
    return "proved" if wrong is None else "refuted", size, about, subject.cases, wrong


def _solved(subject: Any, claim: str) -> dict[str, Any] | None:
    from . import rational

    if claim.startswith(TIES):
        return rational.weights(subject, claim.removeprefix(TIES))
    if claim.startswith("lipschitz"):
        given = claim.removeprefix("lipschitz").strip()
        own = (
            Fraction(given) if given else Fraction(subject.pool.lipschitz(subject.shape).value).limit_denominator(10**6)
        )
        return rational.lipschitz(subject, own)
    if claim == "transpose" and isinstance(subject.kind, SmoothMax | Lp):
        return rational.transpose(subject, any_weights=True)
    checks: dict[str, Callable[[Any], dict[str, Any] | None]] = rational.PLAIN
    return checks[claim](subject)


def _by_balls(pool: Pool, shape: tuple[int, ...], claim: str, box: Any) -> Looked:
    from . import balls, rational

    if claim.startswith(TIES):
        raise ValueError(f"claim {claim!r}: {pool.kind!r} has no ties; leave it out")
    subject = rational.Subject(pool, shape)
    search = balls.Search()
    n = max(real for real, _ in subject.windows)
    for real, pad in subject.windows:
        chosen = balls.default_box(pool.kind, real)
        if box is not None:
            chosen = [(Fraction(lo), Fraction(hi)) for lo, hi in box[:real]]
        given = claim.removeprefix("lipschitz").strip() if claim.startswith("lipschitz") else ""
        constant = Fraction(given) if given else balls.lipschitz_constant(pool.kind, real)
        name = "lipschitz" if claim.startswith("lipschitz") else claim
        about = _said(chosen, name)
        for function, limit in balls.functions(pool, name, real, pad, chosen, constant):
            try:
                point = search.refute(function, limit, chosen)
            except OverflowError:
                return "not shown", f"windows of {n} cells", about, search.cases, None
            if point is not None:
                wrong = {"x": [str(cell) for cell in point]}
                return "refuted", f"windows of {n} cells", about, search.cases, wrong
    return "proved", f"windows of {n} cells", about, search.cases, None


def _said(box: Any, claim: str) -> str:
    from .balls import TOLERANCE

    lo, hi = box[0]
    up_to = "" if claim == "monotone" else f", up to {TOLERANCE}"
    return f"cells from {lo} to {hi}{up_to}"


# --- the table ------------------------------------------------------------------------------------


def table(pools: Iterable[Pool] | None = None) -> str:
    """What is proved, of what size, in what time, as a table in Markdown."""
    lines = ["| pool | claim | | for | cases | seconds |", "|---|---|---|---|---|---|"]
    for pool in _usual() if pools is None else pools:
        for finding in prove(pool):
            about = f"{finding.about}, {finding.size}"
            cells = (f"`{brief(pool)}`", finding.claim, finding.verdict, about, finding.cases, f"{finding.seconds:.2f}")
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def _usual() -> Iterator[Pool]:
    from ..kinds import Avg, Max, Median, Min, Mode, Quantile, Sum
    from ..pool import Pool

    square, overlapping = Window((2, 2)), Window((2, 2), 1)
    for ties in ("first", "split", "all"):
        yield Pool(Max(ties), overlapping)
    yield Pool(Max(), Window((5,)))
    yield Pool(Min("split"), square)
    yield Pool(Avg(), Window((2, 2), 1, 1))
    yield Pool(Avg(count_include_pad=False), Window((3,), 2, 1))
    yield Pool(Sum(), overlapping)
    yield Pool(Median(), Window((2, 2)))
    yield Pool(Quantile(0.25), Window((3,)))
    yield Pool(Mode(), Window((4,)))
    yield Pool(SmoothMax(1.0), Window((2,)))
    yield Pool(SmoothMax(-1.0), Window((2,)))
    yield Pool(Lp(2), Window((2,)))
