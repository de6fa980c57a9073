# Made by `python -m ndpool.stubs` from the table of kinds and windows: change that, not this.
# ruff: noqa
# fmt: off

from . import c as c, graph as graph, layers as layers, ops as ops, spec as spec
from ._engine import get_num_threads as get_num_threads
from .checks import check_kind as check_kind
from .functional import *
from .graph import Graph as Graph
from .kind import Kind as Kind
from .kinds import Avg as Avg, Lp as Lp, Max as Max, Median as Median, Min as Min, Mode as Mode, Quantile as Quantile, SmoothMax as SmoothMax, Sum as Sum
from .pool import Pool as Pool, set_num_threads as set_num_threads
from .scalars import Dual as Dual
from .windows import Adaptive as Adaptive, Global as Global, Window as Window

__version__: str
__all__ = ['Adaptive', 'Avg', 'Dual', 'Global', 'Graph', 'Kind', 'Lp', 'Max', 'Median', 'Min', 'Mode', 'Pool', 'Quantile', 'SmoothMax', 'Sum', 'Window', 'adaptive_avg_pool', 'adaptive_avg_pool1d', 'adaptive_avg_pool2d', 'adaptive_avg_pool3d', 'adaptive_lp_pool', 'adaptive_lp_pool1d', 'adaptive_lp_pool2d', 'adaptive_lp_pool3d', 'adaptive_max_pool', 'adaptive_max_pool1d', 'adaptive_max_pool2d', 'adaptive_max_pool3d', 'adaptive_median_pool', 'adaptive_median_pool1d', 'adaptive_median_pool2d', 'adaptive_median_pool3d', 'adaptive_min_pool', 'adaptive_min_pool1d', 'adaptive_min_pool2d', 'adaptive_min_pool3d', 'adaptive_mode_pool', 'adaptive_mode_pool1d', 'adaptive_mode_pool2d', 'adaptive_mode_pool3d', 'adaptive_quantile_pool', 'adaptive_quantile_pool1d', 'adaptive_quantile_pool2d', 'adaptive_quantile_pool3d', 'adaptive_smooth_max_pool', 'adaptive_smooth_max_pool1d', 'adaptive_smooth_max_pool2d', 'adaptive_smooth_max_pool3d', 'adaptive_sum_pool', 'adaptive_sum_pool1d', 'adaptive_sum_pool2d', 'adaptive_sum_pool3d', 'avg_pool', 'avg_pool1d', 'avg_pool2d', 'avg_pool3d', 'c', 'check_kind', 'get_num_threads', 'global_avg_pool', 'global_lp_pool', 'global_max_pool', 'global_median_pool', 'global_min_pool', 'global_mode_pool', 'global_quantile_pool', 'global_smooth_max_pool', 'global_sum_pool', 'graph', 'layers', 'lp_pool', 'lp_pool1d', 'lp_pool2d', 'lp_pool3d', 'max_pool', 'max_pool1d', 'max_pool2d', 'max_pool3d', 'median_pool', 'median_pool1d', 'median_pool2d', 'median_pool3d', 'min_pool', 'min_pool1d', 'min_pool2d', 'min_pool3d', 'mode_pool', 'mode_pool1d', 'mode_pool2d', 'mode_pool3d', 'ops', 'quantile_pool', 'quantile_pool1d', 'quantile_pool2d', 'quantile_pool3d', 'set_num_threads', 'smooth_max_pool', 'smooth_max_pool1d', 'smooth_max_pool2d', 'smooth_max_pool3d', 'spec', 'sum_pool', 'sum_pool1d', 'sum_pool2d', 'sum_pool3d']
