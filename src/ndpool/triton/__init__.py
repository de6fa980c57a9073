"""The engine for GPUs, in Triton: what a plan does to tensors that lie on one.

It has the operations of `ndpool.native`, on dense tensors in the plan's order of axes. Nothing is added in an order
that depends on who is first, so every result is the same to the bit, every time.
"""

from __future__ import annotations

from .engine import TensorPlan, forward, indices, jvp, linearize, pull, push
from .engine import work_of as engine_plan

__all__ = ["TensorPlan", "engine_plan", "forward", "indices", "jvp", "linearize", "pull", "push"]
