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

    def __init__(
        self, dims: Sequence[Sequence[int]], kind: str, dtype: str, derivative: str, parameter: float, option: str
    ) -> None: ...
    @property
    def winner_bytes(self) -> int: ...
    def forward(self, x: Any, y: Any, forced: int = -1) -> None: ...
    def forward_with_winners(self, x: Any, y: Any, winners: Any) -> None: ...
    def indices(self, winners: Any, indices: Any) -> None: ...
    def jvp(self, x: Any, t: Any, y: Any, dy: Any) -> None: ...
    def vjp(self, x: Any | None, y: Any | None, winners: Any | None, g: Any, gx: Any) -> None: ...
