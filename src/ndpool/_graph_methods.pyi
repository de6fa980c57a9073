# Made by `python -m ndpool.stubs` from the table of kinds and windows: change that, not this.
# ruff: noqa
# fmt: off

from .graph import Var
from .windows import Ints, PaddingLike

class PoolingMethods:
    def max_pool(self, x: Var, kernel_size: Ints, stride: Ints | None = None, padding: PaddingLike = 0, *, dilation: Ints = 1, ceil_mode: bool = False, ties: str = "first", skip: float | None = None, min_count: int = 1, axes: Ints | None = None, name: str | None = None) -> Var: "The largest cell of each window, as `ndpool.max_pool` has it."
    max_pool1d = max_pool2d = max_pool3d = max_pool
    def min_pool(self, x: Var, kernel_size: Ints, stride: Ints | None = None, padding: PaddingLike = 0, *, dilation: Ints = 1, ceil_mode: bool = False, ties: str = "first", skip: float | None = None, min_count: int = 1, axes: Ints | None = None, name: str | None = None) -> Var: "The smallest cell of each window, as `ndpool.min_pool` has it."
    min_pool1d = min_pool2d = min_pool3d = min_pool
    def mode_pool(self, x: Var, kernel_size: Ints, stride: Ints | None = None, padding: PaddingLike = 0, *, dilation: Ints = 1, ceil_mode: bool = False, ties: str = "first", skip: float | None = None, min_count: int = 1, axes: Ints | None = None, name: str | None = None) -> Var: "The value that most cells have of each window, as `ndpool.mode_pool` has it."
    mode_pool1d = mode_pool2d = mode_pool3d = mode_pool
    def quantile_pool(self, x: Var, q: float, kernel_size: Ints, stride: Ints | None = None, padding: PaddingLike = 0, *, dilation: Ints = 1, ceil_mode: bool = False, method: str = "linear", skip: float | None = None, min_count: int = 1, axes: Ints | None = None, name: str | None = None) -> Var: "The quantile of the cells of each window, as `ndpool.quantile_pool` has it."
    quantile_pool1d = quantile_pool2d = quantile_pool3d = quantile_pool
    def median_pool(self, x: Var, kernel_size: Ints, stride: Ints | None = None, padding: PaddingLike = 0, *, dilation: Ints = 1, ceil_mode: bool = False, skip: float | None = None, min_count: int = 1, axes: Ints | None = None, name: str | None = None) -> Var: "The median of the cells of each window, as `ndpool.median_pool` has it."
    median_pool1d = median_pool2d = median_pool3d = median_pool
    def sum_pool(self, x: Var, kernel_size: Ints, stride: Ints | None = None, padding: PaddingLike = 0, *, dilation: Ints = 1, ceil_mode: bool = False, skip: float | None = None, min_count: int = 1, axes: Ints | None = None, name: str | None = None) -> Var: "The sum of the cells of each window, as `ndpool.sum_pool` has it."
    sum_pool1d = sum_pool2d = sum_pool3d = sum_pool
    def avg_pool(self, x: Var, kernel_size: Ints, stride: Ints | None = None, padding: PaddingLike = 0, *, dilation: Ints = 1, ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None, rounding: str | None = None, skip: float | None = None, min_count: int = 1, axes: Ints | None = None, name: str | None = None) -> Var: "The mean of the cells of each window, as `ndpool.avg_pool` has it."
    avg_pool1d = avg_pool2d = avg_pool3d = avg_pool
    def smooth_max_pool(self, x: Var, beta: float, kernel_size: Ints, stride: Ints | None = None, padding: PaddingLike = 0, *, dilation: Ints = 1, ceil_mode: bool = False, count_include_pad: bool = True, skip: float | None = None, min_count: int = 1, axes: Ints | None = None, name: str | None = None) -> Var: "The smooth maximum of each window, as `ndpool.smooth_max_pool` has it."
    smooth_max_pool1d = smooth_max_pool2d = smooth_max_pool3d = smooth_max_pool
    def lp_pool(self, x: Var, p: float, kernel_size: Ints, stride: Ints | None = None, padding: PaddingLike = 0, *, dilation: Ints = 1, ceil_mode: bool = False, skip: float | None = None, min_count: int = 1, axes: Ints | None = None, name: str | None = None) -> Var: "The p-norm of the cells of each window, as `ndpool.lp_pool` has it."
    lp_pool1d = lp_pool2d = lp_pool3d = lp_pool
    def adaptive_max_pool(self, x: Var, output_size: int | tuple[int | None, ...], *, ties: str = "first", skip: float | None = None, min_count: int = 1, axes: Ints | None = None, name: str | None = None) -> Var: "The largest cell of each of `output_size` even bins, as `ndpool.adaptive_max_pool` has it."
    adaptive_max_pool1d = adaptive_max_pool2d = adaptive_max_pool3d = adaptive_max_pool
    def adaptive_min_pool(self, x: Var, output_size: int | tuple[int | None, ...], *, ties: str = "first", skip: float | None = None, min_count: int = 1, axes: Ints | None = None, name: str | None = None) -> Var: "The smallest cell of each of `output_size` even bins, as `ndpool.adaptive_min_pool` has it."
    adaptive_min_pool1d = adaptive_min_pool2d = adaptive_min_pool3d = adaptive_min_pool
    def adaptive_mode_pool(self, x: Var, output_size: int | tuple[int | None, ...], *, ties: str = "first", skip: float | None = None, min_count: int = 1, axes: Ints | None = None, name: str | None = None) -> Var: "The value that most cells have of each of `output_size` even bins, as `ndpool.adaptive_mode_pool` has it."
    adaptive_mode_pool1d = adaptive_mode_pool2d = adaptive_mode_pool3d = adaptive_mode_pool
    def adaptive_quantile_pool(self, x: Var, q: float, output_size: int | tuple[int | None, ...], *, method: str = "linear", skip: float | None = None, min_count: int = 1, axes: Ints | None = None, name: str | None = None) -> Var: "The quantile of the cells of each of `output_size` even bins, as `ndpool.adaptive_quantile_pool` has it."
    adaptive_quantile_pool1d = adaptive_quantile_pool2d = adaptive_quantile_pool3d = adaptive_quantile_pool
    def adaptive_median_pool(self, x: Var, output_size: int | tuple[int | None, ...], *, skip: float | None = None, min_count: int = 1, axes: Ints | None = None, name: str | None = None) -> Var: "The median of the cells of each of `output_size` even bins, as `ndpool.adaptive_median_pool` has it."
    adaptive_median_pool1d = adaptive_median_pool2d = adaptive_median_pool3d = adaptive_median_pool
    def adaptive_sum_pool(self, x: Var, output_size: int | tuple[int | None, ...], *, skip: float | None = None, min_count: int = 1, axes: Ints | None = None, name: str | None = None) -> Var: "The sum of the cells of each of `output_size` even bins, as `ndpool.adaptive_sum_pool` has it."
    adaptive_sum_pool1d = adaptive_sum_pool2d = adaptive_sum_pool3d = adaptive_sum_pool
    def adaptive_avg_pool(self, x: Var, output_size: int | tuple[int | None, ...], *, rounding: str | None = None, skip: float | None = None, min_count: int = 1, axes: Ints | None = None, name: str | None = None) -> Var: "The mean of the cells of each of `output_size` even bins, as `ndpool.adaptive_avg_pool` has it."
    adaptive_avg_pool1d = adaptive_avg_pool2d = adaptive_avg_pool3d = adaptive_avg_pool
    def adaptive_smooth_max_pool(self, x: Var, beta: float, output_size: int | tuple[int | None, ...], *, skip: float | None = None, min_count: int = 1, axes: Ints | None = None, name: str | None = None) -> Var: "The smooth maximum of each of `output_size` even bins, as `ndpool.adaptive_smooth_max_pool` has it."
    adaptive_smooth_max_pool1d = adaptive_smooth_max_pool2d = adaptive_smooth_max_pool3d = adaptive_smooth_max_pool
    def adaptive_lp_pool(self, x: Var, p: float, output_size: int | tuple[int | None, ...], *, skip: float | None = None, min_count: int = 1, axes: Ints | None = None, name: str | None = None) -> Var: "The p-norm of the cells of each of `output_size` even bins, as `ndpool.adaptive_lp_pool` has it."
    adaptive_lp_pool1d = adaptive_lp_pool2d = adaptive_lp_pool3d = adaptive_lp_pool
    def global_max_pool(self, x: Var, *, ties: str = "all", skip: float | None = None, min_count: int = 1, axes: Ints = (-2, -1), keepdims: bool = True, name: str | None = None) -> Var: "The largest cell of the whole of `axes`, as `ndpool.global_max_pool` has it."
    def global_min_pool(self, x: Var, *, ties: str = "all", skip: float | None = None, min_count: int = 1, axes: Ints = (-2, -1), keepdims: bool = True, name: str | None = None) -> Var: "The smallest cell of the whole of `axes`, as `ndpool.global_min_pool` has it."
    def global_mode_pool(self, x: Var, *, ties: str = "first", skip: float | None = None, min_count: int = 1, axes: Ints = (-2, -1), keepdims: bool = True, name: str | None = None) -> Var: "The value that most cells have of the whole of `axes`, as `ndpool.global_mode_pool` has it."
    def global_quantile_pool(self, x: Var, q: float, *, method: str = "linear", skip: float | None = None, min_count: int = 1, axes: Ints = (-2, -1), keepdims: bool = True, name: str | None = None) -> Var: "The quantile of the cells of the whole of `axes`, as `ndpool.global_quantile_pool` has it."
    def global_median_pool(self, x: Var, *, skip: float | None = None, min_count: int = 1, axes: Ints = (-2, -1), keepdims: bool = True, name: str | None = None) -> Var: "The median of the cells of the whole of `axes`, as `ndpool.global_median_pool` has it."
    def global_sum_pool(self, x: Var, *, skip: float | None = None, min_count: int = 1, axes: Ints = (-2, -1), keepdims: bool = True, name: str | None = None) -> Var: "The sum of the cells of the whole of `axes`, as `ndpool.global_sum_pool` has it."
    def global_avg_pool(self, x: Var, *, rounding: str | None = None, skip: float | None = None, min_count: int = 1, axes: Ints = (-2, -1), keepdims: bool = True, name: str | None = None) -> Var: "The mean of the cells of the whole of `axes`, as `ndpool.global_avg_pool` has it."
    def global_smooth_max_pool(self, x: Var, beta: float, *, skip: float | None = None, min_count: int = 1, axes: Ints = (-2, -1), keepdims: bool = True, name: str | None = None) -> Var: "The smooth maximum of the whole of `axes`, as `ndpool.global_smooth_max_pool` has it."
    def global_lp_pool(self, x: Var, p: float, *, skip: float | None = None, min_count: int = 1, axes: Ints = (-2, -1), keepdims: bool = True, name: str | None = None) -> Var: "The p-norm of the cells of the whole of `axes`, as `ndpool.global_lp_pool` has it."
