"""Dask arrays: any pool across any chunks, lazily, equal to the pool of the whole array.

`pool(x)` of a Dask array goes here. So do all functions, `pool.jvp`, `pool.vjp` and `pool.linearize`, which take and
give Dask arrays.

    dispatch   what a `Pool` does when it is given a Dask array
    blocks     graphs: which chunks a piece is made of
    tasks      what one task does, to NumPy arrays
    trees      one window over whole axes, from the partial results of chunks
"""
