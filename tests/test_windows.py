"""Window, Adaptive and Global as values, the geometry they give, and every error they raise."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings

from ndpool import Adaptive, Avg, Global, Lp, Max, Min, Pool, SmoothMax, Sum, Window, global_max_pool, max_pool2d, spec
from strategies import ALL_KINDS, Case, cases


def test_windows_are_values():
    window = Window([3, 3], stride=[2, 2], padding=[(0, 1), 1])
    assert window == Window((3, 3), (2, 2), ((0, 1), 1))
    assert hash(window) == hash(Window((3, 3), (2, 2), ((0, 1), 1)))
    assert repr(window) == (
        "Window(kernel_size=(3, 3), stride=(2, 2), padding=((0, 1), 1), dilation=1, ceil_mode=False)"
    )
    assert eval(repr(window)) == window
    assert repr(Adaptive([3, None])) == "Adaptive(output_size=(3, None))"
    assert repr(Global()) == "Global(keepdims=True)"
    for value, field in [(window, "stride"), (Adaptive(3), "output_size"), (Global(), "keepdims")]:
        with pytest.raises(AttributeError, match="cannot assign"):
            setattr(value, field, 1)


def test_numpy_ints_are_ints():
    assert Window(np.int32(3)) == Window(3)
    assert type(Window(np.int32(3)).kernel_size) is int


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.int32])
def test_arrays_of_ints_are_tuples(dtype):
    """Wherever a tuple is taken; the window is the same value, of plain ints."""

    def ints(*numbers):
        return np.array(numbers, dtype)

    window = Window(ints(3, 2), ints(1, 2), ints((0, 1), (1, 0)), ints(1, 2))
    assert window == Window((3, 2), (1, 2), ((0, 1), (1, 0)), (1, 2))
    assert repr(window) == repr(Window((3, 2), (1, 2), ((0, 1), (1, 0)), (1, 2)))
    assert hash(window) == hash(Window((3, 2), (1, 2), ((0, 1), (1, 0)), (1, 2)))
    assert Window((3, 2), padding=ints(1, 0)) == Window((3, 2), padding=(1, 0))
    assert Window((3, 2), padding=(ints(1, 0), 1)) == Window((3, 2), padding=((1, 0), 1))
    assert Window(np.array(3, dtype), np.array(2, dtype)) == Window(3, 2)
    assert Adaptive(ints(2, 3)) == Adaptive((2, 3))
    pool = Pool(Max(), Window(2), axes=ints(0, 2))
    assert pool == Pool(Max(), Window(2), axes=(0, 2))
    assert Pool(Max(), Window(2), axes=np.array(1, dtype)) == Pool(Max(), Window(2), axes=1)
    assert pool.output_shape(ints(4, 5, 6)) == (2, 5, 3)
    assert all(type(n) is int for n in pool.output_shape(ints(4, 5, 6)))
    assert global_max_pool(X, axes=ints(0, 1)).shape == (1, 1, 4)


@pytest.mark.parametrize(
    ("window", "length", "output"),
    [
        (Window((2,)), 5, 2),
        (Window((2,), ceil_mode=True), 5, 3),
        (Window((3,), 2, 1), 112, 56),
        (Window((3,), 2, 1, ceil_mode=True), 112, 57),
        (Window((3,), 1, dilation=2), 9, 5),
        (Window((4,), 3, ceil_mode=True), 8, 3),
        # The window that ceil_mode would add starts in the right padding, and is dropped.
        (Window((2,), 2, 1, ceil_mode=True), 4, 3),
        (Window((1,), 2, 0, ceil_mode=True), 4, 2),
        # ceil_mode lets a window overhang, even the only one.
        (Window((4,), 2, ceil_mode=True), 3, 1),
        (Window((2,), 1, padding=((3, 0),)), 2, 4),
        (Window((3,), 2, "same"), 7, 4),
        (Window((3,), 2, "same"), 8, 4),
        (Window((3,), 2, "valid"), 7, 3),
        (Adaptive((3,)), 5, 3),
        (Adaptive((None,)), 5, 5),
        (Adaptive((7,)), 4, 7),
        (Global(), 9, 1),
    ],
)
def test_output_size(window, length, output):
    assert Pool(Sum(), window, axes=0).output_shape((length,)) == (output,)


def test_same_puts_the_odd_cell_at_the_end_or_the_start():
    assert Window((2,), 1, "same").axes_of([4])[0].pad_lo == 0
    assert Window((2,), 1, "same").axes_of([4])[0].pad_hi == 1
    assert Window((2,), 1, "same_lower").axes_of([4])[0].pad_lo == 1
    assert Window((2,), 1, "same_lower").axes_of([4])[0].pad_hi == 0


def test_output_shape_of_any_axes():
    pool = Pool(Max(), Window((2, 3)), axes=(3, 1))
    assert pool.output_shape((5, 6, 7, 8)) == (5, 2, 7, 4)
    assert Pool(Avg(), Global(keepdims=False), axes=(0, 2)).output_shape((5, 6, 7)) == (6,)
    assert Pool(Avg(), Global(), axes=(0, 2)).output_shape((5, 6, 7)) == (1, 6, 1)
    assert Pool(Max(), Window(2), axes=-1).output_shape((0, 6)) == (0, 3)


@given(cases(ALL_KINDS))
def test_geometry_agrees_with_the_definition(case: Case):
    """The closed formulas here, against the enumeration of the specification."""
    layout = case.pool._layout(case.shape)
    seen = spec.windows(case.pool, case.shape)
    assert len(seen) == np.prod([axis.output for axis in layout.geometry])
    for out, cells in seen.items():
        lines = [_line(axis, i) for axis, i in zip(layout.geometry, out, strict=True)]
        assert len(cells) == np.prod([len(line) for line in lines])
        assert len([c for c in cells if c is not None]) == np.prod([sum(p is not None for p in line) for line in lines])
        real = [c for c in cells if c is not None]
        for d, line in enumerate(lines):
            if real:
                assert sorted({c[d] for c in real}) == [p for p in line if p is not None]


def _line(axis, i):
    if axis.adaptive:
        return list(range(i * axis.length // axis.output, -(-(i + 1) * axis.length // axis.output)))
    places = [i * axis.stride - axis.pad_lo + k * axis.dilation for k in range(axis.kernel)]
    return [p if 0 <= p < axis.length else None for p in places if p < axis.length + axis.pad_hi]


@given(cases([Sum()], max_rank=1, max_side=12))
@settings(max_examples=300, deadline=None)
def test_empty_windows_are_found_from_the_shape(case: Case):
    seen = spec.windows(case.pool, case.shape)
    empty = [out[0] for out, cells in seen.items() if all(cell is None for cell in cells)]
    assert case.pool._layout(case.shape).geometry[0].empty_window() == (empty[0] if empty else None)


# --- errors: the argument, the value, the rule, the remedy ----------------------------------------

X = np.arange(24.0).reshape(2, 3, 4)

ERRORS = [
    (lambda: Window(0), ValueError, "kernel_size=0 is less than 1; give an int >= 1"),
    (lambda: Window((2, 0)), ValueError, "kernel_size[1]=0 is less than 1"),
    (lambda: Window(-3), ValueError, "kernel_size=-3 is less than 1"),
    (lambda: Window(True), TypeError, "kernel_size=True is a bool; give an int >= 1"),
    (lambda: Window(2.0), TypeError, "kernel_size=2.0 is a float, which would have to be rounded"),
    (lambda: Window("2"), TypeError, "kernel_size='2' is a str; give an int >= 1"),
    (lambda: Window(b"22"), TypeError, "kernel_size=b'22' is a bytes; give an int >= 1"),
    (lambda: Window({2, 3}), TypeError, "kernel_size={2, 3} is a set; give an int >= 1"),
    (lambda: Window(np.array([2.0, 3.0])), TypeError, "kernel_size[0]=2.0 is a float, which would have to be rounded"),
    (lambda: Window(np.array([True])), TypeError, "kernel_size[0]=True is a bool"),
    (lambda: Window(np.array([[2, 3]])), TypeError, "kernel_size[0]=[2, 3] is a list; give an int >= 1"),
    (lambda: Window(np.array([2, 0])), ValueError, "kernel_size[1]=0 is less than 1"),
    (lambda: Window(np.array([], int)), ValueError, "kernel_size=[] is empty"),
    (lambda: Window(np.float32(2)), TypeError, "kernel_size=2.0 is a float, which would have to be rounded"),
    (lambda: Window(Fraction(2)), TypeError, "kernel_size=Fraction(2, 1) is a Fraction, which would have to be round"),
    (lambda: Window((2, 2), np.array([1, 1, 1])), ValueError, "stride=(1, 1, 1) has 3 entries and 2 axes are pooled"),
    (lambda: Window(2, padding=np.array([[1, 2, 3]])), ValueError, "padding[0]=[1, 2, 3] has 3 entries"),
    (lambda: Window(2, padding=np.array([[0, -1]])), ValueError, "padding[0][1]=-1 is less than 0"),
    (lambda: Window(2, padding=np.array([0.5])), TypeError, "padding[0]=0.5 is a float"),
    (lambda: Window(2, padding=b"same"), TypeError, "padding=b'same' is a bytes; give an int >= 0"),
    (lambda: Adaptive(np.array([2.0])), TypeError, "output_size[0]=2.0 is a float"),
    (lambda: Pool(Max(), Window(2), axes=np.array([0.0])), TypeError, "axes=0.0 is a float"),
    (lambda: Pool(Max(), Window(2), axes=np.array([], int)), ValueError, "axes=() pools nothing"),
    (lambda: Window(None), TypeError, "kernel_size=None is a NoneType"),
    (lambda: Window(()), ValueError, "kernel_size=() is empty"),
    (lambda: Window(2, 0), ValueError, "stride=0 is less than 1"),
    (lambda: Window(2, False), TypeError, "stride=False is a bool"),
    (lambda: Window(2, 1.5), TypeError, "stride=1.5 is a float"),
    (lambda: Window(2, dilation=0), ValueError, "dilation=0 is less than 1"),
    (lambda: Window(2, dilation=True), TypeError, "dilation=True is a bool"),
    (lambda: Window(2, dilation=(1, 1.0)), TypeError, "dilation[1]=1.0 is a float"),
    (lambda: Window(2, padding=-1), ValueError, "padding=-1 is less than 0; give an int >= 0"),
    (lambda: Window((2,), padding=((0, -1),)), ValueError, "padding[0][1]=-1 is less than 0"),
    (lambda: Window((2,), padding=((0, 1, 2),)), ValueError, "padding[0]=(0, 1, 2) has 3 entries"),
    (lambda: Window(2, padding=1.0), TypeError, "padding=1.0 is a float"),
    (lambda: Window(2, padding=()), ValueError, "padding=() is empty"),
    (lambda: Window(2, padding="full"), ValueError, "padding='full' is not a padding word; give one of ('valid'"),
    (lambda: Window((2, 2), stride=(1, 1, 1)), ValueError, "stride=(1, 1, 1) has 3 entries and 2 axes are pooled"),
    (lambda: Window((2, 2), padding=(1,)), ValueError, "padding=(1,) has 1 entries and 2 axes are pooled"),
    (lambda: Window((2, 2), dilation=(1, 1, 1)), ValueError, "dilation=(1, 1, 1) has 3 entries"),
    (lambda: Pool(Max(), Window(2, stride=(1, 1)), axes=0), ValueError, "stride=(1, 1) has 2 entries and 1 axes"),
    (lambda: Window(2, ceil_mode=1), TypeError, "ceil_mode=1 is not a bool"),
    (lambda: Window(2, ceil=True), TypeError, "unexpected keyword argument 'ceil'"),
    (lambda: Adaptive(0), ValueError, "output_size=0 is less than 1"),
    (lambda: Adaptive((2, 0)), ValueError, "output_size[1]=0 is less than 1"),
    (lambda: Adaptive(True), TypeError, "output_size=True is a bool"),
    (lambda: Adaptive(2.5), TypeError, "output_size=2.5 is a float"),
    (lambda: Adaptive(()), ValueError, "output_size=() is empty"),
    (lambda: Global(keepdims=1), TypeError, "keepdims=1 is not a bool"),
    (lambda: Pool(Max(), Window(2)), ValueError, "does not say how many axes to pool; give axes=..."),
    (lambda: Pool(Max(), Adaptive(2)), ValueError, "Adaptive(output_size=2) does not say how many axes to pool"),
    (lambda: Pool(Max(), Global()), ValueError, "Global(keepdims=True) does not say how many axes to pool"),
    (lambda: Pool(Max(), Window((2, 2)), axes=1), ValueError, "axes=(1,) names 1 axes and Window("),
    (lambda: Pool(Max(), Global(), axes=()), ValueError, "axes=() pools nothing"),
    (lambda: Pool(Max(), Window(2), axes=1.0), TypeError, "axes=1.0 is a float"),
    (lambda: Pool(Max(), Window(2), axes=(0, 0))(X), ValueError, "axes=(0, 0) names an axis of shape (2, 3, 4) twice"),
    (lambda: Pool(Max(), Window(2), axes=(1, -2))(X), ValueError, "axes=(1, -2) names an axis"),
    (lambda: Pool(Max(), Window(2), axes=3)(X), ValueError, "3 is out of range for shape (2, 3, 4); give -3 to 2"),
    (lambda: Pool(Max(), Window(2), axes=-4)(X), ValueError, "-4 is out of range for shape (2, 3, 4)"),
    (lambda: max_pool2d([1.0, 2.0], 2), ValueError, "2 axes are pooled and the input of shape (2,) has 1"),
    (
        lambda: Pool(Max(), Window((5,)))(X),
        ValueError,
        "kernel_size=5 with dilation=1 reaches over 5 cells, and the padded axis has 4 (length 4, padding 0 and 0)",
    ),
    (lambda: Pool(Max(), Window((3,), dilation=2))(X), ValueError, "with dilation=2 reaches over 5 cells"),
    (lambda: Pool(Sum(), Window((9,), 1, ceil_mode=True))(X), ValueError, "kernel_size=9 with dilation=1 reaches"),
    (lambda: Pool(Max(), Window((1,)))(np.zeros((3, 0))), ValueError, "axis 1 of shape (3, 0) is pooled and has"),
    (lambda: global_max_pool(np.zeros((0, 4))), ValueError, "axis 0 of shape (0, 4) is pooled and has length 0"),
    (lambda: Pool(Max(), Window((2,))).output_shape((-4,)), ValueError, "shape=-4 is less than 0"),
    (lambda: Pool(Max(), Window((2,))).output_shape(4), TypeError, "shape=4 is a int; give one int for each axis"),
    (lambda: Pool(Max(), Window((2,))).output_shape("4"), TypeError, "shape='4' is a str; give one int for each axis"),
    (lambda: Pool(Max(), Window((2,))).output_shape([4.0]), TypeError, "shape=4.0 is a float"),
    (lambda: Pool(Max(), (2, 2)), TypeError, "window=(2, 2) is not a window"),
    (lambda: Pool("max", Window((2,))), TypeError, "kind='max' is not a Kind"),
]


@pytest.mark.parametrize(("act", "error", "message"), ERRORS, ids=[message for _, _, message in ERRORS])
def test_error(act, error, message):
    with pytest.raises(error, match=re.escape(message)):
        act()


NEED_A_CELL = [Max(), Min(), Lp(2), Avg(count_include_pad=False), SmoothMax(1.0, count_include_pad=False)]


@pytest.mark.parametrize("kind", NEED_A_CELL, ids=repr)
@pytest.mark.parametrize(
    ("window", "output"),
    [
        (Window((2,), 1, padding=2), 0),
        (Window((2,), 1, padding=((0, 2),)), 4),
        (Window((2,), 2, padding=((0, 4),)), 2),
        (Window((2,), 1, padding=((3, 1),), dilation=7), 0),
    ],
    ids=repr,
)
def test_window_without_a_real_cell(kind, window, output):
    """Found from the shapes alone: `output_shape` says it too."""
    message = (
        rf"output {output} along axis 0 of shape \(4,\) sees no real cell, only padding, and {type(kind).__name__}"
    )
    with pytest.raises(ValueError, match=message):
        Pool(kind, window).output_shape((4,))
    with pytest.raises(ValueError, match=message):
        Pool(kind, window)(np.zeros(4))


def test_window_without_a_real_cell_where_it_has_a_value():
    x = np.array([1.0, 2.0])
    window = Window((2,), 2, padding=2)
    np.testing.assert_array_equal(Pool(Sum(), window)(x), [0, 3, 0])
    np.testing.assert_array_equal(Pool(Avg(), window)(x), [0, 1.5, 0])
    np.testing.assert_array_equal(Pool(Avg(False, divisor_override=3), window)(x), [0, 1, 0])
    np.testing.assert_allclose(Pool(SmoothMax(1.0), window)(x)[[0, 2]], np.log(2))
