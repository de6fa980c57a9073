"""What each output of a pool sees, in a form that can be drawn: in numbers, and as a page of its own.

lines(pool, shape)   one `Line` for each pooled axis: the places that each output looks at
page(pool, x)        one HTML file without any network, on which the window, the kind and the numbers can be changed
"""

from .viz.page import page
from .viz.seen import Line, divisor, lines

__all__ = ["Line", "divisor", "lines", "page"]
