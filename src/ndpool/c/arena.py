"""One arena for all values of a network: who lives when, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Lifetime:
    """A value of so many bytes, made at one step and last read at another."""

    bytes: int
    made: int
    last_read: int

    def meets(self, other: Lifetime) -> bool:
        """Whether both live at one step."""
        return self.made <= other.last_read and other.made <= self.last_read


def offsets(groups: Sequence[Sequence[Lifetime]]) -> tuple[list[int], int]:
    """Where each group of values begins, and the bytes of the whole.

    The values of a group follow one another in the same place, each made over the one before it. Groups are placed the
    largest first, each at the lowest place where none of its values meets one that lies there already.

    >>> offsets([[Lifetime(64, 0, 1)], [Lifetime(32, 1, 2)], [Lifetime(64, 2, 3)]])
    ([0, 64, 0], 96)
    >>> offsets([[Lifetime(64, 0, 1), Lifetime(32, 1, 2)], [Lifetime(64, 2, 3)]])
    ([0, 32], 96)
    """
    found: dict[int, int] = {}
    for i in sorted(range(len(groups)), key=lambda i: (-_most(groups[i]), groups[i][0].made)):
        ends = {found[j] + value.bytes for j in found for value in groups[j]}
        found[i] = min(at for at in {0, *ends} if all(_apart(groups[i], at, groups[j], found[j]) for j in found))
    total = max((at + _most(groups[i]) for i, at in found.items()), default=0)
    return [found[i] for i in range(len(groups))], total


def _most(group: Sequence[Lifetime]) -> int:
    return max(value.bytes for value in group)


def _apart(group: Sequence[Lifetime], at: int, others: Sequence[Lifetime], there: int) -> bool:
    """Whether no value of one group lies over one of the other that lives at the same time."""
    return all(
        at + value.bytes <= there or there + other.bytes <= at or not value.meets(other)
        for value in group
        for other in others
    )
