"""ndpool for PyTorch: the same numbers, faster, differentiable every way, and the pools that PyTorch does not have.

    >>> import torch
    >>> import ndpool.torch
    >>> import ndpool.torch.functional as F
    >>> F.max_pool2d(torch.eye(4)[None], 2)
    tensor([[[1., 0.],
             [0., 1.]]])

`functional` has the functions, `nn` the modules, `convert(model)` puts them into a model that exists, and
`revert(model)` takes them out again.
"""

from . import functional, nn, operators
from .conversion import Report, convert, revert

__all__ = ["Report", "convert", "functional", "nn", "operators", "revert"]
