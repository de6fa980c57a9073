"""Proofs for all inputs: claims about a pool that hold for every real number, or a window that refutes them.

    from ndpool.prove import prove
    for finding in prove(Pool(Max("split"), Window((2, 2)))):
        print(finding)

The specification's own `value`, `weights`, `jvp` and `vjp` are run on symbols. At each comparison the run forks, and
Z3, a solver, shows each claim on each path, or finds numbers that refute it. SmoothMax and Lp are not rational: they
are run on balls, intervals with outward rounding (Arb, by python-flint), over a box that is cut until each part shows
the claim. What is proved is the specification over the reals. Floats and the engine are tested against it, not proved.

Both libraries are installed by the extra `prove`.
"""

from ..published import publish
from .findings import Finding as Finding
from .proving import CLAIMS as CLAIMS
from .proving import prove as prove
from .proving import table as table

__all__ = ["CLAIMS", "Finding", "prove", "table"]

publish(__name__)
