"""Launches of kernels, prepared once: what changes from call to call are the tensors alone.

Triton looks at every argument of every call, to find the kernel that was compiled for its like. Here the numbers are
the same each time. Of a tensor matter its dtype, which is the plan's, and whether it starts at a multiple of 16 bytes.
So the compiled kernel is kept and, where all tensors start so, launched with nothing looked at.

While PyTorch's compiler traces, a launch is a node of its graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.library import wrap_triton

#: Tensors that start at a multiple of so many bytes are read and written in whole vectors.
ALIGNED = 16


#: How many modes there are: who traces PyTorch's operators has one.
_modes = torch._C._len_torch_dispatch_stack


class Launch:
    """A kernel with its grid, the names of its tensors, its numbers and its constants."""

    __slots__ = ("compiled", "constants", "grid", "kernel", "numbers", "tensors", "warps")

    def __init__(
        self,
        kernel: Any,
        grid: tuple[int, int, int],
        tensors: Sequence[str],
        numbers: Sequence[int],
        constants: dict[str, Any],
        warps: int,
    ) -> None:
        self.kernel, self.grid, self.tensors, self.warps = kernel, grid, tuple(tensors), warps
        self.numbers, self.constants = tuple(numbers), constants
        #: What Triton compiled for each device.
        self.compiled: dict[int, Any] = {}

    def run(self, given: dict[str, Tensor], device: int | None) -> None:
        """On a device, or where there is None in Triton's interpreter."""
        tensors = [given[name] for name in self.tensors]
        if device is None:
            self.kernel[self.grid](*tensors, *self.numbers, **self.constants)
            return
        addresses = [a.data_ptr() for a in tensors]
        aligned = not any(address % ALIGNED for address in addresses)
        if aligned and device in self.compiled:
            run, function, metadata, rest = self.compiled[device]
            stream = torch._C._cuda_getCurrentRawStream(device)
            run(*self.grid, stream, function, metadata, None, None, None, *addresses, *rest)
            return
        made = self.kernel[self.grid](*tensors, *self.numbers, **self.constants, num_warps=self.warps)
        if aligned:
            names = self.kernel.arg_names[len(tensors) + len(self.numbers) :]
            rest = (*self.numbers, *(self.constants[name] for name in names))
            self.compiled[device] = made.run, made.function, made.packed_metadata, rest

    def trace(self, given: dict[str, Tensor]) -> None:
        """The launch as a node of the graph in the making."""
        tensors = [given[name] for name in self.tensors]
        wrap_triton(self.kernel)[self.grid](*tensors, *self.numbers, **self.constants, num_warps=self.warps)


class Recipe:
    """Launches one after the other, and the room that they need between them, by name: a length and a dtype."""

    __slots__ = ("launches", "rooms")

    def __init__(self, launches: Sequence[Launch], rooms: dict[str, tuple[int, torch.dtype]]) -> None:
        self.launches, self.rooms = tuple(launches), rooms

    def run(self, **given: Tensor) -> None:
        """On the device of the tensors, and on its current stream."""
        some = next(iter(given.values()))
        if not some.is_cuda or _modes():  # Triton's interpreter, or someone who traces
            self._run(given, some.device, None)
        elif some.get_device() == torch.cuda.current_device():
            self._run(given, some.device, some.get_device())
        else:
            with torch.cuda.device(some.device):
                self._run(given, some.device, some.get_device())

    def _run(self, given: dict[str, Tensor], device: torch.device, number: int | None) -> None:
        for name, (length, dtype) in self.rooms.items():
            given[name] = torch.empty(length, dtype=dtype, device=device)
        for launch in self.launches:
            if number is None and device.type == "cuda":
                launch.trace(given)
            else:
                launch.run(given, number)
