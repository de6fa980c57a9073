from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")

def are_same(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    """Whether two tuples have the same objects in them."""

def levels() -> list[str]:
    """The instruction levels of this processor, the best one last."""

def level() -> str:
    """The instruction level in use."""

def set_level(name: str) -> None:
    """Use another instruction level."""

def get_num_threads() -> int:
    """How many threads a call may use."""

def set_num_threads(n: int) -> None:
    """Let a call use n threads."""

def xla_handlers() -> dict[str, Any]:
    """What XLA calls for each operation of a plan, as capsules."""

class Plan:
    """A kind over a window over a shape, for one dtype: its operations on memory.

    All that it is given was decided by the caller. It is checked, and nothing of it is derived here. `dims` has one
    list for each dimension in the order in which they lie in memory: `[length]` for one that is carried along, and
    `[length, output, kernel, stride, dilation, pad_lo, pad_hi, adaptive]` for one that is pooled. `winner_bytes` is 0
    where the derivative keeps no winners. `skip` has the bits of a skipped cell in x, those of an output that sees too
    few other cells, and how many it needs. `pooled` numbers the pooled dimensions in the order of the caller's axes.

    An array is a buffer, or a tensor: whatever has `data_ptr()` and `nbytes`. Its size is checked. That a tensor is
    dense in the order of `dims`, and of the right dtype, is for the caller to know. An x, t, g, y or gx need not be
    dense, but for the t of a push by winners: a buffer may have strides, and a tensor comes as a tuple `(tensor,
    lengths, strides)` then, in elements and in the order of `dims`.

    `threads` holds for one call; 0 is the number that `set_num_threads` set. `path` is "" for the engine's own
    choice, or one of `paths(operation)`; with "+stream" behind it, or "stream" alone, results are written past the
    caches.
    """

    def __init__(
        self,
        dims: Sequence[Sequence[int]],
        kind: str,
        option: str,
        parameter: float,
        dtype: str,
        result: str,
        derivative: str,
        winner_bytes: int,
        skip: tuple[int, int, int] | None = None,
        pooled: Sequence[int] = (),
    ) -> None: ...
    def forward(self, x: Any, y: Any, *, threads: int = 0, path: str = "") -> None:
        """Write y."""

    def linearize(self, x: Any, y: Any, winners: Any | None, *, threads: int = 0, path: str = "") -> None:
        """Write y and, where the derivative keeps them, the winners; else `winners` is None."""

    def push(
        self,
        x: Any | None,
        y: Any | None,
        winners: Any | None,
        t: Any,
        dy: Any,
        *,
        threads: int = 0,
        path: str = "",
    ) -> None:
        """Write dy = J t, from the arrays that the derivative keeps; the others may be None and are not looked at."""

    def pull(
        self,
        x: Any | None,
        y: Any | None,
        winners: Any | None,
        g: Any,
        gx: Any,
        *,
        threads: int = 0,
        path: str = "",
    ) -> None:
        """Write gx = J^T g, likewise."""

    def jvp(self, x: Any, t: Any, y: Any, dy: Any, *, threads: int = 0, path: str = "") -> None:
        """Write y and dy = J t, in one go."""

    def indices(self, winners: Any, indices: Any, *, threads: int = 0) -> None:
        """Write each winner's flat row-major index over the pooled axes."""

    def path(self, operation: str) -> str:
        """The way that "forward", "linearize", "push", "pull" or "jvp" goes."""

    def paths(self, operation: str) -> list[str]:
        """All ways that it can go, its own choice first."""

class ArrayPlan:
    """A plan for small arrays of NumPy, which makes those that it returns, unless it is given one to write to.

    The shapes are those in memory, and `order` has the axes as they lie there; it is empty where that is the usual
    order. The answer is None where an array is not aligned, and of just this type, shape and dtype; where `x` neither
    lies in that order, with gaps or without, nor has the `strides`; or where `out` cannot be written, or lies over an
    array that is read. An `out` without the pooled axes has to be dense.
    """

    def __init__(
        self,
        plan: Plan,
        array: type,
        shape: tuple[int, ...],
        y_shape: tuple[int, ...],
        order: Sequence[int],
        dtype: Any,
        result: Any,
        derivative: Any,
        place: Any,
        strides: tuple[int, ...] = (),
    ) -> None: ...
    def forward(self, x: Any, out: Any | None) -> Any | None: ...
    def linearize(self, x: Any) -> tuple[Any, tuple[Any | None, Any | None, Any | None]] | None:
        """Give y, and the x, the copy of y and the winners that the derivative keeps, with None for the others.

        What is kept has its axes as they lie in memory.
        """

    def pull(self, x: Any | None, y: Any | None, winners: Any | None, g: Any, out: Any | None) -> Any | None: ...

def large_array(shape: tuple[int, ...], dtype: Any) -> Any:
    """A new array at a whole line of the cache, in memory that is kept for the next one of its size."""

class QuickPool:
    """The base of a class whose calls on small arrays take no word of Python.

    An object's `_latest` has the plan of the array before as its `quick`, or is None.
    """

def call_quickly(of: type[T]) -> type[T]:
    """Make calls of the class quick: one alone, whose base is QuickPool."""

def answer_quickly(pool: QuickPool) -> None:
    """Let the engine answer calls of this pool."""

class TensorPlan:
    """A plan for tensors of one size and order in memory, which makes those that it returns.

    `strides` are those of the results, and `order` has the axes as they lie in memory. The answer is None where a
    tensor is not of just this type, size and dtype, on the CPU, and where there is no memory for a result. `x` and, if
    it has as many axes, `g` may have any strides.
    """

    def __init__(
        self,
        plan: Plan,
        tensor: type,
        size: Sequence[int],
        strides: Sequence[int],
        y_size: Sequence[int],
        y_strides: Sequence[int],
        dtype: str,
        result: str,
        order: Sequence[int],
    ) -> None: ...
    def takes(self, x: Any) -> bool:
        """Whether this is such a tensor, and lies in that order, with gaps or without."""

    def forward(self, x: Any, threads: int = 0) -> Any | None: ...
    def linearize(self, x: Any, threads: int = 0) -> tuple[Any, Any | None] | None:
        """Give y and the winners; these are None where the derivative keeps none."""

    def pull(self, x: Any | None, y: Any | None, winners: Any | None, g: Any, threads: int = 0) -> Any | None: ...

class CudaTensors:
    """Dense tensors of one layout on CUDA."""

    def __init__(self, tensor: type, size: Sequence[int], strides: Sequence[int], dtype: str) -> None: ...
    def address(self, x: Any) -> int:
        """Where its numbers begin; 0 where it is not of just this type, size, strides and dtype."""

class KernelLaunch:
    """A compiled kernel of a GPU with all of its arguments but addresses.

    `launcher` is the address of the driver's cuLaunchKernelEx, and `function` the kernel's handle. `tensors` says which
    of the addresses that `run` is given are the kernel's. `numbers` come after them, each with its size in bytes. A
    kernel that `follows` is brought to the card while the one before it in the stream is still at work.
    """

    def __init__(
        self,
        launcher: int,
        function: int,
        grid: tuple[int, int, int],
        threads: int,
        shared: int,
        tensors: Sequence[int],
        numbers: Sequence[tuple[int, int]],
        follows: bool = False,
    ) -> None: ...
    def run(self, stream: int, addresses: list[int]) -> int:
        """Launch on a stream. The answer is the driver's, 0 for success; -1 if a tensor starts at no multiple of 16."""

class BoxedPool:
    """A plan over boxes: its results at both ends, rounded outward. The arguments are those of Plan."""

    def __init__(
        self,
        dims: Sequence[Sequence[int]],
        kind: str,
        option: str,
        parameter: float,
        dtype: str,
        result: str,
        derivative: str,
        winner_bytes: int,
        skip: tuple[int, int, int] | None = None,
        pooled: Sequence[int] = (),
    ) -> None: ...
    def slabs_of_piece(self) -> int:
        """How many slabs, along the dimensions before the pooled ones, are worked on at a time."""

    def bounds(
        self,
        lo: Any,
        hi: Any,
        ylo: Any,
        yhi: Any,
        error: tuple[str, float, float, float, float, float] | None,
        *,
        threads: int = 0,
    ) -> list[int] | None:
        """Write ylo and yhi; None where `lo <= hi` does not hold everywhere, and else the pieces that are wrong.

        These have an end or an output that is not finite. `error` is whose largest magnitude it depends on ("none",
        "piece" or "window"), and its numbers r, p, f, c and l: y is moved by `r |y| + (p size + f) c + l`. None is for
        results that are not rounded.
        """

class BoxWindows:
    """The windows of a pool over matrices of (rows, cells), one a lane of the engine's registers.

    `places` and `real` have the cells of each window, [cells of a window][windows]; outputs lie in lines of so many.
    """

    def __init__(self, places: Any, real: Any, windows: int, rows: int, cells: int, line: int, lanes: int) -> None: ...
    def select(
        self,
        lo: Any,
        hi: Any,
        dtype: str,
        below: Any,
        above: Any,
        place_bytes: int,
        slope: Any,
        bias: Any,
        *,
        minimum: bool,
        by_lo: bool,
        constant: bool,
        threads: int = 0,
    ) -> bool:
        """Write the place of the cell below a maximum, and the place, slope and bias of the line above it.

        False where `lo <= hi` does not hold everywhere.
        """

    def relax(
        self,
        kind: str,
        lo: Any,
        hi: Any,
        dtype: str,
        parameter: float,
        below_slopes: Any,
        below_bias: Any,
        above_slopes: Any,
        above_bias: Any,
        *,
        minimum: bool,
        by_lo: bool = False,
        at: Any | None = None,
        weights: Any | None = None,
        zeros: Any | None = None,
        check: bool,
        threads: int = 0,
    ) -> bool | None:
        """Write the maps below and above with a slope for each cell; True where some window has no line.

        Its biases are NaN then. None where `lo <= hi` does not hold everywhere. Where that is not to be looked at, NaN
        at both ends is a cell that is not there.
        """
