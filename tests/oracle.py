"""The definition once more, for arrays too large for the specification's loops: all windows gathered, then reduced.

Which cells a window sees comes from `spec` (one axis at a time), what they give is written here with NumPy in float64.
It is itself tested against the specification.
"""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np

from ndpool import Avg, Lp, Max, Min, Pool, SmoothMax, Sum, spec

#: The kinds that are written here.
GATHERED = (Max, Min, Sum, Avg, SmoothMax, Lp)


@lru_cache(maxsize=64)
def windows(pool, shape):
    """The outputs along each axis; and of all windows the flat places of their cells, which are real, and padding."""
    axes, _ = spec._pooled(pool, shape)
    order = spec._order(pool, shape)
    lines = [spec._line(pool.window, j, len(axes), shape[a]) for j, a in zip(order, axes, strict=True)]
    flat, real = np.zeros((1, 1), np.int64), np.ones((1, 1), bool)
    counted = np.ones((1,), np.int64)
    for line, axis in zip(lines, axes, strict=True):
        most = max(map(len, line))
        places = np.array([cells + [spec.PAD] * (most - len(cells)) for cells in line])
        flat = flat[:, None, :, None] * shape[axis] + places[None, :, None, :]
        real = real[:, None, :, None] & (places >= 0)[None, :, None, :]
        counted = (counted[:, None] * np.array([len(cells) for cells in line])[None, :]).ravel()
        flat = flat.reshape(flat.shape[0] * flat.shape[1], -1)
        real = real.reshape(flat.shape)
    return tuple(len(line) for line in lines), np.where(real, flat, 0), real, counted - real.sum(1)


class Gathered:
    """`pool` over the array `x`: its value, and its weights as a dense array beside the cells' places."""

    def __init__(self, pool, x):
        self.pool, self.x = pool, x
        self.axes, _ = spec._pooled(pool, x.shape)
        alike = Pool(Sum(), pool.window, pool.axes)  # which has the same windows, whatever the kind
        self.outputs, self.flat, self.real, self.pad = windows(alike, x.shape)
        moved = np.moveaxis(x, self.axes, range(-len(self.axes), 0))
        self.others = moved.shape[: x.ndim - len(self.axes)]
        self.matrix = moved.reshape(-1, int(np.prod([x.shape[a] for a in self.axes])))

    def cells(self, a=None):
        """(others, windows, cells) of an array of the input's shape."""
        matrix = self.matrix
        if a is not None:
            matrix = np.moveaxis(a, self.axes, range(-len(self.axes), 0)).reshape(self.matrix.shape)
        return matrix[:, self.flat]

    def output(self, y):
        """(others, windows) as the pool's output."""
        y = y.reshape(*self.others, *self.outputs)
        y = np.moveaxis(y, range(-len(self.axes), 0), self.axes)
        return y.reshape(self.pool.output_shape(self.x.shape))

    @cached_property
    def lead(self):
        """Which cells win: the NaNs, or else the largest ones."""
        x = self.cells()
        sign = 1 if isinstance(self.pool.kind, Max) else -1
        wide = x.astype(object) if x.dtype.itemsize == 8 and x.dtype.kind in "iu" else x.astype(np.float64)
        if wide.dtype == object:
            key = np.where(self.real, sign * wide, -(2**70))
            return (key == key.max(-1, keepdims=True)) & self.real
        nan = np.isnan(wide) & self.real
        key = np.where(self.real & ~nan, sign * wide, -np.inf)
        best = (key == key.max(-1, keepdims=True)) & self.real & ~nan
        return np.where(nan.any(-1, keepdims=True), nan, best)

    def value(self):
        kind, x = self.pool.kind, self.cells()
        if isinstance(kind, Max | Min):
            first = self.lead.argmax(-1)
            return self.output(np.take_along_axis(x, first[..., None], -1)[..., 0])
        if isinstance(kind, Sum | Avg):
            total = np.where(self.real, x.astype(np.float64), 0).sum(-1)
            return self.output(total / self._count())
        wide = np.where(self.real, x.astype(np.float64), 0)
        if isinstance(kind, Lp):
            size = np.where(self.real, np.abs(wide), 0)
            m = size.max(-1, keepdims=True)
            ratio = size / np.where(m == 0, 1, m)
            return self.output((m[..., 0]) * (ratio**kind.p).sum(-1) ** (1 / kind.p))
        terms, zeros, s = self._terms(wide)
        return self.output(np.log(terms.sum(-1) + zeros) / kind.beta + s)

    def _count(self):
        kind, real = self.pool.kind, self.real.sum(1)
        if isinstance(kind, Sum):
            return np.ones(len(real))
        pairs, which = np.unique(np.stack([real, self.pad]), axis=1, return_inverse=True)
        return np.array([kind.count(int(n), int(p)) for n, p in pairs.T], float)[which.ravel()]

    def _terms(self, wide):
        kind = self.pool.kind
        zeros = self.pad * (kind.count_include_pad is True)
        sign = np.sign(kind.beta)
        key = np.where(self.real, sign * wide, -np.inf).max(-1)
        key = np.where(zeros > 0, np.maximum(key, 0), key)
        s = sign * key
        terms = np.where(self.real, np.exp(kind.beta * np.where(self.real, wide - s[..., None], 0)), 0)
        return terms, zeros * np.exp(kind.beta * (0 - s)), s

    def winners(self):
        """The flat place of the first winner."""
        first = self.lead.argmax(-1)
        return self.output(self.flat[np.arange(len(self.flat)), first])

    @cached_property
    def weights(self):
        kind, x = self.pool.kind, self.cells()
        if isinstance(kind, Max | Min):
            lead = self.lead
            if kind.ties == "first":
                return np.arange(lead.shape[-1]) == lead.argmax(-1)[..., None]
            return lead / (lead.sum(-1, keepdims=True) if kind.ties == "split" else 1)
        if isinstance(kind, Sum | Avg):
            return np.broadcast_to(self.real / self._count()[:, None], x.shape)
        wide = np.where(self.real, x.astype(np.float64), 0)
        if isinstance(kind, SmoothMax):
            terms, zeros, _ = self._terms(wide)
            return terms / (terms.sum(-1) + zeros)[..., None]
        size = np.abs(wide)
        m = size.max(-1, keepdims=True)
        ratio = size / np.where(m == 0, 1, m)
        norm = (ratio**kind.p).sum(-1, keepdims=True) ** (1 / kind.p)
        return np.sign(wide) * np.where(m == 0, 0, (ratio / np.where(m == 0, 1, norm)) ** (kind.p - 1))

    def jvp(self, t):
        return self.output((self.weights * self.cells(t.astype(np.float64))).sum(-1))

    def vjp(self, g):
        moved = np.expand_dims(g, self.axes) if g.ndim < self.x.ndim else g
        moved = np.moveaxis(moved, self.axes, range(-len(self.axes), 0)).reshape(-1, len(self.flat))
        shares = self.weights * moved.astype(np.float64)[..., None]
        others, places = self.matrix.shape
        where = np.arange(others)[:, None, None] * places + self.flat
        gx = np.bincount(where.ravel(), shares.ravel(), others * places)
        gx = gx.reshape(*self.others, *(self.x.shape[a] for a in self.axes))
        return np.moveaxis(gx, range(-len(self.axes), 0), self.axes)
