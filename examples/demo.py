"""The main job in one run: pool, both derivatives, and a proof of each in exact arithmetic."""

from __future__ import annotations

import numpy as np

from ndpool import Avg, Lp, Max, Min, Pool, SmoothMax, Sum, Window, spec

rng = np.random.default_rng(0)
x = rng.integers(-4, 5, (2, 6, 6)) / 2
window = Window((3, 3), stride=2, padding=1)

print(f"x: two channels of 6 x 6, the first of them\n{x[0]}\n\nover {window}\n")
print(f"{'kind':58} {'first output':>12}  {'<Jt,g> - <t,JTg>':>18}")
for kind in [Max(), Max("split"), Max("all"), Min(), Avg(), Avg(count_include_pad=False), Sum(), SmoothMax(2.0), Lp(2)]:
    pool = Pool(kind, window)
    t, g = rng.integers(-9, 9, x.shape), rng.integers(-9, 9, pool.output_shape(x.shape))
    if isinstance(kind, SmoothMax | Lp):
        (_, dy), gx = pool.jvp(x, t), pool.vjp(x)[1](g)
    else:
        (_, dy), gx = spec.exact(pool, x, t=t), spec.exact(pool, x, g=g)
    defect = (dy * g).sum() - (t * gx).sum()
    shown = f"{defect:18.1e}" if isinstance(defect, float) else f"{defect!s:>9}, exactly"
    print(f"{kind!r:58} {pool(x)[0, 0, 0]:12.6f}  {shown}")

y, pullback = Pool(Max("split"), window).vjp(x)
print(f"\nMax, ties split: y[0] =\n{y[0]}\nwhere a cotangent of ones goes, gx[0] =\n{pullback(np.ones_like(y))[0]}")
