"""Labels, rasters and images: the same numbers as from the libraries that pool them elsewhere, where they are right."""

from __future__ import annotations

import warnings

import bottleneck
import cv2
import numpy as np
import pytest
import scipy.ndimage
import scipy.stats
import tinybrain
import xarray

from ndpool import (
    Avg,
    Max,
    Median,
    Min,
    Mode,
    Pool,
    Quantile,
    Sum,
    Window,
    avg_pool,
    max_pool,
    median_pool,
    mode_pool,
    quantile_pool,
)

DTYPES = ["uint8", "uint16", "int32", "uint64", "float32", "float64"]


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def image(rng, shape, dtype):
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def blocks(x, kernel):
    """(outputs..., cells) of windows side by side."""
    sides = [side for n, k in zip(x.shape, kernel, strict=True) for side in (n // k, k)]
    cut = x[tuple(slice(n // k * k) for n, k in zip(x.shape, kernel, strict=True))].reshape(sides)
    moved = cut.transpose(*range(0, 2 * x.ndim, 2), *range(1, 2 * x.ndim, 2))
    return moved.reshape(*moved.shape[: x.ndim], -1)


# --- Mode -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", [(2, 2), (3, 3), (2, 5), (7, 7)])
def test_mode_as_scipy(rng, dtype, kernel):
    """Of values that as many cells have, SciPy takes the smallest."""
    x = rng.integers(0, 4, (29, 37)).astype(dtype)
    want = scipy.stats.mode(blocks(x, kernel), axis=-1).mode
    np.testing.assert_array_equal(mode_pool(x, kernel, ties="smallest"), want)
    windows = np.lib.stride_tricks.sliding_window_view(x, kernel)
    want = scipy.stats.mode(windows.reshape(*windows.shape[:2], -1), axis=-1).mode
    np.testing.assert_array_equal(mode_pool(x, kernel, 1, ties="smallest"), want)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_mode_as_tinybrain(rng, dtype, order):
    """Where one value has more cells than any other, which is where ties do not come into it."""
    x = np.asarray(rng.integers(0, 3, (16, 18, 20)).astype(dtype), order=order)
    theirs = tinybrain.downsample_segmentation(np.asfortranarray(x[..., None]), factor=(2, 2, 2, 1), num_mips=1)[0]
    cells = blocks(x, (2, 2, 2))
    counts = np.sort(np.stack([(cells == value).sum(-1) for value in range(3)], -1), -1)
    clear = counts[..., -1] > counts[..., -2]
    assert clear.any()
    np.testing.assert_array_equal(mode_pool(x, (2, 2, 2))[clear], theirs[..., 0][clear])


# --- Median and Quantile --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
@pytest.mark.parametrize("k", [3, 5])
def test_median_as_opencv(rng, dtype, k):
    x = image(rng, (41, 57), dtype)
    inside = slice(k // 2, -(k // 2))
    y = quantile_pool(x, 0.5, (k, k), 1, method="lower")
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, cv2.medianBlur(x, k)[inside, inside])


@pytest.mark.parametrize("k", [7, 15, 31])
def test_wide_median_as_opencv(rng, k):
    x = image(rng, (83, 91), "uint8")
    inside = slice(k // 2, -(k // 2))
    y = quantile_pool(x, 0.5, (k, k), 1, method="lower")
    np.testing.assert_array_equal(y, cv2.medianBlur(x, k)[inside, inside])


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32", "float32", "float64"])  # SciPy rounds 64-bit integers
@pytest.mark.parametrize("k", [3, 5, 9])
def test_medians_as_scipy(rng, dtype, k):
    x = image(rng, (24, 31), dtype)
    inside = slice(k // 2, -(k // 2))
    filtered = scipy.ndimage.median_filter(x, k)[inside, inside]
    np.testing.assert_array_equal(quantile_pool(x, 0.5, (k, k), 1, method="lower"), filtered)
    np.testing.assert_array_equal(median_pool(x, (k, k), 1), filtered.astype(np.float64))


@pytest.mark.parametrize("q", [0.0, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("method", ["linear", "midpoint", "lower", "higher", "nearest"])
@pytest.mark.parametrize("dtype", ["uint8", "int32", "float32", "float64"])
def test_quantiles_as_numpy(rng, q, method, dtype):
    x = image(rng, (24, 30), dtype)
    for kernel in ((2, 2), (3, 3), (4, 5)):
        want = np.quantile(blocks(x, kernel).astype(np.float64), q, axis=-1, method=method)
        np.testing.assert_allclose(quantile_pool(x, q, kernel, method=method), want, rtol=1e-6, atol=1e-6)


# --- means that stay integers -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("factor", [(2, 2, 1), (2, 2, 2)])
def test_truncated_means_as_tinybrain(rng, dtype, factor):
    """It truncates. Of several levels at once it keeps the sums in between; one by one they darken."""
    x = np.asfortranarray(image(rng, (32, 24, 16), dtype))
    for _ in range(2):
        (theirs,) = tinybrain.downsample_with_averaging(x[..., None], factor=(*factor, 1), num_mips=1)
        x = avg_pool(x, factor, rounding="truncate")
        np.testing.assert_array_equal(x, theirs[..., 0])


# --- cells that are not there -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("min_count", [1, 3])
def test_missing_data_as_xarray(rng, dtype, min_count):
    x = image(rng, (24, 36), dtype)
    x[rng.random(x.shape) < 0.4] = np.nan
    x[:4, :4] = np.nan
    window = Window((4, 4))
    coarse = xarray.DataArray(x, dims=("i", "j")).coarsen(i=4, j=4)
    for kind, name in ((Avg(), "mean"), (Max(), "max"), (Min(), "min"), (Sum(), "sum"), (Median(), "median")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of blocks without a cell
            theirs = getattr(coarse, name)().values  # which leaves NaN out
        ours = Pool(kind, window, skip=np.nan)(x)
        if name == "sum":  # of no cell it is 0 there
            np.testing.assert_allclose(Pool(kind, window, skip=np.nan, min_count=0)(x), theirs, rtol=1e-5)
            continue
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
        there = np.isfinite(blocks(x, (4, 4))).sum(-1)
        few = Pool(kind, window, skip=np.nan, min_count=min_count)(x)
        np.testing.assert_allclose(few, np.where(there >= min_count, theirs, np.nan), rtol=1e-5, atol=1e-6)


def test_missing_data_as_bottleneck(rng):
    x = image(rng, (25, 31), "float64")
    x[rng.random(x.shape) < 0.5] = np.nan
    cells = np.ascontiguousarray(blocks(x, (5, 5)))
    np.testing.assert_allclose(avg_pool(x, (5, 5), skip=np.nan), bottleneck.nanmean(cells, -1), rtol=1e-12)
    np.testing.assert_array_equal(max_pool(x, (5, 5), skip=np.nan), bottleneck.nanmax(cells, -1))
    np.testing.assert_allclose(median_pool(x, (5, 5), skip=np.nan), bottleneck.nanmedian(cells, -1), rtol=1e-12)
    moved = bottleneck.move_mean(x, 4, min_count=2, axis=1)[:, 3:]
    np.testing.assert_allclose(avg_pool(x, (4,), 1, skip=np.nan, min_count=2), moved, rtol=1e-9)


def test_labels_without_a_background(rng):
    x = rng.integers(0, 3, (20, 20)).astype(np.uint16)
    cells = blocks(x, (5, 5))
    counts = np.stack([(cells == value).sum(-1) for value in (1, 2)], -1)
    want = np.where(counts.sum(-1) == 0, 0, 1 + counts.argmax(-1))
    np.testing.assert_array_equal(Pool(Mode("smallest"), Window((5, 5)), skip=0)(x), want)
    assert Pool(Quantile(0.5, "lower"), Window((5, 5)), skip=0)(x).min() > 0
