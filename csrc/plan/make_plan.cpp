#include "plan/make_plan.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace ndpool {
namespace {

// No number of a window is above this. So no sum of a few of them, nor the bytes of so many elements, overflows.
constexpr i64 LARGEST = i64(1) << 40;

bool is_pooled(const std::vector<i64> &dim) { return dim.size() == 8; }

Axis axis_of(const std::vector<i64> &numbers) {
    for (i64 number : numbers)
        if (number > LARGEST) throw std::overflow_error("a number of the window is above 2**40");
    Axis axis{numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6], numbers[7] != 0};
    bool sound = axis.length >= 1 && axis.output >= 1 && axis.kernel >= 1 && axis.stride >= 1 && axis.dilation >= 1 &&
                 axis.pad_lo >= 0 && axis.pad_hi >= 0 && (!axis.adaptive || (axis.pad_lo == 0 && axis.pad_hi == 0));
    if (sound && axis.adaptive) {
        // Where a bin starts is a quotient of such a product.
        counted_product(axis.length, axis.output + 1, "an adaptive axis has", "cells times outputs");
        sound = axis.kernel >= std::min(axis.length, axis.length / axis.output + 2);
    } else if (sound) {
        // The last window starts no later than the padded end.
        sound = counted_product(axis.output - 1, axis.stride, "the windows step over", "cells") <=
                axis.length + axis.pad_lo + axis.pad_hi;
    }
    if (!sound) throw std::invalid_argument("the numbers of an axis do not make a window");
    if (counted_product(axis.dilation, axis.kernel, "a window reaches over", "cells") > LARGEST)
        throw std::overflow_error("a window reaches over more than 2**40 cells");
    return axis;
}

// Whether every window has as many cells as the kernel: real ones, or those that count. Only the windows at the two
// ends can differ.
bool same_for_all(const Axis &axis, bool real) {
    if (axis.adaptive) return false;
    auto count = [&](i64 o) { return real ? axis.taps(o).count : axis.counted(o); };
    return count(0) == axis.kernel && count(axis.output - 1) == axis.kernel;
}

bool has_padding(const Axis &axis) { return axis.pad_lo > 0 || axis.pad_hi > 0; }

bool is_one_window(const std::vector<i64> &dim) {
    if (!is_pooled(dim)) return false;
    const Axis axis = axis_of(dim);
    return axis.output == 1 && axis.kernel == axis.length && axis.dilation == 1 && axis.pad_lo == 0 && axis.pad_hi == 0;
}

// Pooled neighbours of which each has one window over all its cells become one dimension: their cells lie side by side,
// and a place in the one window is the same place in the other.
Dims joined(const Dims &dims) {
    Dims out;
    for (const auto &dim : dims) {
        if (out.empty() || !is_one_window(out.back()) || !is_one_window(dim)) {
            out.push_back(dim);
            continue;
        }
        const i64 cells = counted_product(out.back()[0], dim[0], "a window has", "cells");
        out.back() = {cells, 1, cells, cells, 1, 0, 0, 0};
    }
    return out;
}

int last_pooled(const Dims &dims) {
    if (dims.size() > MAX_DIMS)
        throw std::invalid_argument("the array has " + std::to_string(dims.size()) + " dimensions; there may be " +
                                    std::to_string(MAX_DIMS));
    int last = -1;
    for (std::size_t d = 0; d < dims.size(); ++d) {
        if (is_pooled(dims[d]))
            last = static_cast<int>(d);
        else if (dims[d].size() != 1 || dims[d][0] < 0)
            throw std::invalid_argument("a dimension is one number, its length, or the eight of a pooled axis");
    }
    if (last < 0) throw std::invalid_argument("no dimension is pooled");
    return last;
}

// Takes one pooled axis into the plan's totals.
void add_axis(Plan &plan, const Axis &axis, bool is_last) {
    plan.same_count &= same_for_all(axis, false);
    plan.same_real &= same_for_all(axis, true);
    plan.padded |= has_padding(axis);
    if (!is_last) plan.outer_cells = counted_product(plan.outer_cells, axis.kernel, "a window has", "rows");
    plan.cells = counted_product(plan.cells, axis.kernel, "a window has", "cells");
    plan.axes[plan.axis_count++] = axis;
}

// Rows, slabs and strides, from the dimensions.
void count_elements(Plan &plan) {
    auto elements = [](i64 a, i64 b, const char *whose) { return counted_product(a, b, whose, "elements"); };
    const char *const input = "the input has", *const output = "the output has";
    for (int d = 0; d < plan.dim_count; ++d) {
        plan.in_rows = elements(plan.in_rows, plan.dims[d].in_count, input);
        plan.out_rows = elements(plan.out_rows, plan.dims[d].out_count, output);
    }
    plan.in_row = elements(plan.last().length, plan.inner, input);
    plan.out_row = elements(plan.last().output, plan.inner, output);
    plan.in_slab = elements(plan.in_rows, plan.in_row, input);
    plan.out_slab = elements(plan.out_rows, plan.out_row, output);
    // Their bytes are counted as well, in elements of up to 16.
    elements(elements(plan.outer, plan.in_slab, input), 16, input);
    elements(elements(plan.outer, plan.out_slab, output), 16, output);
    i64 stride = plan.in_row;
    for (int d = plan.dim_count - 1; d >= 0; --d) {
        plan.dims[d].in_stride = stride;
        stride = elements(stride, plan.dims[d].in_count, input);
    }
}

}  // namespace

i64 counted_product(i64 a, i64 b, const char *what, const char *units) {
    i64 result;
    if (__builtin_mul_overflow(a, b, &result))
        throw std::overflow_error(std::string(what) + " more than 2**63 " + units);
    return result;
}

Plan make_plan(const Dims &given, bool join) {
    const Dims dims = join ? joined(given) : given;
    const int last = last_pooled(dims);
    Plan plan{};
    plan.outer = plan.inner = plan.in_rows = plan.out_rows = plan.cells = plan.outer_cells = 1;
    plan.same_count = plan.same_real = true;
    for (int d = 0; d < static_cast<int>(dims.size()); ++d) {
        if (d > last) {
            plan.inner = counted_product(plan.inner, dims[d][0], "the array has", "elements");
        } else if (is_pooled(dims[d])) {
            const Axis axis = axis_of(dims[d]);
            if (d < last) plan.dims[plan.dim_count++] = {plan.axis_count, axis.length, axis.output, 0};
            add_axis(plan, axis, d == last);
        } else if (plan.axis_count == 0) {
            plan.outer = counted_product(plan.outer, dims[d][0], "the array has", "elements");
        } else {
            plan.dims[plan.dim_count++] = {-1, dims[d][0], dims[d][0], 0};
        }
    }
    count_elements(plan);
    if (plan.outer_cells > LARGEST) throw std::overflow_error("a window has more than 2**40 rows");
    return plan;
}

}  // namespace ndpool
