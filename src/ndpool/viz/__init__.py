"""Pictures of pools and programs. Each file draws one thing:

    seen        what each output of a pool sees, in numbers that can be drawn; `terminal`, `windows` and `page` read it
    windows     which cells each output sees, with Matplotlib
    arrays      an input beside its output, and where a cotangent goes, with Matplotlib
    terminal    what `ndpool explain` prints, with Rich
    page        what `ndpool explain --html` writes: one HTML file on which everything can be changed
    demo        the figure of `ndpool demo`, with Matplotlib
    programs    a program as a table of its nodes, and as a graph for Graphviz

Three functions are for you, and need Matplotlib (the extra `viz`):

    plot_windows(pool, shape)     which cells each output sees
    plot_pool(pool, x)            the input beside the output
    plot_gradient(pool, x, g)     where an output cotangent goes

Each returns a new figure, or draws into the `figure` that it is given, which may be a subfigure. Lines and letters take
the colours of Matplotlib's current style, so that dark styles work.
"""

from ..published import publish
from .arrays import plot_gradient, plot_pool
from .arrays import show_array as show_array
from .windows import plot_windows

__all__ = ["plot_gradient", "plot_pool", "plot_windows"]

publish(__name__)
