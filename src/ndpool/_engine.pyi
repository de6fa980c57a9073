from collections.abc import Sequence
from typing import Any

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

class Plan:
    """A kind over a window over a shape, for one dtype."""

    # Arrays are C-contiguous buffers, or tensors: whatever has `data_ptr()` and `nbytes`, which are checked. That a
    # tensor is dense in the order of `dims` is not, and is for the caller to know.
    def __init__(
        self, dims: Sequence[Sequence[int]], kind: str, dtype: str, derivative: str, parameter: float, option: str
    ) -> None: ...
    @property
    def winner_bytes(self) -> int: ...
    def forward(self, x: Any, y: Any, forced: int = -1) -> None: ...
    def forward_with_winners(self, x: Any, y: Any, winners: Any, forced: int = -1) -> None: ...
    def indices(self, winners: Any, indices: Any) -> None: ...
    def jvp(self, x: Any, t: Any, y: Any, dy: Any, forced: int = -1) -> None: ...
    def vjp(self, x: Any | None, y: Any | None, winners: Any | None, g: Any, gx: Any, forced: int = -1) -> None: ...

class TensorPlan:
    """A plan for small tensors of one layout, which makes those that it returns."""

    # None where a tensor is not of just this type, size, strides and dtype, on the CPU.
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
    ) -> None: ...
    def forward(self, x: Any) -> Any | None: ...
    def forward_with_winners(self, x: Any) -> tuple[Any, Any] | None: ...
    def vjp(self, x: Any | None, y: Any | None, winners: Any | None, g: Any) -> Any | None: ...
