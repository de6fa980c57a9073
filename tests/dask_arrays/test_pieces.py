"""Pieces of an axis: the cells of its windows, laid out by the definition and not by the code under test."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ndpool.pieces import output_edges, outputs_over, piece
from ndpool.windows import Adaptive, Axis, Window


def cells(axis, i):
    """The cells of output i, as numbers from 0 up, and those of the padding that count."""
    if axis.adaptive:
        return list(range(i * axis.length // axis.output, -(-(i + 1) * axis.length // axis.output)))
    start = i * axis.stride - axis.pad_lo
    reached = (start + k * axis.dilation for k in range(axis.kernel))
    return [c for c in reached if c < axis.length + axis.pad_hi]


@st.composite
def axes(draw):
    length = draw(st.integers(1, 60))
    if draw(st.booleans()):
        return Adaptive(draw(st.integers(1, 80))).axes_of((length,))[0]
    kernel, stride, dilation = (draw(st.integers(1, n)) for n in (7, 9, 4))
    pads = draw(st.tuples(st.integers(0, 12), st.integers(0, 12)))
    reach = dilation * (kernel - 1) + 1
    pads = (pads[0] + max(0, reach - length), pads[1])
    return Window((kernel,), stride, (pads,), dilation, draw(st.booleans())).axes_of((length,))[0]


@settings(max_examples=600)
@given(axes(), st.data())
def test_a_piece_sees_the_cells_that_its_outputs_see(axis, data):
    first = data.draw(st.integers(0, axis.output - 1))
    stop = data.draw(st.integers(first + 1, axis.output))
    if not axis.adaptive and first * axis.stride - axis.pad_lo >= axis.length:
        return  # windows of padding alone, which `output_edges` leaves with others
    found = piece(axis, first, stop)
    assert 0 <= found.begin < found.end <= axis.length
    for i in range(first, stop):
        local = cells(found.axis, found.output + i - first)
        assert [c - found.cell + found.begin for c in local] == cells(axis, i)
    seen = {c for i in range(first, stop) for c in cells(axis, i) if 0 <= c < axis.length}
    if seen:
        assert (found.begin, found.end) == (min(found.begin, min(seen)), max(seen) + 1) or axis.dilation > 1
        assert found.begin >= max(0, cells(axis, first)[0])


@settings(max_examples=400)
@given(axes(), st.data())
def test_chunks_have_all_outputs_and_windows_of_padding_are_not_alone(axis, data):
    edges = sorted({0, axis.length, *data.draw(st.lists(st.integers(0, axis.length), max_size=6))})
    cuts = output_edges(axis, edges)
    assert cuts[0] == 0
    assert cuts[-1] == axis.output
    assert list(cuts) == sorted(set(cuts))
    for first, stop in pairwise(cuts):
        piece(axis, first, stop)
        assert axis.adaptive or first * axis.stride - axis.pad_lo < axis.length


@settings(max_examples=400)
@given(axes(), st.data())
def test_outputs_over_cells_are_all_that_see_one_of_them(axis, data):
    begin = data.draw(st.integers(0, axis.length - 1))
    end = data.draw(st.integers(begin + 1, axis.length))
    first, stop = outputs_over(axis, begin, end)
    seeing = [i for i in range(axis.output) if any(begin <= c < end for c in cells(axis, i))]
    assert 0 <= first <= stop <= axis.output
    assert all(first <= i < stop for i in seeing)


@settings(max_examples=300)
@given(st.integers(1, 5000), st.integers(1, 5000), st.data())
@example(1001, 1000, None)
def test_bins_of_a_piece_take_little_more_than_its_cells(length, output, data):
    """Whatever the whole axis is."""
    axis = Adaptive(output).axes_of((length,))[0]
    first = data.draw(st.integers(0, output - 1)) if data else 400
    stop = min(output, first + 50)
    found = piece(axis, first, stop)
    assert found.axis.length <= 12 * (found.end - found.begin) + 100
    assert isinstance(found.axis, Axis)
