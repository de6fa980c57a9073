"""Export: what is asked for, checked before anything is written, as C."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..kinds import Avg
from ..plan import ITEM_BYTES, Plan, plan_of
from ..pool import Pool
from ..windows import checked_shape
from .code import Code
from .files import header, source
from .loops import Nest, Pooled
from .pools import PoolCode
from .profiles import PROFILES
from .report import Sizes
from .selftest import test_of_pool
from .text import C_TYPES, checked_name, shape_of

#: The kinds that are written in C, for each dtype.
FLOAT_KINDS = ("max", "min", "sum", "avg", "lp", "smooth_max")
INTEGER_KINDS = ("max", "min", "sum", "avg")
DTYPES = {"float32": FLOAT_KINDS, **dict.fromkeys(("int8", "uint8", "int16"), INTEGER_KINDS)}


def export(
    what: Any,
    shape: Sequence[int] | None = None,
    dtype: Any = "float32",
    *,
    name: str | None = None,
    profile: str | None = None,
    vjp: bool = False,
    small: bool = False,
) -> Code:
    """Plain C of a pool over one shape, or of a small network.

    A `Pool` is written for an input of this `shape` and `dtype`: float32, int8, uint8 or int16, in C order. A program
    of a `Graph` has one input and says its shape itself. For a `Sequential`, `shape` is that of its input, batch
    included.

    With `profile`, the average of integers is rounded as a runtime rounds it. With `vjp`, the C of a pool of floats has
    what training needs: the winners in bytes, and the way back.

    Args:
        what: A `Pool`, the program of a `Graph`, or a `Sequential` of layers.
        shape: The shape of the input, in C order. A program says it itself.
        dtype: The dtype of the input.
        name: What the function is called; all other names begin with it.
        profile: The runtime by whose rule means of integers are rounded, one of `ndpool.c.PROFILES`.
        vjp: Whether to write what training needs as well.
        small: Whether flash matters more than time: one loop for the windows at the edges and those inside.

    >>> from ndpool import Max, Pool, Window
    >>> code = export(Pool(Max(), Window((2, 2))), (1, 4, 4), "int8")
    >>> print(code.source.partition("void pool(")[2])
    const int8_t *x, int8_t *y)
    {
        for (int row = 0; row < 2; ++row) {
            for (int column = 0; column < 2; ++column) {
                *y = pool_whole(x + row * 2 * 4 + column * 2);
                ++y;
            }
        }
    }
    <BLANKLINE>
    void pool_in_place(int8_t *x)
    {
        pool(x, x);
    }
    <BLANKLINE>
    """
    if isinstance(what, Pool):
        return export_pool(what, shape, dtype, checked_name("pool" if name is None else name), profile, vjp, small)
    from .networks import export_network

    if profile is not None:
        raise ValueError(f"profile={profile!r} is for the average of integers, and networks are float32; leave it out")
    if vjp:
        raise ValueError(
            "vjp=True is for a pool, and this is a network; export the pools that are trained by themselves"
        )
    return export_network(what, shape, dtype, checked_name("network" if name is None else name), small)


def export_pool(
    pool: Pool,
    shape: Sequence[int] | None,
    dtype: Any,
    name: str,
    profile: str | None = None,
    vjp: bool = False,
    small: bool = False,
) -> Code:
    """The C of one pool."""
    if shape is None:
        raise TypeError("shape is missing; C is written for one shape, give for example shape=(1, 28, 28)")
    plan, pool = planned(pool, checked_shape(shape), _dtype_name(dtype), profile)
    if vjp and plan.input != "float32":
        raise TypeError(
            f"vjp=True of {plan.input}: derivatives in C are float32; export a pool of float32, or leave vjp out"
        )
    code = PoolCode(plan, name, vjp, small)
    about = _about(pool, code, profile)
    functions = code.functions()
    macros = {
        "IN": (math.prod(plan.shape), "cells of x"),
        "OUT": (math.prod(plan.output_shape), "cells of y"),
        "SCRATCH_BYTES": (0, "memory beside x and y"),
    }
    if code.back is not None and code.back.winner:
        macros["WINNER_BYTES"] = (plan.residual_bytes, "memory of the winners")
    return Code(
        name=name,
        header=header(name, about, macros, functions),
        source=source(name, about, code.cells.headers, code.helpers(), functions),
        test=test_of_pool(pool, code),
        sizes=sizes_of(code),
    )


def sizes_of(code: PoolCode) -> Sizes:
    plan = code.plan
    inputs, outputs = math.prod(plan.shape), math.prod(plan.output_shape)
    return Sizes(
        inputs=inputs,
        outputs=outputs,
        input_bytes=inputs * ITEM_BYTES[plan.input],
        output_bytes=outputs * ITEM_BYTES[plan.result],
        kept_bytes=plan.residual_bytes if code.back is not None and code.back.winner else 0,
        operations=outputs * plan.cells,
        input_type=code.x,
        output_type=code.y,
        headers=code.cells.headers,
    )


def _about(pool: Pool, code: PoolCode, profile: str | None) -> list[str]:
    plan = code.plan
    lines = [f"{code.name}: {type(pool.kind).__name__} pooling", ""]
    lines += [f"    {line}" for line in code.cells.formula()]
    lines += ["", f"x        {shape_of(code.x, plan.shape)}", f"y        {shape_of(code.y, plan.output_shape)}"]
    lines += [f"axes     {', '.join(map(str, plan.axes))} of x are pooled", f"window   {plan.window!r}"]
    lines += [f"rounding as {profile} has it"] if profile else []
    return [*lines, f"results  {code.cells.accuracy()}"] if code.y == "float" else lines


# --- what cannot be written -----------------------------------------------------------------------


def planned(pool: Pool, shape: tuple[int, ...], dtype: str, profile: str | None) -> tuple[Plan, Pool]:
    """The plan of a pool that can be written in C, and the pool with the profile's rule; all else is refused here."""
    if dtype not in DTYPES:
        raise TypeError(f"dtype={dtype!r} is not written in C; give one of {', '.join(DTYPES)}")
    kind = type(pool.kind)
    if kind.engine not in FLOAT_KINDS or (kind.engine == "lp" and getattr(pool.kind, "p", 1) not in (1, 2)):
        raise TypeError(
            f"{pool.kind!r} is not written in C; the kinds that are: Max, Min, Avg, Sum, Lp(1), Lp(2), SmoothMax"
        )
    if kind.engine not in DTYPES[dtype]:
        raise TypeError(
            f"{pool.kind!r} of {dtype} is not written in C, since it is no integer; export it for float32, "
            "or one of Max, Min, Avg and Sum"
        )
    if pool.skip is not None:
        raise ValueError(
            f"skip={pool.skip!r} is not written in C; leave it out, and replace such cells before the pool"
        )
    if 0 in shape:
        raise ValueError(f"shape={shape} has no cells, and C has no arrays of none; give lengths of 1 or more")
    if profile is not None:
        pool = _by_profile(pool, shape, dtype, profile)
    plan = plan_of(pool, shape, dtype)
    if plan.result not in C_TYPES:
        raise TypeError(
            f"{pool.kind!r} of {dtype} gives {plan.result}, which small chips do not have; give it a rounding, "
            "such as Avg(rounding='half_even'), or a profile"
        )
    if plan.kind == "smooth_max" and not 1e-30 < abs(plan.parameter) < 1e30:
        raise ValueError(
            f"beta={plan.parameter!r} is too far from 1 for float32; give one from 1e-30 to 1e30 in magnitude"
        )
    return plan, pool


