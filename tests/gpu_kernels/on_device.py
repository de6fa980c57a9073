"""A plan on arrays, computed by the engine for GPUs: what the tests compare with the specification."""

from __future__ import annotations

import os

import numpy as np
import torch

import ndpool.triton as gpu
from hostile import BFLOAT16
from ndpool import native
from ndpool.plan import COMPUTED_AS, plan_of

DEVICE = os.environ.get("NDPOOL_TEST_DEVICE", "cpu")


def dtype_of(name):
    return BFLOAT16 if name == "bfloat16" else np.dtype(name)


def to_tensor(a):
    """The array on the device, bit for bit; bools as bytes."""
    a = np.ascontiguousarray(a)
    if a.dtype == BFLOAT16:
        return torch.from_numpy(a.view(np.int16)).view(torch.bfloat16).to(DEVICE)
    return torch.from_numpy(a.view(np.uint8) if a.dtype == bool else a).to(DEVICE)


def to_array(a):
    a = a.cpu()
    return a.view(torch.int16).numpy().view(BFLOAT16) if a.dtype == torch.bfloat16 else a.numpy()


class OnDevice:
    """The operations of a pool over an array, whose axes may lie in any order."""

    def __init__(self, pool, x, order=None):
        self.plan = plan_of(pool, x.shape, x.dtype.name, order)
        self.x = self.inside(x.astype(dtype_of(self.plan.dtype)) if x.dtype != bool else x)
        self.derivative = dtype_of(self.plan.derivative)

    @property
    def has_order_for_winners(self):
        return self.plan.finds_first or not self.plan.residual.winners

    def inside(self, a):
        """An array shaped like x as the engine reads it."""
        return to_tensor(a.transpose(self.plan.places))

    def cotangent(self, g):
        plan = self.plan
        kept = np.asarray(g).reshape([plan.kept_shape[plan.places.index(d)] for d in range(len(plan.shape))])
        return to_tensor(kept.transpose(plan.places))

    def room(self, dtype):
        name = COMPUTED_AS.get(dtype, dtype)
        return torch.empty(self.plan.kept_shape, dtype=getattr(torch, name), device=DEVICE)

    def outside(self, a, dtype):
        """A result shaped like y, as the caller sees it."""
        found = to_array(a).transpose(np.argsort(self.plan.places)).reshape(self.plan.output_shape)
        return found.view(bool) if dtype == "bool" else found

    def forward(self):
        y = self.room(self.plan.result)
        gpu.forward(self.plan, self.x, y)
        return self.outside(y, self.plan.result)

    def linearize(self):
        """Y, and the winners where the plan has them."""
        y, places = self.room(self.plan.result), self.plan.residual.winners
        self.winners = self.room(f"uint{8 * places}") if places else None
        gpu.linearize(self.plan, self.x, y, self.winners)
        self.y = y
        return self.outside(y, self.plan.result)

    def indices(self):
        found = self.room("int64")
        gpu.indices(self.plan, self.winners, found)
        return self.outside(found, "int64")

    def jvp(self, t):
        y, dy = self.room(self.plan.result), self.room(self.plan.derivative)
        gpu.jvp(self.plan, self.x, self.inside(t), y, dy)
        return self.outside(y, self.plan.result), self.outside(dy, self.plan.derivative)

    @property
    def kept(self):
        residual = self.plan.residual
        return self.x if residual.x else None, self.y if residual.y else None, self.winners

    def push(self, t):
        dy = self.room(self.plan.derivative)
        gpu.push(self.plan, self.kept, self.inside(t), dy)
        return self.outside(dy, self.plan.derivative)

    def pull(self, g):
        gx = torch.empty_like(self.x, dtype=getattr(torch, self.plan.derivative))
        gpu.pull(self.plan, self.kept, self.cotangent(g), gx)
        return to_array(gx).transpose(np.argsort(self.plan.places))

    def everything(self, t, g):
        """All results, by name."""
        found = {"forward": self.forward(), "y": self.linearize()}
        if self.plan.residual.winners:
            found["winners"], found["indices"] = self.outside(self.winners, "uint8"), self.indices()
        if t is not None:
            _, found["jvp"] = self.jvp(t)
            found["push"], found["pull"] = self.push(t), self.pull(g)
        return found


def native_winners(pool, x):
    """The winners that the native engine finds."""
    plan = plan_of(pool, x.shape, x.dtype.name)
    y = np.empty(plan.output_shape, dtype_of(plan.result))
    winners = np.empty(plan.output_shape, f"u{plan.residual.winners}")
    native.linearize(plan, np.ascontiguousarray(x), y, winners)
    return winners
