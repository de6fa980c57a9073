"""What was measured: the seconds of every contender on every case, for each number of threads.

A record is plain JSON: ``{"case": name, "threads": n, "moved": bytes, "limit": seconds, "seconds": {contender:
seconds}, "absent": {peer: why}}``, where `why` is ``"missing"``, ``"—"`` for a peer that does not define the case,
or a fault with a colon in it. Beside the peers, the contenders are those of `NO_PEERS`.
"""

from dataclasses import dataclass
from typing import Any

from .cases import Case

# "reference" is ndpool on the case that this one is compared with; "side by side" is a call of one of several callers.
NO_PEERS = ("ndpool", "reference", "one thread", "side by side", "copy", "bare")


@dataclass
class Results:
    """The records, found by case and number of threads."""

    records: list[dict[str, Any]]

    def __post_init__(self) -> None:
        self._index = {(record["case"], record["threads"]): record for record in self.records}

    @property
    def threads(self) -> list[int]:
        return sorted({record["threads"] for record in self.records})

    def record(self, case: Case, threads: int) -> dict[str, Any] | None:
        return self._index.get((case.name, threads))

    def seconds(self, case: Case, contender: str = "ndpool", threads: int = 1) -> float | None:
        record = self.record(case, threads)
        return record["seconds"].get(contender) if record else None

    def times_limit(self, case: Case, contender: str = "ndpool", threads: int = 1) -> float | None:
        """The contender's time as a multiple of the memory limit."""
        seconds = self.seconds(case, contender, threads)
        return seconds / self.record(case, threads)["limit"] if seconds else None
