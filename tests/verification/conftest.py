"""The suite that needs z3-solver, python-flint and SciPy: `make test-verified`. A plain `make test` does not come here.

It draws the same examples each time. `NDPOOL_HUNT=1000` draws as many others, to look for what these do not find.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

HUNT = int(os.environ.get("NDPOOL_HUNT", "0"))

settings.register_profile(
    "verified",
    derandomize=not HUNT,
    database=None,
    deadline=None,
    max_examples=HUNT or 60,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("verified")
