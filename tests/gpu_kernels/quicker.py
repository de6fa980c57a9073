"""Triton's interpreter, several times as fast: what kernels compute is the same.

It has no settings for these, so its own functions are replaced, where it still has those that are known here.
"""

from __future__ import annotations

from triton.runtime import interpreter as triton_interpreter


def interpreter():
    """The interpreter as kernels are tested in it."""
    if hasattr(triton_interpreter, "_patch_lang"):
        _patch_once_a_kernel(triton_interpreter._patch_lang)
    if hasattr(getattr(triton_interpreter, "ReduceOps", None), "generic_reduce"):
        triton_interpreter.ReduceOps.generic_reduce = _reduced_in_pairs(triton_interpreter.ReduceOps.generic_reduce)


def _patch_once_a_kernel(patch):
    """The language is patched for a kernel, and not for each function that it calls: once for each of their modules."""
    done = set()

    def patch_once(function):
        module = id(function.__globals__)
        if module in done:
            return None  # only a kernel's own patches are taken back, and it is the first
        is_kernel, scope = not done, patch(function)
        done.add(module)
        if is_kernel and scope is not None:
            restore = scope.restore

            def restore_all():
                done.clear()
                restore()

            scope.restore = restore_all
        return scope

    triton_interpreter._patch_lang = patch_once


def _reduced_in_pairs(one_by_one):
    """Neighbours are joined in pairs, then these, as on a card: whole arrays at a time, and not two numbers."""

    def reduced(self, tensors):
        axis = self.axis
        if axis is None or any(n & (n - 1) for n in tensors[0].shape):
            return one_by_one(self, tensors)
        before, tensors = (slice(None),) * axis, tuple(tensors)
        while tensors[0].handle.data.shape[axis] > 1:
            halves = [
                self.to_tensor(each.handle.data[(*before, slice(first, None, 2))], each.dtype)
                for first in (0, 1)
                for each in tensors
            ]
            made = self.combine_fn.fn(*halves)
            tensors = made if isinstance(made, tuple) else (made,)
        if self.keep_dims:
            return list(tensors)
        return [self.to_tensor(each.handle.data.squeeze(axis), each.dtype) for each in tensors]

    return reduced
