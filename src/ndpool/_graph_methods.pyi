# Made by `python -m ndpool.stubs` from the table of kinds and windows: change that, not this.
# ruff: noqa
# fmt: off

from .graph import Var
from .windows import Ints, PaddingLike

class PoolingMethods:
    def max_pool(self, x: Var, kernel_size: Ints, stride: Ints | None = None, padding: PaddingLike = 0, *, dilation: Ints = 1, ceil_mode: bool = False, ties: str = "first", axes: Ints | None = None, name: str | None = None) -> Var: "The largest cell of each window, as `ndpool.max_pool` has it."
    max_pool1d = max_pool2d = max_pool3d = max_pool
    def min_pool(self, x: Var, kernel_size: Ints, stride: Ints | None = None, padding: PaddingLike = 0, *, dilation: Ints = 1, ceil_mode: bool = False, ties: str = "first", axes: Ints | None = None, name: str | None = None) -> Var: "The smallest cell of each window, as `ndpool.min_pool` has it."
    min_pool1d = min_pool2d = min_pool3d = min_pool
    def sum_pool(self, x: Var, kernel_size: Ints, stride: Ints | None = None, padding: PaddingLike = 0, *, dilation: Ints = 1, ceil_mode: bool = False, axes: Ints | None = None, name: str | None = None) -> Var: "The sum of the cells of each window, as `ndpool.sum_pool` has it."
    sum_pool1d = sum_pool2d = sum_pool3d = sum_pool
    def avg_pool(self, x: Var, kernel_size: Ints, stride: Ints | None = None, padding: PaddingLike = 0, *, dilation: Ints = 1, ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None, axes: Ints | None = None, name: str | None = None) -> Var: "The mean of the cells of each window, as `ndpool.avg_pool` has it."
    avg_pool1d = avg_pool2d = avg_pool3d = avg_pool
    def smooth_max_pool(self, x: Var, beta: float, kernel_size: Ints, stride: Ints | None = None, padding: PaddingLike = 0, *, dilation: Ints = 1, ceil_mode: bool = False, count_include_pad: bool = True, axes: Ints | None = None, name: str | None = None) -> Var: "The smooth maximum of each window, as `ndpool.smooth_max_pool` has it."
    smooth_max_pool1d = smooth_max_pool2d = smooth_max_pool3d = smooth_max_pool
    def lp_pool(self, x: Var, p: float, kernel_size: Ints, stride: Ints | None = None, padding: PaddingLike = 0, *, dilation: Ints = 1, ceil_mode: bool = False, axes: Ints | None = None, name: str | None = None) -> Var: "The p-norm of the cells of each window, as `ndpool.lp_pool` has it."
    lp_pool1d = lp_pool2d = lp_pool3d = lp_pool
    def adaptive_max_pool(self, x: Var, output_size: int | tuple[int | None, ...], *, ties: str = "first", axes: Ints | None = None, name: str | None = None) -> Var: "The largest cell of each of `output_size` even bins, as `ndpool.adaptive_max_pool` has it."
    adaptive_max_pool1d = adaptive_max_pool2d = adaptive_max_pool3d = adaptive_max_pool
    def adaptive_min_pool(self, x: Var, output_size: int | tuple[int | None, ...], *, ties: str = "first", axes: Ints | None = None, name: str | None = None) -> Var: "The smallest cell of each of `output_size` even bins, as `ndpool.adaptive_min_pool` has it."
    adaptive_min_pool1d = adaptive_min_pool2d = adaptive_min_pool3d = adaptive_min_pool
    def adaptive_sum_pool(self, x: Var, output_size: int | tuple[int | None, ...], *, axes: Ints | None = None, name: str | None = None) -> Var: "The sum of the cells of each of `output_size` even bins, as `ndpool.adaptive_sum_pool` has it."
    adaptive_sum_pool1d = adaptive_sum_pool2d = adaptive_sum_pool3d = adaptive_sum_pool
    def adaptive_avg_pool(self, x: Var, output_size: int | tuple[int | None, ...], *, axes: Ints | None = None, name: str | None = None) -> Var: "The mean of the cells of each of `output_size` even bins, as `ndpool.adaptive_avg_pool` has it."
    adaptive_avg_pool1d = adaptive_avg_pool2d = adaptive_avg_pool3d = adaptive_avg_pool
    def adaptive_smooth_max_pool(self, x: Var, beta: float, output_size: int | tuple[int | None, ...], *, axes: Ints | None = None, name: str | None = None) -> Var: "The smooth maximum of each of `output_size` even bins, as `ndpool.adaptive_smooth_max_pool` has it."
    adaptive_smooth_max_pool1d = adaptive_smooth_max_pool2d = adaptive_smooth_max_pool3d = adaptive_smooth_max_pool
    def adaptive_lp_pool(self, x: Var, p: float, output_size: int | tuple[int | None, ...], *, axes: Ints | None = None, name: str | None = None) -> Var: "The p-norm of the cells of each of `output_size` even bins, as `ndpool.adaptive_lp_pool` has it."
    adaptive_lp_pool1d = adaptive_lp_pool2d = adaptive_lp_pool3d = adaptive_lp_pool
    def global_max_pool(self, x: Var, *, ties: str = "all", axes: Ints = (-2, -1), keepdims: bool = True, name: str | None = None) -> Var: "The largest cell of the whole of `axes`, as `ndpool.global_max_pool` has it."
    def global_min_pool(self, x: Var, *, ties: str = "all", axes: Ints = (-2, -1), keepdims: bool = True, name: str | None = None) -> Var: "The smallest cell of the whole of `axes`, as `ndpool.global_min_pool` has it."
    def global_sum_pool(self, x: Var, *, axes: Ints = (-2, -1), keepdims: bool = True, name: str | None = None) -> Var: "The sum of the cells of the whole of `axes`, as `ndpool.global_sum_pool` has it."
    def global_avg_pool(self, x: Var, *, axes: Ints = (-2, -1), keepdims: bool = True, name: str | None = None) -> Var: "The mean of the cells of the whole of `axes`, as `ndpool.global_avg_pool` has it."
    def global_smooth_max_pool(self, x: Var, beta: float, *, axes: Ints = (-2, -1), keepdims: bool = True, name: str | None = None) -> Var: "The smooth maximum of the whole of `axes`, as `ndpool.global_smooth_max_pool` has it."
    def global_lp_pool(self, x: Var, p: float, *, axes: Ints = (-2, -1), keepdims: bool = True, name: str | None = None) -> Var: "The p-norm of the cells of the whole of `axes`, as `ndpool.global_lp_pool` has it."