def _dtype_name(dtype: Any) -> str:
    try:
        return str(np.dtype(dtype).name)
    except TypeError:
        raise TypeError(f"dtype={dtype!r} is no dtype; give one of {', '.join(DTYPES)}") from None


def _by_profile(pool: Pool, shape: tuple[int, ...], dtype: str, name: str) -> Pool:
    """The pool with the rule of a runtime, if that is what the pool itself says as far as it says it."""
    if name not in PROFILES:
        raise ValueError(f"profile={name!r} is not known; give one of {', '.join(PROFILES)}")
    profile, kind = PROFILES[name], pool.kind
    if not isinstance(kind, Avg) or kind.divisor_override is not None:
        raise ValueError(
            f"profile={name!r} is a rule for Avg() of integers, and the kind is {kind!r}; leave profile out"
        )
    if dtype not in profile.dtypes:
        raise TypeError(
            f"profile={name!r} is for {' and '.join(profile.dtypes)}, and dtype={dtype!r}; give one of these"
        )
    if kind.rounding not in (None, profile.rounding):
        raise ValueError(
            f"profile={name!r} rounds {profile.rounding!r}, and {kind!r} says {kind.rounding!r}; leave one of the two "
            "out"
        )
    counted = Nest(plan_of(Pool(profile.kind(True), pool.window, pool.axes), shape, dtype)).pooled
    if profile.padding_counts is False and kind.count_include_pad and any(map(_pads, counted)):
        raise ValueError(
            f"profile={name!r} averages the real cells alone, and with {kind!r} padding would have to count; "
            "give count_include_pad=False (--no-count-include-pad), or no padding"
        )
    if profile.padding_counts and not kind.count_include_pad and any(level.varies for level in counted):
        raise ValueError(
            f"profile={name!r} divides by the whole kernel, and {kind!r} leaves padding out; "
            "give count_include_pad=True"
        )
    if profile.whole_kernel and any(level.count_varies for level in counted):
        raise ValueError(
            f"profile={name!r} divides by the whole kernel, also where a window reaches beyond the padding, and there "
            "no Avg does; pad by as much as ceil_mode reaches over, or take bins of one length"
        )
    return Pool(profile.kind(kind.count_include_pad), pool.window, pool.axes)


def _pads(level: Pooled) -> bool:
    """Whether a window has a padded cell that would count."""
    axis = level.axis
    end = (axis.output - 1) * axis.stride - axis.pad_lo + axis.dilation * (axis.kernel - 1)
    return not axis.adaptive and (axis.pad_lo > 0 or (axis.pad_hi > 0 and end >= axis.length))
