"""Certificates: that no input within eps of x has another label, or one that has.

robust           every margin `y[label] - y[other]` is above 0 for all inputs of the box
counterexample   an input of the box that the program itself gives another label, found by projected gradient
not shown        neither: the bounds are too wide, or the search too short
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import Array
from .networks import METHODS, Network

if TYPE_CHECKING:
    from ..program import Program


@dataclass(frozen=True, eq=False)
class Certificate:
    """What was found: the verdict, the least margin that was shown, and the counterexample if there is one.

    The margin is that of the bounds; beside a counterexample it is that of the counterexample, and not above 0.
    """

    verdict: str
    margin: float
    counterexample: Array | None = None

    @property
    def is_robust(self) -> bool:
        """Whether no input of the box has another label."""
        return self.verdict == "robust"

    def __repr__(self) -> str:
        return f"Certificate({self.verdict!r}, margin={self.margin:.6g})"


@dataclass(frozen=True, eq=False)
class Question:
    """A program at its inputs, of which the one at place `moved` may be anything within eps, between the clips."""

    program: Program
    inputs: list[Array]
    moved: int
    lo: Array
    hi: Array
    label: int

    def with_input(self, x: Array) -> list[Array]:
        return [x if k == self.moved else other for k, other in enumerate(self.inputs)]

    def margin_at(self, x: Array) -> float:
        """`y[label]` less the largest other."""
        y = np.asarray(self.program(*self.with_input(x)), np.float64).ravel()
        return float(y[self.label] - np.delete(y, self.label).max())


def certify(
    program: Program,
    xs: Any,
    eps: float,
    label: int,
    *,
    moved: int | str = 0,
    clip: tuple[float, float] | None = None,
    method: str = "crown",
    steps: int = 20,
    seed: int = 0,
) -> Certificate:
    """`Program.certify` says what this does."""
    if method not in METHODS:
        raise ValueError(f"method={method!r} is not a method; give one of {METHODS}")
    asked = _question(program, xs, eps, label, moved, clip)
    found = _attack(asked, steps, seed)
    if found is not None:
        return Certificate("counterexample", asked.margin_at(found), found)
    margin = _margin(asked, method)
    return Certificate("robust" if margin > 0 else "not shown", margin)


def _question(program: Program, xs: Any, eps: Any, label: Any, moved: int | str, clip: Any) -> Question:
    inputs = program._read(program._one_each("xs", xs))
    names = [program.nodes[i].name for i in program.inputs]
    if moved in names:
        moved = names.index(str(moved))
    if not isinstance(moved, int) or not 0 <= moved < len(inputs):
        raise ValueError(f"moved={moved!r} is no input of the program; give one of {names}, or its place")
    if isinstance(eps, bool) or not isinstance(eps, int | float | np.floating) or not 0 <= eps < np.inf:
        raise ValueError(f"eps={eps!r} is no distance; give a finite number from 0 up")
    x = inputs[moved]
    if x.dtype.kind != "f":
        raise TypeError(f"input {names[moved]!r} has dtype {x.dtype}, and only floats are moved; give moved=...")
    if not np.isfinite(x).all():
        raise ValueError(f"input {names[moved]!r} has a cell that is not finite; give finite numbers")
    if len(program.outputs) != 1:
        raise ValueError(f"the program has {len(program.outputs)} outputs; build one that gives the logits alone")
    shape = program.nodes[program.outputs[0]].shape
    classes = shape[-1] if shape else 0
    if not shape or int(np.prod(shape)) != classes or classes < 2:
        raise ValueError(f"the output has shape {shape}; give a program of one example, whose output has one row")
    place = int(label)
    if isinstance(label, bool) or place != label or not 0 <= place < classes:
        raise ValueError(f"label={label!r} is none of {classes} classes; give an int from 0 to {classes - 1}")
    centre = x.astype(np.float64)
    lo, hi = (centre, centre) if eps == 0 else (np.nextafter(centre - eps, -np.inf), np.nextafter(centre + eps, np.inf))
    if clip is not None:
        least, most = clip
        if not ((centre >= least) & (centre <= most)).all():
            raise ValueError(f"clip={clip!r} has not all of input {names[moved]!r} between its ends; give wider ones")
        lo, hi = np.maximum(lo, least), np.minimum(hi, most)
    return Question(program, inputs, moved, lo, hi, place)


def _margin(asked: Question, method: str) -> float:
    """The least margin that the bounds show."""
    program = asked.program
    network = Network(program, tuple(asked.with_input(asked.lo)), tuple(asked.with_input(asked.hi)), method)
    output = program.outputs[0]
    lo, hi = (end.ravel() for end in network.boxes[output])
    simple = float(lo[asked.label] - np.delete(hi, asked.label).max())
    if method == "ibp" or simple > 0:
        return simple
    classes = lo.size
    rows = -np.eye(classes)[[k for k in range(classes) if k != asked.label]]
    rows[:, asked.label] = 1.0
    return max(simple, float(network.lower(output, rows.reshape(-1, *program.nodes[output].shape)).min()))


# --- the search for a counterexample ------------------------------------------------------------------


def _attack(asked: Question, steps: int, seed: int) -> Array | None:
    """An input of the box with another label, by steps along the sign of the gradient of the smallest margin."""
    x = asked.inputs[asked.moved]
    if asked.margin_at(x) <= 0:
        return x.copy()
    centre, ends = x.astype(np.float64), (asked.lo, asked.hi)
    for _ in range(2):  # the ends are rounded outward by one place; a counterexample lies within them
        ends = np.nextafter(ends[0], centre), np.nextafter(ends[1], centre)
    lo, hi = _inside(ends[0], x, up=True), _inside(ends[1], x, up=False)
    rng = np.random.default_rng(seed)
    for start in (x, _drawn(rng, lo, hi)):
        found = _descend(asked, start, lo, hi, steps)
        if found is not None:
            return found
    return None


def _inside(end: Array, x: Array, up: bool) -> Array:
    """An end of the box as a float of the input's dtype that is in the box."""
    near = end.astype(x.dtype)
    beyond = (near < end) if up else (near > end)
    return np.asarray(np.where(beyond, np.nextafter(near, x.dtype.type(np.inf if up else -np.inf)), near))


def _drawn(rng: np.random.Generator, lo: Array, hi: Array) -> Array:
    share = rng.random(lo.shape).astype(lo.dtype)
    return np.asarray(np.clip(lo + share * (hi - lo), lo, hi))


def _descend(asked: Question, start: Array, lo: Array, hi: Array, steps: int) -> Array | None:
    x, length = start, 0.25
    for _ in range(steps):
        y, pullback = asked.program.vjp(*asked.with_input(x))
        flat = np.asarray(y).ravel().astype(np.float64)
        flat_others = flat.copy()
        flat_others[asked.label] = -np.inf
        other = int(flat_others.argmax())
        if flat[asked.label] <= flat[other]:
            return x
        g = np.zeros(flat.shape)
        g[asked.label], g[other] = 1.0, -1.0
        gs = pullback(g.reshape(np.shape(y)))
        gradient = gs[asked.moved] if len(asked.inputs) > 1 else gs
        x = np.clip(x - (np.sign(gradient) * length * (hi - lo)).astype(x.dtype), lo, hi)
        length *= 0.9
    return x if asked.margin_at(x) <= 0 else None
