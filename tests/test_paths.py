"""Every road through the engine, on shapes large enough to take it, against all windows gathered.

Small random shapes never leave the first branch. Here each shape is chosen for one: rows that go in parts, slabs that
are cut for the pullback, places of many channels, phases of every stride, wide windows by each method, winners of 1, 2
and 4 bytes.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from closeness import finite_size, last_place, same, value_allowance, vjp_allowance, within
from hostile import FLOAT_FLAVOURS, numbers
from ndpool import Adaptive, Avg, Global, Lp, Max, Min, Pool, SmoothMax, Sum, Window, _engine, spec
from oracle import GATHERED, Gathered
from strategies import ALL_KINDS, cases
from ways import forward_by, jvp_by, push_by, vjp_by, ways, winners_by

KINDS = [Max(), Min("split"), Avg(False), Sum(), SmoothMax(1.5), Lp(2.5)]


def road(name, window, shape, axes=None, dtype=np.float32):
    return pytest.param(window, shape, axes, np.dtype(dtype), id=name)


ROADS = [
    # Rows longer than the nearest cache go in parts.
    road("row in parts, k3s2p1", Window((3,), 2, 1), (2, 10007)),
    road("row in parts, k2s3d5", Window((2,), 3, 4, 5), (2, 10007)),
    road("row in parts, k5s1", Window((5,), 1, "same"), (9001,)),
    road("row in parts, segments", Window((4,), 9, ((3, 5),)), (2, 20011)),
    road("row in parts, wide", Window((70,), 1, 35), (3, 5003)),
    road("row in parts, wide and strided", Window((33,), 4, 16), (3, 9001)),
    road("row in parts, wide and dilated", Window((17,), 1, 16, 3), (2, 9001)),
    road("row in parts, two rows", Window((2, 3), (2, 2), 1), (4, 9001)),
    road("row in parts, three channels", Window((3,), 2, 1), (4001, 3), (0,)),
    # In steps of one over a single row, of doubles, bytes and channels too.
    road("one row of doubles, in steps of one", Window((4,), 1, ((1, 3),)), (3, 5003), dtype=np.float64),
    road("one row of three channels, in steps of one", Window((3,), 1, 2, 2), (2, 1501, 3), (1,)),
    road("one row of nineteen channels, in steps of one", Window((2,), 1), (3, 71, 19), (1,), np.float16),
    road("one short row, in steps of one", Window((5,), 1, 2), (6, 7)),
    # Windows along rows that are kept for others: edges, steps of rows, planes and channels between, long rows.
    road("kept rows of bytes", Window((3, 3), 1, 1), (2, 23, 300), dtype=np.uint8),
    road("kept rows of halves, wide padding", Window((3, 5), 1, (2, 4)), (2, 19, 70), dtype=np.float16),
    road("kept rows of doubles, dilated", Window((3, 3), 1, 3, 3), (2, 17, 70), dtype=np.float64),
    road("kept rows in steps", Window((5, 3), (2, 1), (2, 1)), (3, 41, 90)),
    road("kept rows of three axes", Window((2, 3, 4), 1, (1, 0, 2)), (2, 9, 12, 75)),
    road("kept rows, channels between the axes", Window((3, 3), 1, 1), (2, 11, 3, 70), (1, 3)),
    road("kept rows of three channels", Window((3, 2), 1, 1), (2, 13, 37, 3), (1, 2)),
    road("kept rows of nineteen channels", Window((2, 3), 1, 1), (2, 13, 9, 19), (1, 2), np.int64),
    road("kept long rows", Window((2, 3), 1, 1), (1, 6, 5003)),
    road("kept rows shorter than a register", Window((2, 3), 1, 1), (9, 40, 5)),
    # Phases: every stride, and segments from 8 on.
    *(road(f"stride {s}", Window((3, 4), (1, s), (1, 3), (1, 1 + s % 3)), (2, 6, 331)) for s in range(1, 11)),
    # Cells side by side that the same windows see: one to three of them, of a whole number of strides or not.
    *(
        road(f"runs, k{k}s{s}", Window((k,), s, k // 2), (3, 2311))
        for k, s in ((4, 3), (6, 3), (7, 3), (5, 4), (8, 5), (13, 6), (30, 17), (150, 100), (40, 70))
    ),
    road("runs in few rows, cut", Window((9,), 8, 3, ceil_mode=True), (1, 140001)),
    # Dilated, wide, or of few channels: segments of a row, or rows, become channels.
    road("segments, k20s1", Window((20,), 1, 9), (2, 9001)),
    road("segments, k4s3d2 of three channels", Window((4,), 3, 4, 2), (2, 3001, 3), (1,)),
    road("columns, k20s1", Window((2, 20), 1, (0, 9)), (2, 21, 77)),
    road("columns, k3s2d3 of five channels", Window((3, 3), 2, 3, 3), (2, 19, 30, 5), (1, 2)),
    road("columns, adaptive", Adaptive((9, 10)), (2, 21, 37)),
    *(road(f"stride {s} of doubles", Window((3,), s, 1), (2, 331), dtype=np.float64) for s in range(2, 8)),
    # Channels last: fewer than, as many as, more than a register holds.
    *(
        road(f"{c} channels last", Window((3, 3), 2, 1), (2, 9, 11, c), (1, 2))
        for c in (1, 2, 3, 4, 7, 8, 15, 16, 17, 64, 65)
    ),
    road("channels last, three rows left of five", Window((5, 3), (2, 2), (2, 1)), (2, 9, 11, 64), (1, 2)),
    road("channels last, three rows left of nine", Window((3, 3, 3), 2, 1), (1, 5, 7, 8, 64), (1, 2, 3)),
    # Windows beside each other that have a column in common, and whether it is kept.
    road("channels last, k2s1", Window((2, 2), 1), (2, 5, 9, 24), (1, 2)),
    road("channels last, k3s2, not padded", Window((3, 3), 2), (2, 8, 12, 21), (1, 2)),
    road("channels last, k3s2 in parts", Window((3, 3), 2, 1), (1, 5, 631, 17), (1, 2)),
    road("channels last, k3s2, dilated", Window((3, 3), 2, 2, 2), (2, 9, 12, 33), (1, 2)),
    road("channels last, k3s3", Window((3, 3), 3), (2, 9, 12, 33), (1, 2)),
    road("channels last, k3s2 of very many", Window((3, 3), 2, 1), (1, 5, 7, 2051), (1, 2)),
    road("channels last, float64", Window((3, 3), 2, 1), (1, 6, 9, 13), (1, 2), np.float64),
    # Places that are whole lines, in rows of several parts.
    road("channels last, lines of uint8", Window((2, 2), 2), (2, 8, 140, 64), (1, 2), np.uint8),
    road("channels last, lines of float64", Window((3, 3), 2, 1), (2, 5, 263, 16), (1, 2), np.float64),
    road("channels last, lines of float16", Window((3, 3), 2, 1), (2, 5, 45, 64), (1, 2), np.float16),
    road("channels last, lines in a wide window", Window((9, 9), 1, 4), (1, 13, 24, 64), (1, 2)),
    road("channels last, lines of two-byte winners", Window((17, 17), 8, 8), (1, 40, 41, 32), (1, 2)),
    road("channels last, more outputs than inputs", Adaptive((6, 7)), (2, 5, 4, 24), (1, 2)),
    *(road(f"{c} channels last, segments", Window((2, 3), 9, 1), (2, 20, 31, c), (1, 2)) for c in (1, 2, 3, 8, 17)),
    *(road(f"{c} channels last, wide", Window((9, 9), 1, 4), (1, 13, 14, c), (1, 2)) for c in (1, 2, 3, 8, 17)),
    # Wide windows, by halves of halves along a row and by blocks across rows.
    road("wide k15s1p7", Window((15, 15), 1, 7), (2, 33, 40)),
    road("wide k31s5", Window((31, 31), 5, 15), (2, 70, 61)),
    road("wide k70 of 63", Window((70, 63), 1), (1, 81, 75)),
    road("wide across rows alone", Window((24, 1), 2, ((3, 9), (0, 0))), (2, 60, 37)),
    road("wide along rows alone", Window((1, 24), 2, ((0, 0), (3, 9))), (2, 11, 80)),
    road("wide, longer than the array", Window((20, 20), 1, 15), (2, 11, 13)),
    # Strands: pieces of few rows and of many, slabs that do not fill the lanes, elements of every size.
    road("pieces of a row of bytes", Window((11,), 7, 3), (1, 30011), dtype=np.uint8),
    road("pieces of many rows", Window((5,), 3, 2), (40, 4001), dtype=np.float16),
    road("pieces of three channels", Window((9,), 4, 16, 2), (2, 4001, 3), (1,), np.float64),
    road("slabs, one short of a register", Window((3, 2), (2, 1), 1), (15, 5, 7)),
    road("slabs, more than are taken at a time", Adaptive((3, 2)), (700, 7, 5)),
    road("slabs of five channels", Window((2, 3), 2, 1), (33, 4, 6, 5), (1, 2)),
    road("slabs of 64-bit integers", Window((3, 3), 3), (21, 7, 7), dtype=np.int64),
    # Long windows: whole registers of few channels, every fourth cell of some, the first of the best of one.
    road("long windows of three channels", Window((70,), 64, 3), (2, 500, 3), (1,)),
    road("long windows of twenty channels", Window((50,), 40, 5), (1, 300, 20), (1,)),
    road("long windows of doubles", Window((300,), 290, 7), (2, 2000), dtype=np.float64),
    # Across rows in bands.
    road("wide across rows, in bands", Window((13, 2), 1, (6, 1)), (1, 240, 600)),
    # Windows that tile their rows: all slabs are one long row.
    road("many rows of one short window", Global(), (700, 3), (1,)),
    road("many rows that windows tile", Window((4,), 4), (300, 12)),
    road("many rows of channels that bins tile", Adaptive((3,)), (40, 9, 5), (1,), np.float64),
    road("many rows of 64 cells that windows tile", Window((16,), 16), (50, 64), dtype=np.float16),
    # One axis after the other: planes together by twos, threes and more, short rows as one, blocks cut along two axes.
    *(road(f"planes of {k} together", Window((k, 3, 2), 1), (2, 17, 5, 40)) for k in (2, 3, 4, 7, 12, 15)),
    road("short padded rows of shorts", Window((5,) * 4, 1, 1), (2, 7, 6, 5, 21), dtype=np.int16),
    road("short padded rows of halves", Window((3,) * 4, 1, 2), (2, 6, 5, 7, 9), dtype=np.float16),
    road("short padded rows of bytes", Window((2, 3, 4), 1, (1, 1, 2)), (3, 5, 6, 7), dtype=np.uint8),
    road("steps, dilated", Window((3, 3, 3), (2, 3, 2), (1, 2, 0), (1, 2, 3)), (2, 13, 14, 35), dtype=np.float16),
    road("planes in steps, wide", Window((20, 4, 9), (2, 1, 3), (3, 1, 4)), (1, 45, 6, 50)),
    road("planes in steps, merged as they are read", Window((3, 2, 3), (2, 1, 1), (1, 0, 1)), (2, 11, 9, 37)),
    road(
        "planes in steps, dilated, some of padding",
        Window((3, 2), (2, 1), (3, 1), (3, 1)),
        (2, 17, 41),
        None,
        np.float64,
    ),
    road("planes, very wide", Window((40, 2), 1, (20, 1)), (1, 90, 70), dtype=np.float16),
    road("planes, very wide, of doubles", Window((40, 3), 1), (1, 95, 40), dtype=np.float64),
    road("a long row of one cell each", Window((1,), 1), (1, 300, 32), (1,)),
    road("blocks of rows of one cell each, cut", Window((5, 1), 1, (2, 0)), (1, 300, 600)),
    road("blocks of volumes, cut twice", Window((3, 5, 2), 1, (1, 2, 0)), (1, 40, 101, 83), dtype=np.float16),
    road("blocks of rows, cut twice", Window((12, 9), 1, (6, 4)), (1, 170, 900), dtype=np.float32),
    road("blocks of three channels", Window((3, 4), 1, (1, 2)), (2, 30, 41, 3), (1, 2), np.float16),
    road("blocks of many channels", Window((3, 4), (1, 2), (1, 2)), (2, 11, 12, 40), (1, 2), np.float16),
    road("halves, more places than a number holds", Window((130, 127), 1), (1, 133, 140), dtype=np.float16),
    # Winners in two bytes and in four.
    road("two-byte winners", Window((17, 17), 8, 8), (1, 60, 61)),
    road("exactly 256 cells", Window((16, 16), 16), (1, 50, 70)),
    road("257 cells", Window((257,), 100, 80), (2, 700)),
    road("four-byte winners", Global(), (2, 257, 256), (1, 2)),
    road("four-byte winners, overlapping", Window((257, 256), 5), (1, 262, 262)),
    # More places than a lane can count: winners by pieces of the window.
    road("float16, pieces of three channels", Global(False), (2, 257, 256, 3), (1, 2), np.float16),
    road("uint8, pieces of a row", Global(), (3, 1001), (1,), np.uint8),
    road("uint8, padded pieces", Window((400,), 1, ((30, 20),)), (2, 350), None, np.uint8),
    # Winners by columns: chunks of a long row, every other cell that no window has, channels, volumes.
    road("columns, k4s2d3 in chunks", Window((4,), 2, 5, 3), (2, 10007)),
    road("columns, k3s2d2 of doubles in chunks", Window((3,), 2, 2, 2), (1, 9001), None, np.float64),
    road("columns, k3s1d2 of five channels", Window((3, 3), 1, 2, 2), (2, 9, 40, 5), (1, 2)),
    road("columns, a volume", Window((2, 3, 4), (1, 1, 2), (1, 1, 2)), (2, 7, 9, 70)),
    road("columns, a volume of float16", Window((2, 3, 4), (2, 1, 1), (0, 1, 2)), (2, 7, 9, 70), None, np.float16),
    # Windows that have their cells to themselves.
    road("apart, float16", Window((3, 2), (4, 3), 1), (2, 50, 71), None, np.float16),
    road("apart, channels last, float16", Window((3, 3, 3), 3, 1), (1, 9, 10, 11, 40), (1, 2, 3), np.float16),
    road("apart, bins", Adaptive((4, 5)), (2, 12, 35), None, np.float64),
    # Adaptive bins that overlap, and more outputs than inputs.
    road("adaptive 7x7", Adaptive((7, 7)), (2, 61, 67)),
    road("adaptive, upsampling", Adaptive((11, 13)), (3, 5, 7)),
    road("adaptive, channels last", Adaptive((3, 4)), (2, 11, 13, 17), (1, 2)),
    road("adaptive, one long axis", Adaptive((97,)), (70001,)),
    road("adaptive, one even axis", Adaptive((100,)), (70000,)),
    road("global", Global(), (2, 3, 57, 61), (2, 3)),
    road("global, channels last", Global(False), (2, 57, 31, 17), (1, 2)),
    road("global, a long row", Global(), (70001,), (0,)),
    # Bins one by one: from two registers, as large as the cells of a bin allow.
    *(road(f"bins of about {n} cells", Adaptive((2, 9)), (2, 5, 9 * n + 4)) for n in (1, 2, 3, 5, 8, 13, 16, 21, 33)),
    *(road(f"bins of {n} doubles", Adaptive((7,)), (3, 7 * n), dtype=np.float64) for n in (2, 3, 6, 9, 15)),
    road("bins of few bytes", Adaptive((3, 5)), (2, 7, 91), dtype=np.uint8),
    # Many rows that are far from the array's end: some lines of each at a time.
    road("many rows, far", Window((6, 4), (6, 4)), (1, 700, 437)),
    road("many rows, far, bins", Adaptive((70, 9)), (1, 700, 437)),
    # Fewer slabs than lanes, whose rows would fill no more.
    road("eight slabs of short rows", Window((3, 2, 2), 2), (8, 5, 6, 7)),
    road("four slabs of very short rows", Adaptive((2, 3)), (4, 9, 7)),
    # Overlapping windows of short rows, in slabs that leave the nearest caches.
    road("slabs that are far, overlapping", Window((3, 5, 3), 1, 1), (16, 12, 30, 40)),
    # Slabs of more than 65536 elements, which the pullback cuts.
    road("cut slab", Window((3, 3), 2, 1), (1, 400, 331)),
    road("cut slab, dilated", Window((3, 3), 1, 2, 2), (1, 300, 231)),
    road("cut slab, segments", Window((2, 2), (9, 10), 1), (1, 400, 331)),
    road("cut slab, wide", Window((7, 7), 2, 3), (1, 300, 231)),
    road("cut row", Window((3,), 2, 1), (1, 140001)),
    road("cut row, dilated", Window((2,), 3, ((4, 0),), 4), (1, 140001)),
    road("cut row, far apart", Window((2,), 11, 1), (1, 140001)),
    road("cut row of channels", Window((3,), 2, 1), (10000, 17), (0,)),
    road("cut slab of channels", Window((3, 3), 2, 1), (150, 50, 17), (0, 1)),
    road("cut slab, adaptive", Adaptive((41, 7)), (1, 400, 331)),
    road("few slabs, cut finely", Window((3, 3), 2, 1), (3, 130, 140)),
    road("one window over a cut row of channels", Window((40,), 40), (9000, 17), (0,)),
    road("cut volume", Window((2, 3, 2), (2, 1, 2), (0, 1, 1)), (1, 30, 50, 60)),
    # One axis after the other: planes in bands, axes that are carried along, short rows, places of few channels.
    road("planes in bands", Window((3, 3, 3), 1, 1), (1, 8, 150, 120)),
    road("planes in bands, dilated", Window((2, 2, 3), 1, (1, 2, 2), (1, 3, 2)), (1, 6, 170, 110), None, np.float16),
    road("planes in bands, strided", Window((3, 4, 3), (1, 2, 1), 1), (1, 6, 210, 100)),
    road("planes of an axis that is carried along", Window((2, 3, 3), 1, 1), (2, 7, 5, 9, 3, 23), (1, 3, 5)),
    road("planes of very short rows", Window((2, 2, 2), 1), (3, 9, 8, 5), None, np.float64),
    road("planes of short rows, rank 4", Window((2, 3, 2, 3), 1, 1), (2, 6, 7, 5, 9), None, np.float16),
    road("planes of three channels", Window((3, 2, 3), 1, 1), (2, 9, 8, 11, 3), (1, 2, 3)),
    road("planes of adaptive bins", Adaptive((3, 14, 5)), (2, 7, 9, 23)),
    road("planes of 16 by 16 cells", Window((4, 4, 4, 4), 1, 1), (6, 7, 8, 9), None, np.float16),
    road("places of two bytes", Window((7, 7, 7), 1, 3), (2, 12, 11, 19)),
    road("places of two bytes, doubles", Window((40, 3, 4), 1, (5, 1, 0)), (61, 9, 12), None, np.float64),
    road("places of two bytes, many slabs", Window((5,) * 4, 1, 2), (33, 6, 5, 7, 6), None, np.float16),
    road("planes of lines in steps", Window((2, 3, 4, 2), (1, 2, 3, 1), (1, 1, 2, 0)), (2, 5, 9, 14, 21)),
    road("planes of long rows", Window((2, 3, 3), 1, (0, 1, 2), (1, 2, 3)), (1, 6, 13, 331)),
    road("planes with more padding at the end", Window((3, 4, 3), 1, ((0, 2), (1, 2), (0, 2))), (2, 5, 9, 17)),
    # Two axes: rows of less than a block and of several, a carried axis between, and steps from row to row.
    road("axes of short rows", Window((3, 4), 1, 1), (9, 11, 13)),
    road("axes of rows of some registers", Window((3, 3), 1), (2, 13, 70), None, np.float16),
    road("axes of long rows", Window((2, 3), 1, (0, 1), (2, 3)), (2, 9, 1531)),
    road("axes of five channels", Window((3, 2), 1, (1, 0)), (2, 9, 40, 5), (1, 2), np.float16),
    road("axes of many channels", Window((3, 3), 1, 1), (1, 9, 10, 67), (1, 2), np.float64),
    road("axes with one between", Window((3, 3), 1, 1), (2, 9, 4, 33), (1, 3)),
    road("rows first, in steps from row to row", Window((3, 3), (2, 1), 1), (2, 19, 70)),
    road("rows first, of three channels", Window((3, 3), (2, 1), 1), (2, 19, 30, 3), (1, 2), np.float16),
    # Keys and places beside each other.
    road("short rows of doubles", Window((3,) * 4, 1, 1), (2, 7, 6, 5, 21), None, np.float64),
    road("planes of doubles in steps", Window((5, 4, 3), (2, 1, 1), 1), (2, 13, 12, 35), None, np.float64),
    road("wide windows of doubles", Window((40, 30), 1, 3), (2, 70, 65), None, np.float64),
    road("short rows of 64 bits", Window((3, 2, 4), 1, (1, 0, 2)), (3, 9, 8, 7), None, np.int64),
    # Two or three cells in steps of 2: in registers, and back by squares.
    *(
        road(f"k{k}s2, padded {pad}", Window((k, k), 2, pad, ceil_mode=ceil), (2, 30, 71))
        for k in (2, 3)
        for pad, ceil in ((0, False), (1, True), (((1, 0), (0, 1)), False), (((0, 1), (k - 1, 0)), True))
    ),
    *(road(f"k{k}s2, volume", Window((k,) * 3, 2, k - 2), (2, 9, 12, 69)) for k in (2, 3)),
    *(road(f"k{k}s2, rank 4", Window((k,) * 4, 2, k - 2), (1, 4, 5, 7, 66)) for k in (2, 3)),
    *(road(f"k{k}s2, one row", Window((k,), 2, k - 2), (5, 97)) for k in (2, 3)),
    road("k2s2, exactly one register", Window((2, 2), 2), (2, 8, 34)),
    road("k2s2, even sides", Window((2, 2), 2), (3, 32, 64)),
    # Rows of whole lines, an odd number of registers among them.
    *(road(f"k{k}s2, lines", Window((k, k), 2, k - 2), (3, 7, 112)) for k in (2, 3)),
    road("k3s2, lines, not padded", Window((3, 3), 2), (2, 8, 64)),
    road("k3s2, lines, padded by two", Window((3, 3), 2, 2), (2, 8, 64)),
    *(road(f"k{k}s2, lines of a volume", Window((k,) * 3, 2, k - 2), (2, 7, 6, 96)) for k in (2, 3)),
    road("k3s2, lines of a cut slab", Window((3, 3), 2, 1), (1, 303, 448)),
    road("k3s2, planes that no window sees", Window((1, 3, 3), (3, 2, 2), (0, 1, 1)), (2, 8, 9, 70)),
    # After the last output of a row comes the first of the next, or none.
    *(road(f"k3s2, rows of {h} by {w}", Window((3, 3), 2, 1), (3, h, w)) for h in (1, 2, 3) for w in (67, 68)),
    *(
        road(f"k3s2, no padding after {h} by {w}", Window((3, 3), 2, ((1, 0), (1, 0))), (3, h, w))
        for h, w in ((8, 70), (9, 70), (8, 71))
    ),
    road("k3s2, volume of flat slabs", Window((3, 3, 3), 2, 1), (3, 1, 1, 70)),
    road("k3s2, one side padded by one", Window((3, 3), 2, (1, 0)), (2, 12, 71)),
    road("k2s2, lines of float64", Window((2, 2), 2), (2, 6, 56), None, np.float64),
    road("k3s2, lines of float64", Window((3, 3), 2, 1), (2, 6, 56), None, np.float64),
    road("k2s2, odd sides", Window((2, 2), 2), (3, 33, 67)),
    road("k3s2, one output more than a register", Window((3, 3), 2), (2, 8, 35)),
    road("k2s2 by k3s2", Window((2, 3), 2, (0, 1)), (2, 12, 71)),
    road("steps of 1", Window((3, 3), 1, 1), (2, 12, 71)),
    road("steps of 1 and 2", Window((3, 3), (1, 2), 1), (2, 12, 71)),
    road("steps of 2 and 1", Window((3, 4), (2, 1), (1, 2)), (2, 12, 71)),
    road("five cells in steps of 2", Window((5, 5), 2, 2), (2, 15, 71)),
    road("one cell in steps of 2", Window((1, 1), 2), (2, 15, 71)),
    road("k3s2, cut volume", Window((3, 3, 3), 2, 1), (1, 40, 41, 70)),
    road("k2s2, axes in between", Window((2, 2), 2), (2, 8, 3, 70), (1, 3)),
    road("wide, a prime kernel", Window((61,), 1, 30), (3, 301)),
    road("wide, more than 256 cells", Window((301,), 1, 150), (2, 901)),
    # Few channels last, in steps: places are split into phases, and joined on the way back.
    *(
        road(f"{dtype}, {channels} channels, k{k}s{s}", Window((k, k), s, k // 2), (2, 14, 71, channels), (1, 2), dtype)
        for dtype, channels in (
            ("uint8", 2),
            ("uint8", 3),
            ("uint8", 4),
            ("uint8", 5),
            ("uint8", 8),
            ("uint8", 16),
            ("int16", 3),
            ("float16", 3),
            ("float16", 4),
            ("float32", 2),
            ("float32", 3),
            ("float32", 4),
            ("float32", 5),
            ("float32", 8),
            ("float64", 2),
            ("float64", 3),
            ("float64", 4),
        )
        for k, s in ((2, 2), (3, 2))
    ),
    road("three channels in steps of 3", Window((3, 4), 3, 1), (2, 14, 71, 3), (1, 2)),
    road("four channels in steps of 5 of 6 cells, dilated", Window((3, 6), (1, 5), 1, 2), (2, 14, 95, 4), (1, 2)),
    road("three channels of one long row", Window((2,), 2, 1), (9001, 3), (0,)),
    road("two channels of one long row, bytes", Window((2,), 2), (9001, 2), (0,), np.uint8),
    # Many axes, pooled and not.
    road("axes in between", Window((2, 3, 2), (1, 2, 2), (1, 1, 0)), (4, 3, 20, 2, 30), (0, 2, 4)),
    road("axes in between, wide", Window((9, 3), 1, 1), (3, 13, 2, 14, 3), (1, 3)),
    road("seven pooled axes", Window((2,) * 7, 1, 1), (2, 3, 2, 3, 2, 3, 2)),
    road("three pooled of nine", Window((2, 2, 2), 1), (2, 1, 3, 2, 1, 3, 2, 3, 2), (2, 5, 7)),
    # Other types of lanes.
    road("float64", Window((3, 3), 2, 1), (2, 57, 61), None, np.float64),
    road("float64, wide", Window((15, 15), 1, 7), (2, 33, 40), None, np.float64),
    road("float64, segments", Window((5, 20), 10), (2, 57, 131), None, np.float64),
    road("float16", Window((3, 3), 2, 1), (2, 57, 61), None, np.float16),
    road("float16, two-byte winners", Window((17, 17), 8, 8), (1, 60, 61), None, np.float16),
    road("float16, four-byte winners", Global(), (2, 257, 256), (1, 2), np.float16),
    road("float64, k2s2", Window((2, 2), 2), (2, 57, 61), None, np.float64),
    road("float16, k2s2", Window((2, 2), 2), (2, 57, 71), None, np.float16),
    road("float16, runs", Window((5, 7), (3, 4), 2), (2, 57, 71), None, np.float16),
    road("float16, wide", Window((15, 15), 1, 7), (2, 33, 90), None, np.float16),
    road("uint8", Window((3, 3), 2, 1), (2, 57, 61), None, np.uint8),
    road("uint8, k3s2", Window((3, 3), 2, 1), (2, 57, 131), None, np.uint8),
    road("uint8, k2s2", Window((2, 2), 2), (2, 57, 131), None, np.uint8),
    road("uint8, channels last", Window((2, 2), 2), (2, 8, 11, 71), (1, 2), np.uint8),
    road("int16, k3s2", Window((3, 3), 2, 1), (2, 57, 131), None, np.int16),
    road("uint8, wide", Window((16, 16), 1, 7), (2, 33, 40), None, np.uint8),
    road("uint8, wide, one row of places left", Window((15, 16), 1, 7), (2, 33, 90), None, np.uint8),
    road("wide, in steps of 3, padded", Window((4, 13), 3, (1, 6)), (2, 21, 331)),
    road("uint8, two-byte winners", Window((17, 17), 8, 8), (1, 60, 61), None, np.uint8),
    road("int8, four-byte winners", Global(), (2, 257, 256), (1, 2), np.int8),
    road("int16", Window((3, 5), 1, (1, 2)), (2, 57, 61), None, np.int16),
    road("int32", Window((3, 5), 1, (1, 2)), (2, 57, 61), None, np.int32),
]


@pytest.fixture(autouse=True)
def level_as_it_was():
    before = _engine.level()
    yield
    _engine.set_level(before)


def array_for(kind, shape, dtype, seed=0):
    """Ties for Max and Min, and for sums of narrow floats; else normal numbers."""
    tied = isinstance(kind, Max | Min) or dtype.itemsize < 4 or dtype.kind in "iu"
    return numbers(np.random.default_rng(seed), "ties" if tied else "normal", shape, dtype)


def directions(pool, shape, dtype):
    rng = np.random.default_rng(1)
    derivative = np.dtype(np.float64) if dtype.kind in "iu" else dtype
    return tuple(rng.normal(size=s).astype(derivative) for s in (shape, pool.output_shape(shape)))


def allowance(pool, x, y, dtype):
    """A last place, and what a sum of so many cells may lose in float64."""
    if isinstance(pool.kind, Max | Min):
        return 0.0
    size = finite_size(y)
    if isinstance(pool.kind, Sum | Avg):
        return last_place(dtype, size) + 2.0**-40 * Gathered(pool, np.abs(x.astype(np.float64))).value()
    if isinstance(pool.kind, SmoothMax):
        # Between a cell and log(n)/beta beyond it: where the two cancel, the last place of neither is y's own.
        size = size + np.log(2) / abs(pool.kind.beta)
    return 4 * last_place(dtype, size) + 2.0**-40 * size


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
@pytest.mark.parametrize(("window", "shape", "axes", "dtype"), ROADS)
def test_every_road(kind, window, shape, axes, dtype):
    """At every instruction level: the value and the VJP by each method, the winners and the JVP."""
    pool = Pool(kind, window, axes)
    x = array_for(kind, shape, dtype)
    t, g = directions(pool, shape, dtype)
    gathered = Gathered(pool, x)
    unsigned = Gathered(pool, np.abs(x)) if isinstance(kind, Lp) else gathered
    y = gathered.value().astype(kind.result_dtype(dtype))
    allowed = allowance(pool, x, y, t.dtype)
    # A weight of SmoothMax in floats is a quotient of sums of rounded terms.
    places = 4 if isinstance(kind, SmoothMax) else 2
    derivatives = [
        (theirs.astype(t.dtype), places * last_place(t.dtype, mass) + 2.0**-40 * mass)
        for theirs, mass in (
            (gathered.jvp(t), unsigned.jvp(np.abs(t))),
            (gathered.vjp(g), unsigned.vjp(np.abs(g))),
        )
    ]
    for level in _engine.levels():
        _engine.set_level(level)
        within(pool(x), y, allowed)
        ours_y, ours_dy = pool.jvp(x, t)
        within(ours_y, y, allowed)
        within(ours_dy, *derivatives[0])
        ours_y, pullback = pool.vjp(x)
        within(ours_y, y, allowed)
        within(pullback(g), *derivatives[1])
        for way in ways(pool, x, "forward"):
            within(forward_by(pool, x, way), y, allowed)
        jvp_ways = ways(pool, x, "jvp")
        for way in jvp_ways[1:]:
            ours_y, ours_dy = jvp_by(pool, x, t, way)
            within(ours_y, y, allowed)
            within(ours_dy, *derivatives[0])
            if isinstance(kind, Max | Min) and "rows" in jvp_ways:  # in one pass
                same(ours_dy, pool.jvp(x, t)[1])
        for way in ways(pool, x, "pull"):
            gx = vjp_by(pool, x, g, way)
            within(gx, *derivatives[1])
            if isinstance(kind, Max | Min | Sum | Avg):
                same(gx, pullback(g))  # a part of an array may go another way than the whole
            for offset in (0, 5):
                same(vjp_by(pool, x, g, f"{way}+stream", offset), gx)
        for offset in (0, 5):
            same(forward_by(pool, x, "stream", offset), pool(x))
            for ours, past_the_caches in zip(pool.jvp(x, t), jvp_by(pool, x, t, "stream", offset), strict=True):
                same(past_the_caches, ours)
        if isinstance(kind, Max | Min):
            ours_y, indices = pool.with_indices(x)
            same(ours_y, y)
            same(indices, gathered.winners())
        if isinstance(kind, Max):
            expected = winners_by(pool, x)
            for path in (*ways(pool, x, "linearize")[1:], "stream"):
                for offset in (0, 3):
                    for ours, theirs in zip(winners_by(pool, x, path, offset), expected, strict=True):
                        same(ours, theirs)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "uint8"])
def test_sums_of_padding_alone(dtype):
    """Windows that see no cell are zeros, by every way."""
    pool = Pool(Sum(), Window((2, 3, 2), 1, (3, 0, 4)))
    x = np.random.default_rng(0).integers(0, 5, (2, 3, 5, 4)).astype(dtype)
    expected = Gathered(pool, x).value()
    assert "slide" in ways(pool, x, "forward")
    for way in ways(pool, x, "forward"):
        same(forward_by(pool, x, way), expected.astype(pool.kind.result_dtype(x.dtype)))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint16", "int64", "uint64"])
@pytest.mark.parametrize("kind", [Max(), Min()], ids=["max", "min"])
def test_winners_at_the_ends_of_the_range(kind, dtype):
    """The lowest and the highest numbers, beside padding, which wins nothing."""
    dtype = np.dtype(dtype)
    rng = np.random.default_rng(3)
    if dtype.kind == "f":
        ends = np.array([-np.inf, np.inf, np.nan, -0.0, 0.0, np.finfo(dtype).min, np.finfo(dtype).tiny], dtype)
    else:
        ends = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max, 0], dtype)
    pool = Pool(kind, Window((3, 2, 4), 1, (2, 1, 3)))
    for one in ends:
        for x in (np.full((2, 4, 5, 6), one), rng.choice(ends, (2, 4, 5, 6)), rng.choice([one, ends[0]], (2, 4, 5, 6))):
            gathered = Gathered(pool, x.astype(dtype))
            assert "slide" in ways(pool, x, "linearize")
            y, winners = winners_by(pool, x, "slide")
            same(y, gathered.value().astype(dtype))
            same(winners, winners_by(pool, x, "rows")[1])
            same(pool.with_indices(x)[1], gathered.winners())


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64], ids=lambda d: d.__name__)
@pytest.mark.parametrize("kernel", [(3, 3), (2, 5), (9, 9), (2, 3, 3), (7, 7, 7), (2, 2, 3, 4)], ids=str)
def test_a_part_adds_up_as_the_whole_does(kernel, dtype):
    """Gradients of winners over several axes, to the bit: of some slabs, and of a part of each."""
    pool, rng, rank = Pool(Max(), Window(kernel, 1)), np.random.default_rng(9), len(kernel)
    shape = {2: (61, 150), 3: (16, 17, 40), 4: (9, 8, 7, 20)}[rank]
    x = numbers(rng, "ties", (19, *shape), np.dtype(dtype))
    g = numbers(rng, "normal", pool.output_shape(x.shape), x.dtype)
    whole = pool.vjp(x)[1](g)
    same(pool.vjp(x[3:5])[1](g[3:5]), whole[3:5])
    cut = tuple(slice(k // 2, n) for k, n in zip(kernel, x.shape[1:], strict=True))
    of_outputs = tuple(slice(c.start, n) for c, n in zip(cut, g.shape[1:], strict=True))
    inside = tuple(slice(k - 1, None) for k in kernel)
    part = pool.vjp(x[(slice(None), *cut)])[1](g[(slice(None), *of_outputs)])
    same(part[(slice(None), *inside)], whole[(slice(None), *cut)][(slice(None), *inside)])


TIED = [
    road("tiles", Window((4, 4), 4), (3, 16, 64)),
    road("tiles, a cell left", Window((2, 2), 2), (3, 9, 71)),
    road("gaps, padded", Window((3, 3), (5, 4), 1), (2, 17, 70)),
    road("a volume", Window((2, 2, 2), 2), (2, 6, 9, 68)),
    road("a volume, rows left", Window((2, 3, 3), 3, (0, 1, 0)), (2, 8, 9, 40)),
    road("a cut slab", Window((3, 5), (3, 5)), (1, 400, 331)),
    road("a cut row", Window((3,), 4, 1), (1, 140001)),
    road("three channels", Window((3, 2), 3), (2, 9, 41, 3), (1, 2)),
    road("many channels", Window((2, 3), (3, 3), 1), (2, 9, 10, 133), (1, 2)),
    road("long windows", Window((2, 150), (2, 160)), (2, 6, 700)),
    road("bins", Adaptive((3, 4)), (2, 9, 52)),
    road("one", Global(), (3, 57, 61), (1, 2)),
    road("one of many channels", Global(), (2, 20, 21, 40), (1, 2)),
    road("squares", Window((3, 3), 2, 1), (2, 23, 70)),
    road("squares, a cut slab", Window((3, 3), 2, 1), (1, 300, 331)),
    road("squares, a cut volume", Window((3, 3, 3), 2, 1), (1, 40, 41, 70)),
    road("overlapping", Window((3, 4), 1, 1), (2, 13, 70)),
    road("overlapping, channels", Window((3, 2), (2, 1), 1), (2, 13, 9, 35), (1, 2)),
]


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16, "float32", "float64"], ids=str)
@pytest.mark.parametrize("kind", [Max("split"), Min("all")], ids=["max", "min"])
@pytest.mark.parametrize(("window", "shape", "axes", "_"), TIED)
def test_ties_of_hostile_numbers(kind, window, shape, axes, _, dtype):
    """NaNs, infinities and zeros of both signs, by every way: the same bits, also of some of the slabs alone."""
    pool, rng = Pool(kind, window, axes), np.random.default_rng(5)
    for flavour in ("zeros", "special", "nan"):
        x = numbers(rng, flavour, shape, np.dtype(dtype))
        t, g = directions(pool, shape, x.dtype)
        (y, dy), gx = pool.jvp(x, t), pool.vjp(x)[1](g)
        same(y, pool(x))
        for way in ways(pool, x, "pull"):
            same(vjp_by(pool, x, g, way), gx)
        if "rows" in (jvp_ways := ways(pool, x, "jvp")) and not isinstance(window, Global):
            for way in jvp_ways:
                same(jvp_by(pool, x, t, way)[1], dy)
        same(pool.vjp(x[:1])[1](g[:1]), gx[:1])
        gathered = Gathered(pool, x)
        size = gathered.vjp(np.abs(g))
        within(gx, gathered.vjp(g).astype(g.dtype), 2 * last_place(g.dtype, size) + 2.0**-40 * size)


# Larger than a block in the second-level cache, so that blocks hand on the planes which they have in common.
ROLLING = [
    road("channels", Window((6, 5, 3), 1, (5, 0, 1)), (1, 20, 46, 37, 8), (1, 2, 3), np.float64),
    road("in steps of 2, padded", Window((10, 25, 2), (2, 1, 1), ((3, 9), 0, 0)), (30, 66, 90), None, np.float64),
    road("dilated", Window((4, 4, 2), 1, 0, (7, 6, 1)), (40, 60, 90)),
    road("wide", Window((40, 30, 3), 1, (20, 1, 1)), (90, 70, 70)),
    road("wide along both axes", Window((63, 63), 1, 31), (900, 1256)),
    road("halves", Window((6, 20, 3), 1, (5, 0, 1)), (1, 14, 100, 400), None, np.float16),
    road("bytes", Window((4, 90, 3), 1, 1), (10, 300, 500), None, np.uint8),
    # Rows too short for whole registers, so that windows lie at the places of their cells.
    road("short rows", Window((5, 5, 5, 5), 1), (31, 22, 23, 18), None, np.float64),
    road("short rows, padded", Window((7, 3, 4, 3), 1, (3, 1, 2, 1)), (30, 40, 33, 9)),
    road("short rows in steps", Window((12, 4, 4), (1, 3, 1), (0, 2, 1)), (40, 500, 30), None, np.float16),
    road("short rows, cut", Window((20, 6, 5), 1, (9, 0, 2)), (50, 3000, 20), None, np.float64),
]


@pytest.mark.parametrize("kind", [Max(), Avg(False)], ids=lambda kind: type(kind).__name__)
@pytest.mark.parametrize(("window", "shape", "axes", "dtype"), ROLLING)
def test_blocks_that_hand_on_planes(kind, window, shape, axes, dtype):
    pool = Pool(kind, window, axes)
    x = array_for(kind, shape, dtype)
    plain = next(way for way in ways(pool, x, "forward") if way not in ("slide", "batch"))
    y = forward_by(pool, x, plain)
    allowed = 0 if isinstance(kind, Max) else 4 * last_place(y.dtype, finite_size(y))
    for level in _engine.levels():
        _engine.set_level(level)
        if "slide" not in ways(pool, x, "forward"):
            continue  # the baseline has the ways alone that every plan needs
        within(forward_by(pool, x, "slide"), y, allowed)
        if isinstance(kind, Max) and "slide" in ways(pool, x, "linearize"):
            plain = next(way for way in ways(pool, x, "linearize") if way not in ("slide", "batch"))
            for ours, theirs in zip(winners_by(pool, x, "slide"), winners_by(pool, x, plain), strict=True):
                same(ours, theirs)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "uint8", "int16", "int32"])
@pytest.mark.parametrize(
    ("window", "shape"),
    [
        (Window((3,), 1, 1), (3, 40)),
        (Window((7, 7), 1, 3), (2, 21, 23)),
        (Window((15,), 2, 20, 2), (2, 60)),
        (Window((3, 3), 2, 1), (2, 9, 71)),
        (Window((5, 12), 1, (2, 11)), (2, 9, 30)),
        (Window((16, 15), 1, (3, 7)), (1, 20, 21)),
        (Window((3, 3), 2, 2, ceil_mode=True), (2, 8, 9)),
    ],
    ids=repr,
)
def test_padded_cells_never_win(window, shape, dtype):
    """Where all cells are as good as a padded one would be, the first real cell wins, by every way."""
    dtype = np.dtype(dtype)
    worst = (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.kind in "iu" else (-np.inf, np.inf)
    for kind, value in zip((Max(), Min()), worst, strict=True):
        pool, x = Pool(kind, window), np.full(shape, value, dtype)
        wanted = Gathered(pool, x).winners()
        for level in _engine.levels():
            _engine.set_level(level)
            same(pool.with_indices(x)[1], wanted)
            expected = winners_by(pool, x)
            for path in ways(pool, x, "linearize")[1:]:
                for ours, theirs in zip(winners_by(pool, x, path), expected, strict=True):
                    same(ours, theirs)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16], ids=lambda d: d.__name__)
@pytest.mark.parametrize("window", [Window((2, 2)), Window((3, 3), 2, 1), Window((3, 3), 1, 1), Window((5, 5), 3, 2)])
def test_sums_of_minus_zeros(window, dtype):
    """A gradient is a sum that starts with 0, by every way: -0 from one window alone gives 0."""
    pool, x = Pool(Max(), window), numbers(np.random.default_rng(3), "normal", (2, 18, 70), np.dtype(dtype))
    g = np.full(pool.output_shape(x.shape), -0.0, dtype)
    for level in _engine.levels():
        _engine.set_level(level)
        for way in ways(pool, x, "pull"):
            assert not np.signbit(vjp_by(pool, x, g, way)).any(), way


#: Along the row windows go side by side, by the phases of their stride; one by one; or along the elements of a place.
TIED = [
    *(
        road(f"{c} channels, k3s{s}", Window((2, 3), s, 1), (2, 13, 50, c), (1, 2))
        for c in (2, 3)
        for s in (1, 2, 5, 7)
    ),
    *(
        road(f"{c} channels, dilated", Window((2, 3), (1, 7), 1, (1, d)), (9, 90, c), (0, 1))
        for c in (1, 3)
        for d in (3, 21)
    ),
    road("places, dilated", Window((3, 4), (2, 3), 3, 2), (2, 17, 31, 33), (1, 2)),
    road("bins, 3 channels", Adaptive((4, 5)), (2, 13, 31, 3), (1, 2)),
    road("bins of a row, 3 channels", Adaptive((40,)), (2, 331, 3), (1,)),
    road("bins of places", Adaptive((5, 9)), (2, 13, 31, 40), (1, 2)),
    road("squares after padding", Window((3, 3), 2, 1), (2, 13, 67)),
    road("squares without padding", Window((3, 3), 2), (2, 2, 12, 46)),
    road("squares of two", Window((2, 2), 2), (2, 12, 65)),
    road("squares in planes", Window((2, 3, 3), (1, 2, 2), (0, 1, 1)), (2, 4, 9, 41)),
    road("a row that is cut", Window((4,), 3, 1), (20011,)),
    road("a row of places that is cut", Window((5,), 4, 2), (1201, 20), (0,)),
    road("a row of far windows that is cut", Window((6,), 7, ((0, 4),), 1, True), (9001,)),
    road("a row of far windows that share cells, cut", Window((20,), 8, 3), (3, 5001)),
    road("many slabs of a few cells", Global(), (501, 3, 5), (1, 2)),
    road("many slabs of some cells", Global(), (71, 14, 13), (1, 2)),
    road("far windows that share cells", Window((3, 9), (1, 7), 1), (2, 9, 90)),
    road("far windows that share many", Window((2, 20), (1, 7), 1), (2, 9, 190)),
    road("bins that share no cell", Adaptive((3, 5)), (2, 9, 85)),
    road("bins of less than a cell", Adaptive((3, 40)), (2, 9, 17)),
    road("rows that do not all fit", Window((3, 2), 1, 1), (11, 9001)),
    road("planes of rows that do not all fit", Window((3, 2, 2), 1), (5, 5, 4001)),
    road("more than 64 windows over a cell", Window((9, 9), 1, 4), (2, 31, 33)),
    road("one window, padded", Window((700,), 1, ((40, 5),)), (3, 655)),
    road("one window, longer than its row", Window((40,), 3, ((7, 0),)), (3, 33, 5), (1,)),
    road("one window of many pieces", Global(), (2, 99, 101, 3), (1, 2)),
    road("one window, many channels", Global(), (2, 11, 13, 1031), (1, 2)),
    road("a carried axis between", Window((3, 5), 2, 1), (13, 4, 37), (0, 2)),
    road("many rows", Window((256, 2), (3, 1)), (300, 40)),
]


@pytest.mark.parametrize("kind", [Max("all"), Min("split"), Max()], ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8, np.int64, np.float64], ids=lambda d: d.__name__)
@pytest.mark.parametrize(("window", "shape", "axes", "_"), TIED)
def test_every_road_of_ties(kind, window, shape, axes, _, dtype):
    """The derivative of every policy, both ways, by each method; where cells are tied, and where one wins."""
    pool, dtype = Pool(kind, window, axes), np.dtype(dtype)
    for flavour in ("ties", "any" if dtype.kind in "iu" else "normal"):
        x = numbers(np.random.default_rng(5), flavour, shape, dtype)
        t, g = directions(pool, shape, dtype)
        gathered = Gathered(pool, x)
        (dy, dy_allowed), (gx, gx_allowed) = [
            (theirs.astype(t.dtype), 2 * last_place(t.dtype, mass) + 2.0**-40 * mass)
            for theirs, mass in (
                (gathered.jvp(t), gathered.jvp(np.abs(t))),
                (gathered.vjp(g), gathered.vjp(np.abs(g))),
            )
        ]
        for level in _engine.levels():
            _engine.set_level(level)
            within(pool.jvp(x, t)[1], dy, dy_allowed)
            within(pool.linearize(x)[1].push(t), dy, dy_allowed)
            for way in ways(pool, x, "jvp")[1:]:
                ours_y, ours_dy = jvp_by(pool, x, t, way)
                same(ours_y, pool(x))
                within(ours_dy, dy, dy_allowed)
            for way in ways(pool, x, "push")[1:]:
                within(push_by(pool, x, t, way), dy, dy_allowed)
            for way in ways(pool, x, "pull"):
                ours = vjp_by(pool, x, g, way)
                within(ours, gx, gx_allowed)
                same(ours, pool.vjp(x)[1](g))
                same(vjp_by(pool, x, g, f"{way}+stream", 3), ours)
            if kind.ties == "first":
                same(pool.with_indices(x)[1], gathered.winners())


@pytest.mark.parametrize("end", [7.0, np.nan])
def test_ties_do_not_reach_into_the_row_before(end):
    """The last cell of a row lies before the padding of the next, and may be as large as what wins there."""
    pool = Pool(Max("split"), Window((3, 3), 2, 1))
    rng = np.random.default_rng(3)
    for shape in ((2, 3, 40, 40), (1, 1, 9, 67), (2, 1, 33, 32)):
        x = rng.integers(0, 4, shape).astype(np.float32)
        x[..., -1] = x[..., 0] = np.where(rng.random(x.shape[:-1]) < 0.5, end, 7)
        g = rng.normal(size=pool.output_shape(shape)).astype(np.float32)
        gathered = Gathered(pool, x)
        for level in _engine.levels():
            _engine.set_level(level)
            for way in ways(pool, x, "pull"):
                np.testing.assert_allclose(vjp_by(pool, x, g, way), gathered.vjp(g), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", [Max("all"), Max("split"), Min("all"), Min("split")], ids=repr)
@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.float32, np.float64], ids=lambda d: d.__name__)
@pytest.mark.parametrize("end", ["lowest", "highest", "nan"])
def test_ties_at_the_ends_of_a_type(kind, dtype, end):
    """Padding ties with no cell, be these as low or as high as can be; NaNs are equal, and so are zeros."""
    dtype = np.dtype(dtype)
    least, most = (-np.inf, np.inf) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    x = np.full((2, 9, 40), least if end == "lowest" else most, dtype)
    x[:, ::2, 1::3] = 0
    x[:, 1::3, ::2] = -0.0 if dtype.kind == "f" else 0
    if end == "nan" and dtype.kind == "f":
        x[0, ::4, ::3] = np.nan
        x[1, 1::4, ::5] = -np.nan
    for window in (Window((3, 3), 1, 1), Window((3, 3), 2, 1), Window((2, 5), 7, 1), Adaptive((2, 3))):
        pool = Pool(kind, window)
        t, g = directions(pool, x.shape, dtype)
        dy, gx = spec.jvp(pool, x, t)[1], spec.vjp(pool, x, g)
        for level in _engine.levels():
            _engine.set_level(level)
            within(pool.jvp(x, t)[1], dy, 1e-5)
            within(pool.vjp(x)[1](g), gx, 1e-5)


@pytest.mark.parametrize("kind", [Max("split"), Min("all")], ids=repr)
def test_ties_in_squares_of_a_slab_that_is_cut(kind):
    """The parts of a slab, whose ties are counted apart, fit together."""
    pool, shape = Pool(kind, Window((3, 3), 2, 1)), (1201, 234)
    x = numbers(np.random.default_rng(5), "ties", shape, np.dtype(np.float32))
    _, g = directions(pool, shape, np.dtype(np.float32))
    for level in _engine.levels():
        _engine.set_level(level)
        whole = vjp_by(pool, x, g, "ties")
        for way in ways(pool, x, "pull"):
            within(vjp_by(pool, x, g, way), whole, 1e-5)


def test_a_share_of_a_sum_beyond_all_floats():
    """Tangents whose mean is a float, and whose sum is none."""
    pool = Pool(Max("split"), Window((3, 3), 2, 1))
    x = np.zeros((4, 33), np.float32)
    t = np.full(x.shape, 3e38, np.float32)
    for level in _engine.levels():
        _engine.set_level(level)
        same(pool.jvp(x, t)[1], np.full(pool.output_shape(x.shape), 3e38, np.float32))


@pytest.mark.parametrize("kind", [Sum(), Avg(), SmoothMax(1.5)], ids=lambda kind: type(kind).__name__)
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("padding", [((2, 2), (4, 2)), ((3, 0), (5, 6)), ((9, 9), (8, 9)), ((4, 1), (3, 3))])
def test_windows_of_padding_alone(kind, k, padding):
    """Squares that are far from the first window."""
    pool = Pool(kind, Window((k, k), 2, padding, ceil_mode=True))
    x = np.random.default_rng(3).normal(size=(2, 9, 48)).astype(np.float32)
    g = np.random.default_rng(4).normal(size=pool.output_shape(x.shape)).astype(np.float32)
    gx = spec.vjp(pool, x, g)
    for level in _engine.levels():
        _engine.set_level(level)
        for path in (*ways(pool, x, "pull"), "stream"):
            within(vjp_by(pool, x, g, path), gx, vjp_allowance(pool, x, g, gx))


@pytest.mark.parametrize(
    "window",
    [
        Window((3,), 2, ((6000, 0),)),
        Window((3,), 1, ((9000, 9000),)),
        Window((9,), 1, ((0, 9000),)),
        Window((2,), 3, ((5000, 12001),), dilation=7),
        Window((5,), 9, ((50000, 3),)),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [Sum(), Avg(), SmoothMax(0.7)], ids=lambda kind: type(kind).__name__)
def test_padding_longer_than_a_part_of_a_row(kind, window):
    """Rows are pooled in parts, and here whole parts are padding, with one element to a place and with several."""
    for shape, axes in [((2, 8), (1,)), ((8, 3), (0,)), ((8, 40), (0,))]:
        pool, rng = Pool(kind, window, axes), np.random.default_rng(8)
        x, t, g = (rng.normal(size=s).astype(np.float32) for s in (shape, shape, pool.output_shape(shape)))
        wanted = Gathered(pool, x)
        for level in _engine.levels():
            _engine.set_level(level)
            within(pool(x), wanted.value().astype(np.float32), 1e-5)
            within(pool.jvp(x, t)[1], wanted.jvp(t).astype(np.float32), 1e-5)
            within(pool.vjp(x)[1](g), wanted.vjp(g).astype(np.float32), 1e-4)


@pytest.mark.parametrize("rows", [2, 3, 42, 43, 84, 85])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32])
def test_padding_does_not_win_a_tie(rows, dtype):
    """Every cell is as low as can be, and so is padding; places reach as far as a byte does."""
    lowest = -np.inf if np.dtype(dtype).kind == "f" else np.iinfo(dtype).min
    pool = Pool(Max(), Window((rows, 3), 2, ((0, 0), (1, 1))))
    x = np.full((90, 131), lowest, dtype)
    expected = Gathered(pool, x).winners()
    for level in _engine.levels():
        _engine.set_level(level)
        same(pool.with_indices(x)[1], expected)


@pytest.mark.parametrize("kind", [Max(), Avg(), SmoothMax(1.0)], ids=lambda kind: type(kind).__name__)
@pytest.mark.parametrize("threads", [1, 3])
def test_what_is_written_past_the_caches(kind, threads):
    """A large result, into memory that has been written before, is the same as by parts that are small."""
    pool = Pool(kind, Window((3, 3), 2, 1))
    shape, before = (5, 13, 255, 270), _engine.get_num_threads()
    rng = np.random.default_rng(2)
    x, t = rng.normal(size=(2, *shape)).astype(np.float32)
    g = rng.normal(size=pool.output_shape(shape)).astype(np.float32)
    _engine.set_num_threads(threads)
    try:
        y, (_, dy), gx = forward_by(pool, x), jvp_by(pool, x, t), vjp_by(pool, x, g)
        winners = winners_by(pool, x)[1] if isinstance(kind, Max) else None
    finally:
        _engine.set_num_threads(before)
    assert y.nbytes > 2**22
    assert gx.nbytes > 2**24
    for large in (pool(x), *pool.jvp(x, t), pool.vjp(x)[1](g)):
        assert large.ctypes.data % 64 == 0  # it starts at a whole line
    for i in range(len(x)):
        same(y[i], forward_by(pool, x[i]))
        same(dy[i], jvp_by(pool, x[i], t[i])[1])
        same(gx[i], vjp_by(pool, x[i], g[i]))
        if winners is not None:
            same(winners[i], winners_by(pool, x[i])[1])


@given(
    cases([kind for kind in ALL_KINDS if type(kind) in GATHERED], large=True, empty=False, max_rank=3),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=100, deadline=None)
def test_the_oracle_of_this_file(case, seed):
    """What stands for the specification here agrees with it."""
    x = numbers(np.random.default_rng(seed), "ties" if seed % 2 else "normal", case.shape, np.float64)
    gathered = Gathered(case.pool, x)
    expected = spec.forward(case.pool, x)
    within(gathered.value(), expected, value_allowance(case.pool, x, expected))
    g = np.random.default_rng(seed).normal(size=expected.shape)
    gx = spec.vjp(case.pool, x, g)
    within(gathered.vjp(g), gx, vjp_allowance(case.pool, x, g, gx))
    if isinstance(case.pool.kind, Max | Min) and case.pool.kind.ties == "first":
        same(gathered.winners(), spec.winners(case.pool, x))


@pytest.mark.parametrize("kind", [Max(), Min()], ids=lambda kind: type(kind).__name__)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_every_16_bit_float(kind, dtype):
    """All 65,536 of them, NaNs of either sign included, beside each other in random order; float32 holds them all."""
    rng = np.random.default_rng(5)
    x = np.stack([rng.permutation(2**16) for _ in range(4)]).astype(np.uint16).view(dtype)
    pool = Pool(kind, Window((2, 2)))
    with np.errstate(invalid="ignore"):  # NumPy warns of NaNs that signal
        expected = pool(x.astype(np.float32))
        assert np.isnan(expected).any()
        for level in _engine.levels():
            _engine.set_level(level)
            same(pool(x).astype(np.float32), expected)
            same(pool.with_indices(x)[0].astype(np.float32), expected)


@pytest.mark.parametrize("beta", [1.0, -0.3, 40.0, -1e4, 1e-8])
@pytest.mark.parametrize("flavour", FLOAT_FLAVOURS)
def test_smooth_squares_of_hostile_numbers(beta, flavour):
    """Windows of 2 by 2 floats side by side, each with a scale of its own."""
    pool = Pool(SmoothMax(beta), Window((2, 2)))
    rng = np.random.default_rng(4)
    x = numbers(rng, flavour, (2, 7, 71), np.float32)
    g = rng.normal(size=pool.output_shape(x.shape)).astype(np.float32)
    y, gx = spec.forward(pool, x), spec.vjp(pool, x, g)
    for level in _engine.levels():
        _engine.set_level(level)
        within(pool(x), y, value_allowance(pool, x, y))
        for path in (*ways(pool, x, "pull"), "stream"):
            within(vjp_by(pool, x, g, path), gx, vjp_allowance(pool, x, g, gx))


@pytest.mark.parametrize("kind", [SmoothMax(1.5), SmoothMax(-30.0), Lp(2), Lp(2.5)], ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("cells", "slabs"), [(2, 1031), (3, 1031), (6, 701), (35, 211)])
def test_many_smooth_slabs_of_a_few_cells(kind, dtype, cells, slabs):
    """Slabs that are one row. Those whose numbers are far from their neighbours' have a scale of their own."""
    pool, rng = Pool(kind, Global(), axes=1), np.random.default_rng(7)
    x = (rng.normal(size=(slabs, cells)) * rng.choice([1e-6, 1, 1e6], size=(slabs, 1))).astype(dtype)
    x[5, 1], x[200, 0] = np.nan, np.inf
    t, g = directions(pool, x.shape, np.dtype(dtype))
    (y, dy), gx = spec.jvp(pool, x, t), spec.vjp(pool, x, g)
    mass = spec.jvp(pool, x, np.abs(t))[1]
    for level in _engine.levels():
        _engine.set_level(level)
        within(pool(x), y, value_allowance(pool, x, y))
        within(pool.vjp(x)[1](g), gx, vjp_allowance(pool, x, g, gx))
        within(pool.jvp(x, t)[1], dy, 1e-5 * (np.abs(mass) + np.abs(t).max(1, keepdims=True)))


