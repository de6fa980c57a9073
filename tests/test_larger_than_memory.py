"""Dask, xarray and Zarr where they are not installed, and what is refused before they are asked for.

What they do is tested by `make test-dask`.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest

from ndpool import Max, Pool, Window
from ndpool.cli import main
from processes import run_python

MISSING = "import sys; sys.modules.update(dict.fromkeys(('dask', 'distributed', 'xarray', 'zarr', 'tifffile')))\n"


def test_nobody_loads_them_unasked():
    said = run_python(
        "import ndpool, ndpool.pyramid, sys; print([m for m in ('dask', 'xarray', 'zarr') if m in sys.modules])"
    )
    assert said == ["[]"]


def test_arrays_are_pooled_without_them():
    said = run_python(MISSING + "import ndpool; print(ndpool.max_pool([1, 5, 2, 3], (2,)))")
    assert said == ["[5", "3]"]


def test_the_command_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "zarr", None)
    np.save(tmp_path / "x.npy", np.zeros((4, 4)))
    assert main(["pyramid", str(tmp_path / "x.npy"), str(tmp_path / "a.zarr")]) == 2
    assert "this needs zarr; install it with: pip install 'ndpool[zarr]'" in capsys.readouterr().err
    assert not (tmp_path / "a.zarr").exists()


@pytest.mark.parametrize(
    ("axes", "error", "message"),
    [
        (
            "y",
            TypeError,
            r"axes=\('y',\) are names, and x has no named dimensions; give numbers, or an array of xarray",
        ),
        (("y", 1), TypeError, "mixes names and numbers; give either"),
        (("y", "y"), ValueError, "names a dimension twice; name each pooled dimension once"),
    ],
)
def test_names_of_dimensions(axes, error, message):
    with pytest.raises(error, match=message):
        Pool(Max(), Window(2), axes=axes)(np.zeros((4, 4)))
