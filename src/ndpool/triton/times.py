"""How long the ways of a plan should take, in picoseconds: measured on an H200, and good enough to choose between ways.

A kernel waits for its launch and then for the slower of two: the memory that it moves, or what it does with cells.
"""

from __future__ import annotations

#: From one kernel to the next, and a byte that is read or written.
LAUNCH, BYTE = 2e6, 0.25

#: A cell of a window that is walked over; and where the cells of an output come one after the other, in a loop, however
#: few outputs there are. A cell of a tree.
CELL, CELL_IN_TURN, CELL_OF_TREE = 0.4, 6e4, 1.3

#: How many cells' time a cell takes that is a power or an exponential, and how many an output of a wide window does.
CURVED, SLIDING = 3, 8

#: A window that is asked on the way back: by taps, by division, or for a row of cells at once.
TAP, ASKED, ASKED_BY_ROWS = 1.0, 2.5, 0.5

#: The same along one axis: in steps of one, and in others.
SLID_BACK, ALONG = 0.2, 2.0

#: A window that looks at another one, to see whether both are won by the same cell.
HANDED = 2.5


def of_kernel(moved: float, work: float) -> float:
    """The time of a kernel that moves so many bytes, and works for so long."""
    return LAUNCH + max(BYTE * moved, work)
