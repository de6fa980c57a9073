"""Pyramids: an image of any size and its smaller levels, in OME-Zarr 0.5, made in one pass over the source.

`write` is all that one calls; the files beside this one are its parts.

    writing    `write`: what is asked for, checked; the order of the steps
    sources    what a pyramid is made of
    stored     chunks of Zarr as they are stored
    rooms      memory that is used again
    sizes      levels and blocks
    blocks     what is done with one block
    chunks     how the cells of a level are stored
    running    threads, or a cluster
    ome        metadata
    journal    what an interrupted run has done
"""

from .writing import Report, kind_of, write

__all__ = ["Report", "kind_of", "write"]
