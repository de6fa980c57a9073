"""How long the ways of a plan should take, in picoseconds: measured on an H200, and good enough to choose between ways.

A kernel waits for its launch and then for the slower of two: the memory that it moves, or what it does with cells.
"""

from __future__ import annotations

#: From one kernel to the next, and a byte that is read or written.
LAUNCH, BYTE = 2.5e6, 0.25

#: A cell of a window that is walked over: where the steps are written out, and in a loop. Those of a loop come one
#: after the other, however few outputs there are. A cell of a tree.
CELL, CELL_IN_LOOP, CELL_IN_TURN, CELL_OF_TREE = 0.4, 2.0, 1e5, 1.3

#: How many times as long a cell takes that is a power or an exponential, and a double beside which the error is kept.
CURVED, WITH_ERROR = 3, 2

#: Neighbours along the last axis that read apart from each other: up to so many bytes, a cell takes the longer.
SECTOR = 32

#: Rows that do not start at multiples of a vector are moved so much slower.
UNALIGNED = 1.3

#: How many cells' time an output of a wide window takes.
SLIDING = 8

#: A window that is asked on the way back: a sum and a winner by taps, by division, with a divisor of its own, or for a
#: row of cells at once. What is found for a row, where it is found by division.
TAP, TAP_OF_WINNER, ASKED, DIVIDED, ASKED_BY_ROWS, ROW = 0.7, 0.7, 1.2, 1.5, 0.5, 10.0

#: A winner along one axis: in steps of one, and in others.
SLID_BACK, ALONG = 0.2, 1.0

#: A winner that is visited, and a window that it asks: all of them at once, and one after the other.
VISITED, HANDED, IN_TURN = 6.0, 1.5, 5e4


def of_kernel(moved: float, work: float) -> float:
    """The time of a kernel that moves so many bytes, and works for so long."""
    return LAUNCH + max(BYTE * moved, work)
