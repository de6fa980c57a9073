"""Arrays of xarray: `pool(x)` of a DataArray or a Dataset goes to `dispatch`, which knows their labels."""
