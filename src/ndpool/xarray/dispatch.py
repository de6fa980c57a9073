"""What a `Pool` does when it is given an array of xarray: it pools by the names of dimensions, and coordinates follow.

`axes` may name dimensions. Along a pooled dimension, a coordinate
becomes the centre of each window:

    cells            0    1    2    3    4          a coordinate at the cells
    windows       (---------)                       kernel 3, stride 2, padding 1
                            (---------)
    centres            0         2         4        halfway between two cells, for windows of an even number

Beyond the ends, coordinates go on in the first and in the last step. Attributes stay, and so do the coordinates of
other dimensions. Coordinates of which there is no half, such as text, are dropped along pooled dimensions. Chunks of
Dask stay lazy.

>>> import xarray
>>> from ndpool import Max, Pool, Window
>>> x = xarray.DataArray([3.0, 1.0, 4.0, 1.0], [("time", [0, 10, 20, 30])], attrs={"units": "K"})
>>> y = Pool(Max(), Window(2), axes="time")(x)
>>> y.values, y.time.values, y.attrs
(array([3., 4.]), array([ 5., 25.]), {'units': 'K'})
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import xarray

from ..memory import Kept
from ..pool import Pool
from ..windows import Axis, Global, are_names

#: A dimension that is pooled, and its geometry.
Pooled = Mapping[Hashable, Axis]


#: Why `out` is refused.
NO_OUT = "an array of xarray, and is for NumPy arrays alone; leave it out"


def forward(pool: Pool, x: Any) -> Any:
    """`y`; of a Dataset, with every variable that has the pooled dimensions pooled."""
    if isinstance(x, xarray.Dataset):
        return _of_dataset(pool, x)
    found = _by_number(pool, x)
    return _labelled(found, x, found(x.data))


def with_indices(pool: Pool, x: Any) -> tuple[xarray.DataArray, xarray.DataArray]:
    """`y`, and the flat index over the pooled axes of the first winner in each window."""
    found = _by_number(pool, _array(x))
    y, indices = found.with_indices(x.data)
    return _labelled(found, x, y), _labelled(found, x, indices, keep_attributes=False)


def jvp(pool: Pool, x: Any, t: Any) -> tuple[xarray.DataArray, xarray.DataArray]:
    """`y`, and its change `dy` along `t`."""
    found = _by_number(pool, _array(x))
    y, dy = found.jvp(x.data, _like("t", t, x))
    return _labelled(found, x, y), _labelled(found, x, dy)


def linearize(pool: Pool, x: Any) -> tuple[xarray.DataArray, LabelledLinear]:
    """`y`, and the derivative at x."""
    found = _by_number(pool, _array(x))
    y, linear = found.linearize(x.data)
    labelled = _labelled(found, x, y)
    return labelled, LabelledLinear(found, x, labelled, linear)


class LabelledLinear:
    """The derivative J of a pool at x, and its transpose, on DataArrays."""

    def __init__(self, pool: Pool, x: xarray.DataArray, y: xarray.DataArray, linear: Any) -> None:
        self._pool, self._linear = pool, linear
        # Labels and no numbers: the input is kept only if the derivative needs it.
        self._x, self._y = _without_numbers(x), _without_numbers(y)

    @property
    def residual(self) -> Kept:
        """The arrays that are kept, without labels."""
        kept: Kept = self._linear.residual
        return kept

    def push(self, t: Any) -> xarray.DataArray:
        """`dy = J t`."""
        return self._y.copy(data=self._linear.push(_like("t", t, self._x)))

    def pull(self, g: Any, out: None = None) -> xarray.DataArray:
        """`gx = J^T g`."""
        if out is not None:
            raise TypeError("out is given beside a DataArray, and is for NumPy arrays alone; leave it out")
        return self._x.copy(data=self._linear.pull(_like("g", g, self._y)))

    def indices(self) -> xarray.DataArray:
        """Where each winner stands: its flat row-major index over the pooled axes."""
        return self._y.copy(data=self._linear.indices())


# --- dimensions -----------------------------------------------------------------------------------


def _array(x: Any) -> xarray.DataArray:
    if isinstance(x, xarray.DataArray):
        return x
    raise TypeError(
        f"x is a {type(x).__qualname__} of xarray, and this is for one array; give a DataArray, as x['...'] is"
    )


def _by_number(pool: Pool, x: Any) -> Pool:
    """The pool with numbers for the names of its axes."""
    _array(x)
    if not are_names(pool.axes):
        return pool
    for name in pool.axes or ():
        if name not in x.dims:
            raise ValueError(f"axes={pool.axes} names {name!r}, and x has the dimensions {x.dims}; name those of x")
    numbers = tuple(x.dims.index(name) for name in pool.axes or ())
    return Pool(pool.kind, pool.window, numbers, pool.skip, pool.min_count)


def _like(name: str, a: Any, x: xarray.DataArray) -> Any:
    """The numbers of a tangent or a cotangent, whose dimensions are in the order that x has them in."""
    if not isinstance(a, xarray.DataArray):
        return a
    if set(a.dims) != set(x.dims):
        raise ValueError(f"{name} has the dimensions {a.dims} and should have {x.dims}")
    return a.transpose(*x.dims).data


def _of_dataset(pool: Pool, x: xarray.Dataset) -> xarray.Dataset:
    if not are_names(pool.axes):
        raise TypeError("x is a Dataset, whose variables have their own orders of dimensions; give axes by their names")
    names: set[Any] = set(pool.axes or ())
    for name in names - set(x.dims):
        raise ValueError(f"axes={pool.axes} names {name!r}, and x has the dimensions {tuple(x.dims)}; name those of x")
    done: dict[Hashable, Any] = {}
    others: dict[Hashable, Any] = {}
    for key, variable in x.data_vars.items():
        here = names & set(variable.dims)
        if here and here != names:
            raise ValueError(
                f"the variable {key!r} has the dimensions {variable.dims}, and of axes={pool.axes} only "
                f"{tuple(sorted(here))}; pool it by itself, or drop it"
            )
        (done if here else others)[key] = variable
    if not done:
        raise ValueError(f"no variable of x has the dimensions axes={pool.axes}; name those of one")
    pooled = {key: forward(pool, variable) for key, variable in done.items()}
    # What is not pooled comes without the coordinates of those that are.
    kept = {
        key: variable.drop_vars([c for c in variable.coords if names & set(variable[c].dims)])
        for key, variable in others.items()
    }
    found = xarray.Dataset({key: (pooled | kept)[key] for key in x.data_vars}, attrs=x.attrs)
    return found


# --- labels ---------------------------------------------------------------------------------------


def _without_numbers(x: xarray.DataArray) -> xarray.DataArray:
    return x.copy(data=np.broadcast_to(np.zeros((), np.int8), x.shape))


def _labelled(pool: Pool, x: xarray.DataArray, y: Any, keep_attributes: bool = True) -> xarray.DataArray:
    """The numbers `y` with what x says of its own."""
    laid = pool._layout(x.shape)
    pooled: Pooled = {x.dims[d]: axis for d, axis in zip(laid.axes, laid.geometry, strict=True)}
    drops = isinstance(pool.window, Global) and not pool.window.keepdims
    dims = [dim for dim in x.dims if not drops or dim not in pooled]
    coords = {}
    for name, coord in x.coords.items():
        variable = coord.variable
        if not set(variable.dims) & set(pooled):
            coords[name] = variable
        elif not drops and _has_halves(variable):
            coords[name] = _centred(variable, pooled)
    return xarray.DataArray(y, coords, dims, x.name, x.attrs if keep_attributes else None)


def _has_halves(variable: xarray.Variable) -> bool:
    """Whether there is something halfway between two entries: numbers, times, and the times of other calendars."""
    if variable.dtype.kind == "O":
        first = variable.values.flat[0] if variable.size else None
        return hasattr(first, "calendar")
    return variable.dtype.kind in "iufmM"


def _centred(variable: xarray.Variable, pooled: Pooled) -> xarray.Variable:
    """A coordinate at the centres of the windows."""
    found = variable.to_base_variable()
    for dim in variable.dims:
        if dim in pooled:
            found = _along(found, dim, pooled[dim])
    return found


def _along(variable: xarray.Variable, dim: Hashable, axis: Axis) -> xarray.Variable:
    twice = twice_centres(axis)
    last = max(axis.length - 1, 0)
    low = np.clip(twice // 2, 0, max(last - 1, 0))
    high = np.minimum(low + 1, last)
    share = twice / 2 - low
    at = variable.isel({dim: low})
    if not share.any():
        return at
    then, shares = variable.isel({dim: high}), xarray.Variable((dim,), share).set_dims(at.sizes)
    if variable.dtype.kind == "O":  # Python's times, whose differences xarray would make NumPy's
        between = at.values + (then.values - at.values) * shares.values
    else:
        step = (then.data - at.data) * shares.data
        between = at.data + (step.astype("m8") if variable.dtype.kind in "mM" else step)
    return xarray.Variable(at.dims, between, variable.attrs)


def twice_centres(axis: Axis) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Twice the place of the centre of each window, in cells: whole, as a centre lies on a cell or halfway.

    >>> twice_centres(Axis(length=6, output=3, kernel=2, stride=2))
    array([1, 5, 9])
    """
    outputs = np.arange(axis.output)
    if axis.adaptive:
        ends = -(-(outputs + 1) * axis.length // axis.output)
        return outputs * axis.length // axis.output + ends - 1
    return 2 * (outputs * axis.stride - axis.pad_lo) + axis.dilation * (axis.kernel - 1)
