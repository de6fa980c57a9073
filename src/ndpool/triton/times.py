"""How long the ways of a plan should take, in picoseconds: measured on an H200, and good enough to choose between ways.

A kernel waits for its launch and then for the slower of two: the memory that it moves, or what it does with cells.
"""

from __future__ import annotations

#: From one kernel to the next, and a byte that is read or written.
LAUNCH, BYTE = 1.4e6, 0.25

#: A cell of a window that is walked over: where the steps are written out, where neighbours share what they have of
#: their cells, and in a loop. However few outputs there are, the cells of one come one after the other; those of steps
#: that are written out come sooner.
CELL, CELL_IN_GROUP, CELL_IN_LOOP, CELL_IN_TURN, WRITTEN_OUT_IN_TURN = 0.4, 0.2, 0.86, 5e4, 3e4

#: A cell of a tree along one axis, and over several, whose columns may be more than cells; and what joins the columns.
CELL_OF_TREE, CELL_OF_TREE_OVER_AXES, JOINED = 1.3, 2.0, 6e5

#: How many times as long a cell takes that is a power or an exponential, a whole power as a double, a double beside
#: which the error is kept, and one that is compared: cards have no instruction for the maximum of doubles.
CURVED, POWER_AS_DOUBLE, WITH_ERROR, MAXIMUM_OF_DOUBLES = 3, 1.4, 2, 2

#: Neighbours along the last axis that read apart from each other: from so many bytes on, and up to so many, a cell
#: takes the longer. In a loop over short rows it takes so many times as long.
NEAR, SECTOR, APART_IN_SHORT_ROWS = 16, 32, 2.5

#: Rows that do not start at multiples of a vector are moved so much slower: forward, and back; and winners are brought
#: back along them.
UNALIGNED, UNALIGNED_GRADIENTS, UNALIGNED_BACK = 1.1, 1.3, 1.65

#: How many cells' time an output of a wide window takes: in general, and along the last axis from states.
SLIDING, SLIDING_IN_ROWS = 8, 14

#: A window that is asked on the way back: a sum and a winner by taps, by division, among bins, with a divisor of its
#: own, or for a row of cells at once. What is found by division for a cell along each axis, and for a row, of which
#: short ones are many in a tile.
TAP, TAP_OF_WINNER, ASKED, ASKED_OF_BINS, DIVIDED, ASKED_BY_ROWS = 0.15, 0.2, 0.9, 1.6, 1.5, 0.5
FOUND, ROW, SHORT_ROW = 0.4, 40.0, 32

#: A cell of 4 bytes on the way back, where rows are so short that each cell finds all of its coordinates.
RAGGED = 3.0

#: With so many taps, each takes twice as long, as one of a sum and as one of winners: fewer of them find what they ask
#: for in registers.
MANY_TAPS, MANY_TAPS_OF_WINNERS = 30, 7

#: A winner along one axis: in steps of one, and in others.
SLID_BACK, ALONG = 0.2, 1.0

#: A winner that is visited, and a window that it asks: one of a few, of which all are asked at once, and one of more.
#: However few winners there are, it takes so long until the place of one, the windows over it and their gradients have
#: come from memory, and where windows are asked one after the other so long for each.
VISITED, HANDED, HANDED_OF_MANY, FEW_WINDOWS, IN_TURN, IN_THREE_STEPS = 12.0, 2.5, 3.5, 4, 5e4, 5e5

#: A byte that is cleared before. An array of more bytes is not in the cache any more when its winners are visited. Then
#: each sector that has one is read from memory, to be changed and written again.
CLEARED_BYTE, CACHE, CHANGED = 0.18, 60e6, 20.0


def of_kernel(moved: float, work: float) -> float:
    """The time of a kernel that moves so many bytes, and works for so long."""
    return LAUNCH + max(BYTE * moved, work)
