"""What each kind makes of the cells of a window, in JAX's own operations: `kinds` again, for whole arrays.

    value     y
    winners   y, and the place of the one cell that it is
    weights   w, with dy = sum of w_i t_i: 0 at cells that do not matter

The cells of a window lie on the last axis. Those that are not real, or are skipped, are not `there`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ..kinds import between
from ..plan import Plan


@dataclass(frozen=True)
class Seen:
    """The cells of every window, which of them are there, how many these are, and how many padded cells count."""

    x: Any
    there: Any
    count: Any
    pad: Any


def wide(dtype: Any) -> Any:
    """What numbers are added up in."""
    return jnp.dtype("float32") if jnp.dtype(dtype).name in ("float16", "bfloat16") else jnp.dtype(dtype)


def value(plan: Plan, seen: Seen) -> Any:
    """`y` in every window."""
    return _unless_too_few(plan, _VALUES[plan.kind](plan, seen), seen)


def winners(plan: Plan, seen: Seen) -> tuple[Any, Any]:
    """`y`, and the place of the cell that it is; a place behind the last where too few cells are there."""
    found = _PLACES[plan.kind](plan, seen)
    y = _at(seen.x, found)
    if plan.skipped is not None:
        found = jnp.where(_has_enough(plan, seen), found, plan.cells)
    return _unless_too_few(plan, y, seen), found


def weights(plan: Plan, seen: Seen, y: Any) -> Any:
    """The weight of every cell; `y` is known where the derivative keeps it."""
    found = jnp.where(seen.there, _WEIGHTS[plan.kind](plan, seen, y), 0)
    return found if plan.skipped is None else jnp.where(_has_enough(plan, seen)[..., None], found, 0)


# --- cells that are there -------------------------------------------------------------------------


def is_there(plan: Plan, x: Any) -> Any:
    """Which cells are not skipped."""
    assert plan.skipped is not None
    skip = plan.skipped.value
    if skip != skip or plan.skipped_as_nan is not None:
        return ~jnp.isnan(x)
    return x != np.asarray(skip, x.dtype)


def _has_enough(plan: Plan, seen: Seen) -> Any:
    assert plan.skipped is not None
    return seen.count >= plan.skipped.min_count


def _unless_too_few(plan: Plan, y: Any, seen: Seen) -> Any:
    if plan.skipped is None:
        return y
    return jnp.where(_has_enough(plan, seen), y, np.asarray(plan.skipped.value, y.dtype))


def _at(a: Any, place: Any) -> Any:
    """The entry of the last axis that stands at a place."""
    return jnp.take_along_axis(a, place[..., None], axis=-1)[..., 0]


# --- Max and Min ----------------------------------------------------------------------------------


def never_wins(plan: Plan, dtype: Any) -> Any:
    """A number that no cell is worse than."""
    dtype = jnp.dtype(dtype)
    if jnp.issubdtype(dtype, jnp.floating):
        return np.asarray(-np.inf if plan.kind == "max" else np.inf, dtype)
    return np.asarray(jnp.iinfo(dtype).min if plan.kind == "max" else jnp.iinfo(dtype).max, dtype)


def _extreme(plan: Plan, seen: Seen) -> Any:
    reduce = jnp.max if plan.kind == "max" else jnp.min
    return reduce(jnp.where(seen.there, seen.x, never_wins(plan, seen.x.dtype)), axis=-1)


def _leading(seen: Seen, y: Any) -> Any:
    """The cells that are y. If one is NaN, so is y."""
    return seen.there & ((seen.x == y) | (seen.x != seen.x))


def _extreme_place(plan: Plan, seen: Seen) -> Any:
    return _leading(seen, _extreme(plan, seen)[..., None]).argmax(-1)


def _extreme_weights(plan: Plan, seen: Seen, y: Any) -> Any:
    best = _leading(seen, y).astype(wide(seen.x.dtype))
    if plan.option == "first":
        return jnp.arange(best.shape[-1]) == best.argmax(-1)[..., None]
    return best / best.sum(-1, keepdims=True) if plan.option == "split" else best


# --- Sum and Avg ----------------------------------------------------------------------------------


def divisors(plan: Plan, count: Any, pad: Any) -> Any:
    """What the sum over every window is divided by."""
    counted = plan.option.partition(" ")[0]
    if plan.kind == "sum" or counted == "fixed":
        return np.full((1,) * np.ndim(count), 1 if plan.kind == "sum" else plan.parameter)
    return jnp.maximum(count + pad if counted == "counted" else count, 1)


def _mean(plan: Plan, seen: Seen) -> Any:
    rounding = plan.option.partition(" ")[2]
    if rounding:
        return _rounded(plan, seen, rounding)
    total = jnp.where(seen.there, seen.x.astype(wide(plan.result)), 0).sum(-1)
    return total if plan.kind == "sum" else total / jnp.asarray(divisors(plan, seen.count, seen.pad), total.real.dtype)


def _rounded(plan: Plan, seen: Seen, rounding: str) -> Any:
    """The exact mean of integers, rounded once."""
    room = jnp.arange(1).dtype  # 32 bits unless JAX has 64
    if 8 * room.itemsize < 8 * seen.x.dtype.itemsize + int(plan.cells).bit_length() + 1:
        raise NotImplementedError(
            f"rounding={rounding!r} of {plan.input} over {plan.cells} cells needs wider integers than {room} here; "
            "give a smaller dtype, or compute on the CPU"
        )
    total = jnp.where(seen.there, seen.x.astype(room), 0).sum(-1)
    n = jnp.asarray(divisors(plan, seen.count, seen.pad), room)
    if rounding == "floor":
        return total // n
    if rounding == "truncate":
        return jnp.sign(total) * (abs(total) // n)
    if rounding == "half_away":
        return jnp.sign(total) * ((2 * abs(total) + n) // (2 * n))
    up = (2 * total + n) // (2 * n)  # halves go up
    is_half = (2 * total + n) % (2 * n) == 0
    return jnp.where(is_half & (up % 2 == 1), up - 1, up) if rounding == "half_even" else up


def _mean_weights(plan: Plan, seen: Seen, y: Any) -> Any:
    divisor = jnp.asarray(divisors(plan, seen.count, seen.pad))
    return (1 / divisor.astype(wide(plan.derivative)).real)[..., None]


# --- Quantile, Median and Mode --------------------------------------------------------------------


def _in_order(seen: Seen) -> tuple[Any, Any]:
    """The cells in order and the places they come from; equal ones in their own order, those not there at the end."""
    shape = seen.x.shape
    missing = jnp.broadcast_to(~seen.there, shape)
    place = jnp.broadcast_to(jnp.arange(shape[-1]), shape)
    _, x, place = lax.sort((missing, seen.x, place), num_keys=2, is_stable=True)
    return x, place


def _between(plan: Plan, seen: Seen) -> tuple[Any, Any, Any]:
    """The places in order of the one or two cells between which the quantile lies, and the share of the latter."""
    table = [between(max(n, 1), plan.parameter, plan.option) for n in range(plan.cells + 1)]
    lo, hi, share = (np.array(column) for column in zip(*table, strict=True))
    count = jnp.broadcast_to(seen.count, seen.x.shape[:-1])
    return jnp.asarray(lo)[count], jnp.asarray(hi)[count], jnp.asarray(share, wide(plan.result))[count]


def _quantile(plan: Plan, seen: Seen) -> Any:
    x, _ = _in_order(seen)
    if plan.residual.winners:
        return _at(seen.x, _quantile_place(plan, seen))
    lo, hi, share = _between(plan, seen)
    a, b = (_at(x, place).astype(share.dtype) for place in (lo, hi))
    apart = b - a
    near = jnp.where(share < 0.5, a + apart * share, b - apart * (1 - share))
    y = jnp.where(lo == hi, a, jnp.where(jnp.abs(apart) < jnp.inf, near, (1 - share) * a + share * b))
    return jnp.where((seen.there & (seen.x != seen.x)).any(-1), jnp.nan, y)


def _quantile_place(plan: Plan, seen: Seen) -> Any:
    lo, _, _ = _between(plan, seen)
    nan = seen.there & (seen.x != seen.x)
    return jnp.where(nan.any(-1), nan.argmax(-1), _at(_in_order(seen)[1], lo))


def _quantile_weights(plan: Plan, seen: Seen, y: Any) -> Any:
    lo, hi, share = _between(plan, seen)
    _, place = _in_order(seen)
    cell = jnp.arange(seen.x.shape[-1])
    low, high = (cell == _at(place, at)[..., None] for at in (lo, hi))
    nan = seen.there & (seen.x != seen.x)
    of_nan = cell == nan.argmax(-1)[..., None]
    share = share[..., None]
    return jnp.where(nan.any(-1)[..., None], of_nan, low * (1 - share) + high * share)


def _mode_place(plan: Plan, seen: Seen) -> Any:
    """In order, equal cells stand together, the first of them in front: the longest run is the mode."""
    x, place = _in_order(seen)
    at = jnp.arange(x.shape[-1])
    before = jnp.concatenate([x[..., :1], x[..., :-1]], axis=-1)
    starts = ((x != before) & ((x == x) | (before == before))) | (at == 0)
    start = lax.cummax(jnp.where(starts, at, 0), axis=x.ndim - 1)
    length = jnp.where(at < jnp.asarray(seen.count)[..., None], at - start + 1, 0)
    # In each run the last cell has its whole length. Among equally long ones the policy says which.
    longest = length == length.max(-1, keepdims=True)
    first = jnp.take_along_axis(place, start, axis=-1)
    if plan.option == "first":
        return jnp.where(longest, first, x.shape[-1]).min(-1)
    smallest = jnp.where(longest & (x != x), -1, jnp.where(longest, at, x.shape[-1])).argmin(-1)
    last = x.shape[-1] - 1 - longest[..., ::-1].argmax(-1)
    return _at(first, smallest if plan.option == "smallest" else last)


def _mode(plan: Plan, seen: Seen) -> Any:
    return _at(seen.x, _mode_place(plan, seen))


# --- SmoothMax and Lp -----------------------------------------------------------------------------


def _gap(a: Any, b: Any) -> Any:
    """`a - b`, where equal infinities cancel."""
    return jnp.where(a == b, 0, a - b)


def _terms(plan: Plan, seen: Seen) -> tuple[Any, Any, Any]:
    """The shift s, `exp(beta (x_i - s))` for each cell that is there, and that of all padded cells together."""
    x = seen.x.astype(wide(seen.x.dtype))
    beta = np.asarray(plan.parameter, x.dtype)
    zeros = jnp.asarray(seen.pad if plan.option == "counted" else 0 * seen.pad, x.dtype)
    worst = np.asarray(-np.inf if plan.parameter > 0 else np.inf, x.dtype)
    reduce, beats = (jnp.max, jnp.maximum) if plan.parameter > 0 else (jnp.min, jnp.minimum)
    s = beats(reduce(jnp.where(seen.there, x, worst), axis=-1), jnp.where(zeros > 0, 0, worst))
    terms = jnp.where(seen.there, jnp.exp(beta * _gap(x, s[..., None])), 0)
    return s, terms, jnp.where(zeros > 0, zeros * jnp.exp(beta * _gap(jnp.zeros_like(s), s)), 0)


def _smooth_max(plan: Plan, seen: Seen) -> Any:
    s, terms, padded = _terms(plan, seen)
    return jnp.log(terms.sum(-1) + padded) / np.asarray(plan.parameter, s.dtype) + s


def _smooth_max_weights(plan: Plan, seen: Seen, y: Any) -> Any:
    _, terms, padded = _terms(plan, seen)
    return terms / (terms.sum(-1) + padded)[..., None]


def _ratios(plan: Plan, seen: Seen) -> tuple[Any, Any, Any]:
    """The largest magnitude m, every `x_i / m`, and the norm of these."""
    x = jnp.where(seen.there, seen.x.astype(wide(seen.x.dtype)), 0)
    m = jnp.abs(x).max(-1)
    divisor = jnp.where(m == 0, 1, m)[..., None]
    ratios = jnp.where(jnp.abs(x) == divisor, jnp.sign(x), x / divisor)
    p = np.asarray(plan.parameter, x.dtype)
    return m, ratios, jnp.power(jnp.power(jnp.abs(ratios), p).sum(-1), 1 / p)


def _norm(plan: Plan, seen: Seen) -> Any:
    m, _, norm = _ratios(plan, seen)
    return jnp.where(m == 0, 0, m * norm)


def _norm_weights(plan: Plan, seen: Seen, y: Any) -> Any:
    m, ratios, norm = _ratios(plan, seen)
    if plan.parameter == 1:
        found = jnp.sign(seen.x).astype(ratios.dtype)
    else:
        share = ratios / jnp.where(m == 0, 1, norm)[..., None]
        found = jnp.sign(ratios) * jnp.power(jnp.abs(share), np.asarray(plan.parameter - 1, ratios.dtype))
    return jnp.where((m == 0)[..., None], 0, found)


_VALUES: dict[str, Callable[[Plan, Seen], Any]] = {
    "max": _extreme,
    "min": _extreme,
    "sum": _mean,
    "avg": _mean,
    "quantile": _quantile,
    "median": _quantile,
    "mode": _mode,
    "smooth_max": _smooth_max,
    "lp": _norm,
}
_PLACES: dict[str, Callable[[Plan, Seen], Any]] = {
    "max": _extreme_place,
    "min": _extreme_place,
    "quantile": _quantile_place,
    "mode": _mode_place,
}
_WEIGHTS: dict[str, Callable[[Plan, Seen, Any], Any]] = {
    "max": _extreme_weights,
    "min": _extreme_weights,
    "sum": _mean_weights,
    "avg": _mean_weights,
    "quantile": _quantile_weights,
    "median": _quantile_weights,
    "smooth_max": _smooth_max_weights,
    "lp": _norm_weights,
}
