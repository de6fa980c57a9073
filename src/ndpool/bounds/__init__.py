"""Bounds: what a pool, or a network of pools, can give for all inputs of a box.

    intervals     lo <= x <= hi  ->  ylo <= pool(x) <= yhi         `pool.bounds(lo, hi)`
    relaxations   lower(x) <= pool(x) <= upper(x), both affine     `pool.linear_bounds(lo, hi)`
    lipschitz     |pool(x) - pool(z)| <= k |x - z|                 `pool.lipschitz(shape, norm)`
    networks      the first two through a graph of ops             `program.bounds(lo, hi, method)`
    certificates  no input within eps of x has another label       `program.certify(x, eps, label)`

Everything is rounded outward, so that the bounds hold for the real numbers; `rounding.py` says why, kind by kind.
"""

from ..published import publish
from .affine import Affine as Affine
from .certificates import Certificate as Certificate
from .lipschitz import Lipschitz as Lipschitz

__all__ = ["Affine", "Certificate", "Lipschitz"]

publish(__name__)
