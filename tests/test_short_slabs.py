"""Slabs of few cells, many of which are transposed together, and their results back: each of them, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from ndpool import Max, Pool, Window
from ways import forward_by, vjp_by, ways, winners_by

SLABS = (1, 3, 8, 15, 16, 17, 33, 63, 64, 65, 130)


@pytest.mark.parametrize("cells", range(1, 20))
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64"])
def test_every_slab_by_every_way(dtype, cells):
    rng = np.random.default_rng(cells)
    pool = Pool(Max(), Window((min(2, cells),), 1))
    for slabs in SLABS:
        x = rng.integers(0, 200, (slabs, cells)).astype(dtype)
        pairs = np.stack([x[:, :-1], x[:, 1:]]) if cells > 1 else x[None]
        for way in ways(pool, x, "forward"):
            np.testing.assert_array_equal(forward_by(pool, x, way, offset=1), pairs.max(0), err_msg=way)
        for way in ways(pool, x, "linearize"):
            y, winners = winners_by(pool, x, way, offset=1)
            np.testing.assert_array_equal(y, pairs.max(0), err_msg=way)
            np.testing.assert_array_equal(winners, pairs.argmax(0), err_msg=way)
        g = rng.integers(1, 9, y.shape).astype(np.float64)
        expected = np.zeros(x.shape)
        for place in range(len(pairs)):
            expected[:, place : place + y.shape[1]] += np.where(winners == place, g, 0)
        for way in ways(pool, x, "pull"):
            np.testing.assert_array_equal(vjp_by(pool, x, g, way, offset=1), expected, err_msg=way)