def smooth_of_all(kind, x):
    """The value and the weights of one window over all axes but the first, in float64."""
    axes, x = tuple(range(1, x.ndim)), x.astype(np.float64)
    if isinstance(kind, SmoothMax):
        best = (np.max if kind.beta > 0 else np.min)(x, axes, keepdims=True)
        terms = np.exp(kind.beta * (x - best))
        total = terms.sum(axes, keepdims=True)
        return best + np.log(total) / kind.beta, terms / total
    y = (np.abs(x) ** kind.p).sum(axes, keepdims=True) ** (1 / kind.p)
    return y, np.sign(x) * (np.abs(x) / y) ** (kind.p - 1)


@pytest.mark.parametrize("kind", [SmoothMax(1.5), SmoothMax(-30.0), Lp(1), Lp(2), Lp(2.5)], ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("shape", [(2, 70001), (1, 3, 50003), (2, 301, 302), (1, 50, 45, 40), (3, 140, 140)])
def test_long_windows(kind, dtype, shape):
    """Windows longer than what stays in the cache, whose cells are taken in pieces; one with a NaN is by itself."""
    rng = np.random.default_rng(6)
    pool = Pool(kind, Global(), axes=tuple(range(1, len(shape))))
    x = (rng.normal(size=(shape[0] + 1, *shape[1:])) / 4).astype(dtype)
    x[-1].flat[-5] = np.nan
    t = rng.normal(size=x.shape).astype(dtype)
    g = rng.normal(size=(len(x), *[1] * (x.ndim - 1))).astype(dtype)
    y, weights = smooth_of_all(kind, x)
    change = (weights * t).sum(tuple(range(1, x.ndim)), keepdims=True)
    mass = np.abs(weights * t).sum(tuple(range(1, x.ndim)), keepdims=True)
    eps, tiny = float(np.finfo(dtype).eps), float(np.finfo(dtype).tiny)
    eps = max(eps, 2.0**-40)
    for level in _engine.levels():
        _engine.set_level(level)
        for ours in (pool(x), pool.jvp(x, t)[0]):
            within(ours, y.astype(dtype), 2 * eps * finite_size(y))
        within(pool.jvp(x, t)[1], change.astype(dtype), 4 * eps * finite_size(mass))
        gx = weights * g
        within(pool.vjp(x)[1](g), gx.astype(dtype), 4 * eps * finite_size(gx) + tiny)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize(
    ("window", "shape", "axes"),
    [
        (Window((2, 2), 2, ceil_mode=True), (3, 9, 71), None),
        (Window((3,), 1, 2), (5, 101), None),
        (Window((3, 3), 2, 2), (1, 8, 9, 20), (1, 2)),
        (Window((2,), 1, 1, 5), (4, 7), None),
        (Adaptive((7, 9)), (2, 5, 9), None),
        (Window((1, 1)), (2, 5, 67), None),
    ],
)
def test_a_smooth_maximum_of_one_cell_is_that_cell(dtype, window, shape, axes):
    """To the last bit, by the engine's choice and by terms, however near to 0 the cell is."""
    rng = np.random.default_rng(7)
    x = (rng.normal(size=shape) * 10.0 ** rng.uniform(-4, 0, shape)).astype(dtype)
    for count_include_pad in (False, True):
        pool = Pool(SmoothMax(0.3, count_include_pad), window, axes)
        cells = Pool(Sum(), window, axes)(np.ones(shape))
        if count_include_pad:
            cells = Pool(Sum(), window, axes)(np.ones(shape)) / Pool(Avg(), window, axes)(np.ones(shape))
        single = np.abs(cells - 1) < 1e-9
        expected = Pool(Sum(), window, axes)(x)[single]
        assert single.any() or count_include_pad
        for level in _engine.levels():
            _engine.set_level(level)
            for path in (*ways(pool, x, "forward"), "stream"):
                if path in ("", "stream", "terms"):
                    same(forward_by(pool, x, path)[single], expected)
            same(pool(x)[single], expected)


@pytest.mark.parametrize("p", [1, 2, 2.5, 3])
@pytest.mark.parametrize(("shape", "axes"), [((6, 40, 41), None), ((3, 20, 21, 17), (1, 2)), ((70, 6, 5), None)])
def test_norms_of_windows_of_zeros(p, shape, axes):
    """They are 0, and hand on nothing, not even of a cotangent that is infinite."""
    rng = np.random.default_rng(8)
    x = np.maximum(rng.normal(size=shape) - 1.5, 0).astype(np.float32)
    pool = Pool(Lp(p), Window((2, 2), 1), axes)
    zero = Pool(Max(), Window((2, 2), 1), axes)(x) == 0
    g = rng.normal(size=zero.shape).astype(np.float32)
    expected = spec.vjp(pool, x, np.where(zero, 0, g).astype(np.float32))
    g[zero] = np.inf
    for level in _engine.levels():
        _engine.set_level(level)
        y, pullback = pool.vjp(x)
        assert (y[zero] == 0).all()
        assert (y[~zero] > 0).all()
        np.testing.assert_allclose(pullback(g), expected, rtol=1e-6, atol=1e-6)
        assert (pool.jvp(x, np.full_like(x, np.inf))[1][zero] == 0).all()


@pytest.mark.parametrize("kind", [SmoothMax(1.5), SmoothMax(-400.0), Lp(2.5), Lp(7)], ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_slabs_of_every_size_of_number(kind, dtype):
    """Several are computed together, with one scale: those that it does not suit are computed again."""
    rng = np.random.default_rng(9)
    x = (rng.normal(size=(40, 5, 7)) * 10.0 ** rng.uniform(-12, 6, (40, 1, 1))).astype(dtype)
    pool = Pool(kind, Window((3, 3), 2, 1))
    g = rng.normal(size=pool.output_shape(x.shape)).astype(dtype)
    y, gx = spec.forward(pool, x), spec.vjp(pool, x, g)
    for level in _engine.levels():
        _engine.set_level(level)
        within(pool(x), y, value_allowance(pool, x, y))
        within(pool.vjp(x)[1](g), gx, vjp_allowance(pool, x, g, gx))


@pytest.mark.parametrize("kind", [Max(), Min("all"), Avg(), SmoothMax(2.0), SmoothMax(-2.0), Lp(2)], ids=repr)
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("window", "shape", "axes"),
    [
        (Window((3,), 2, 1), (10007,), None),
        (Window((33,), 1, 16), (9001,), None),
        (Window((15, 15), 1, 7), (2, 61, 67), None),
        (Window((3, 3), (10, 11)), (2, 61, 67), None),
        (Window((3, 3), 2, 1), (31, 37, 17), (0, 1)),
        (Adaptive((7, 7)), (61, 67), None),
        (Window((7, 3), 2, 1), (400, 331), None),
    ],
)
def test_what_is_not_finite_stays_in_its_windows(kind, odd, window, shape, axes):
    """A NaN or an inf changes the windows that see it alone, by every method, both ways (rule "Accumulation")."""
    pool = Pool(kind, window, axes)
    rng = np.random.default_rng(0)
    plain = rng.normal(size=shape)
    x = plain.copy()
    where = tuple(n // 2 for n in shape)
    x[where] = odd
    sees = np.zeros(shape)
    sees[where] = 1
    touched = Pool(Max(), window, axes)(sees) > 0
    assert touched.any()
    assert not touched.all()
    t, g = directions(pool, shape, plain.dtype)
    y, dy = pool.jvp(x, t)
    clean_y, clean_dy = pool.jvp(plain, t)
    size = 2.0**-40 * (1 + np.abs(clean_y[~touched]))
    within(y[~touched], clean_y[~touched], size)
    within(dy[~touched], clean_dy[~touched], 2.0**-38 * (1 + np.abs(clean_dy[~touched])))
    for way in ways(pool, x, "forward"):
        z = forward_by(pool, x, way)
        within(z[~touched], clean_y[~touched], size)
        np.testing.assert_array_equal(np.isfinite(z[touched]), np.isfinite(y[touched]))
    # The cells that share no window with it have the gradient that they had.
    shared = Pool(Sum(), window, axes).vjp(x)[1](touched * 1.0) > 0
    gx, clean_gx = pool.vjp(x)[1](g), pool.vjp(plain)[1](g)
    within(gx[~shared], clean_gx[~shared], 2.0**-38 * (1 + np.abs(clean_gx[~shared])))
