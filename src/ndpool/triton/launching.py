"""Launches of kernels, prepared once: what changes from call to call are the tensors alone.

Triton looks at every argument of every call, to find the kernel that was compiled for its like. Here the numbers are
the same each time. Of a tensor matter its dtype, which is the plan's, and whether it starts at a multiple of 16 bytes.
So the compiled kernel is kept, its arguments are laid out, and the driver launches it with nothing looked at.

While PyTorch's compiler traces, a launch is a node of its graph.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.library import wrap_triton

from .._engine import KernelLaunch

#: Tensors that start at a multiple of so many bytes are read and written in whole vectors.
ALIGNED = 16

#: The sizes of a kernel's numbers. What is a constant is not handed over.
_BYTES = {"i32": 4, "i64": 8, "u64": 8}

#: What a kernel may need beside its arguments. These kernels do not, as long as no tool asks for it.
_MORE = ("global_scratch_size", "profile_scratch_size", "launch_cooperative_grid")

#: The cards whose kernels can be brought there while the one before is at work: from Hopper on.
_CHAINS = (9, 0)

#: How many there are who trace PyTorch's operators, or look at them.
tracers = torch._C._len_torch_dispatch_stack


@cache
def _launcher() -> int:
    """The address of the driver's function that launches a kernel; 0 where there is none."""
    try:
        launch = ctypes.CDLL("libcuda.so.1").cuLaunchKernelEx
    except (OSError, AttributeError):  # of which the latter is a driver from before 2022
        return 0
    return ctypes.cast(launch, ctypes.c_void_p).value or 0


@cache
def _can_chain(device: int) -> bool:
    return torch.version.hip is None and torch.cuda.get_device_capability(device) >= _CHAINS


class Launch:
    """A kernel with its grid, the names of its tensors, its numbers and its constants."""

    __slots__ = ("constants", "grid", "kernel", "numbers", "tensors", "warps")

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

    def run(self, given: dict[str, Tensor]) -> None:
        """In Triton's interpreter."""
        self._run(given, self.constants)

    def compiled(self, given: dict[str, Tensor], chained: bool, follows: bool) -> Any:
        """By Triton, which gives the compiled kernel: alone, or chained to others, of which it may follow one at once.

        A kernel that does not know how to wait is launched when the one before is done.
        """
        if "CHAINED" not in self.constants:
            return self._run(given, self.constants, num_warps=self.warps)
        constants = {**self.constants, "CHAINED": chained}
        return self._run(given, constants, num_warps=self.warps, **({"launch_pdl": True} if follows else {}))

    def _run(self, given: dict[str, Tensor], constants: dict[str, Any], **options: Any) -> Any:
        tensors = [given[name] for name in self.tensors]
        return self.kernel[self.grid](*tensors, *self.numbers, **constants, **options)

    def trace(self, given: dict[str, Tensor]) -> None:
        """The launch as a node of the graph in the making."""
        tensors = [given[name] for name in self.tensors]
        wrap_triton(self.kernel)[self.grid](*tensors, *self.numbers, **self.constants, num_warps=self.warps)

    def prepared(self, made: Any, names: Sequence[str]) -> KernelLaunch | None:
        """What the driver needs to launch the compiled kernel on tensors of these names; None if it needs more."""
        about = made.metadata
        if any(getattr(about, more, 0) for more in _MORE) or about.num_ctas > 1 or not _launcher():
            return None
        types = [made.src.signature[name] for name in self.kernel.arg_names[len(self.tensors) :]]
        numbers = [(n, _BYTES[of]) for n, of in zip(self.numbers, types, strict=False) if of != "constexpr"]
        places = [names.index(name) for name in self.tensors]
        threads, follows = 32 * about.num_warps, bool(getattr(about, "launch_pdl", False))
        return KernelLaunch(_launcher(), made.function, self.grid, threads, about.shared, places, numbers, follows)


class Recipe:
    """Launches one after the other, and the room that they need between them, by name: a length and a dtype."""

    __slots__ = ("launches", "names", "ready", "rooms")

    def __init__(self, launches: Sequence[Launch], rooms: dict[str, tuple[int, torch.dtype]]) -> None:
        self.launches, self.rooms = tuple(launches), rooms
        #: The tensors that are given.
        self.names = tuple(sorted({name for launch in self.launches for name in launch.tensors} - set(rooms)))
        #: For each device, the launches as its driver takes them, and the kernels that these are of.
        self.ready: dict[int, tuple[list[KernelLaunch], Sequence[Any]]] = {}

    def run(self, **given: Tensor) -> None:
        """On the device of the tensors, and on its current stream."""
        some = next(iter(given.values()))
        eager = some.is_cuda and not tracers()
        if eager and self.run_again(some, [given[name].data_ptr() for name in self.names]):
            return
        for name, (length, dtype) in self.rooms.items():
            given[name] = torch.empty(length, dtype=dtype, device=some.device)
        if eager:
            chained = len(self.launches) > 1 and _can_chain(some.get_device())
            with torch.cuda.device(some.device):
                made = [launch.compiled(given, chained, chained and i > 0) for i, launch in enumerate(self.launches)]
            self._prepare(made, given, some.get_device())
            return
        for launch in self.launches:
            if some.is_cuda:
                launch.trace(given)
            else:
                launch.run(given)

    def _prepare(self, made: Sequence[Any], given: dict[str, Tensor], device: int) -> None:
        """Keeps what Triton has compiled, if that was for tensors that start at multiples of 16 bytes."""
        if device in self.ready or any(a.data_ptr() % ALIGNED for a in given.values()):
            return
        names = (*self.names, *self.rooms)
        ready = [launch.prepared(kernel, names) for launch, kernel in zip(self.launches, made, strict=True)]
        if None not in ready:
            self.ready[device] = ready, made  # type: ignore[assignment]

    def run_again(self, like: Tensor, addresses: list[int]) -> bool:
        """The same by the driver, given the addresses of the tensors of `names`; whether that can be is the answer.

        It cannot before the kernels are compiled for the current device, nor for tensors that start within a vector.
        """
        device = like.get_device()
        ready = self.ready.get(device)
        if ready is None or device != torch._C._cuda_getDevice():
            return False
        if self.rooms:
            rooms = [torch.empty(length, dtype=dtype, device=like.device) for length, dtype in self.rooms.values()]
            addresses += [room.data_ptr() for room in rooms]
        stream = torch._C._cuda_getCurrentRawStream(device)
        return not any(launch.run(stream, addresses) for launch in ready[0])
