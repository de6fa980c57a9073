#include "tests/reference.h"

#include <algorithm>

namespace ndpool_tests {

// --- windows ----------------------------------------------------------------------------------------

i64 Dimension::outputs() const {
    if (side == Side::CARRIED) return length;
    if (side == Side::GLOBAL) return 1;
    if (side == Side::ADAPTIVE) return bins;
    const i64 room = length + pad_lo + pad_hi - dilation * (kernel - 1) - 1;
    if (!ceil_mode) return room / stride + 1;
    i64 out = (room + stride - 1) / stride + 1;
    if ((out - 1) * stride >= length + pad_lo) --out;  // it would start in the right padding
    return out;
}

std::vector<i64> Dimension::cells(i64 o) const {
    std::vector<i64> found;
    if (side == Side::CARRIED) return {o};
    if (side == Side::WINDOW) {
        for (i64 k = 0; k < kernel; ++k) {
            const i64 cell = o * stride - pad_lo + k * dilation;
            if (cell < length + pad_hi) found.push_back(cell < 0 || cell >= length ? -1 : cell);
        }
        return found;
    }
    const i64 count = outputs();
    for (i64 cell = 0; cell < length; ++cell)
        if (cell >= o * length / count && cell * count < (o + 1) * length) found.push_back(cell);
    return found;
}

std::vector<i64> Dimension::numbers() const {
    if (side == Side::CARRIED) return {length};
    if (side == Side::WINDOW) return {length, outputs(), kernel, stride, dilation, pad_lo, pad_hi, 0};
    if (side == Side::GLOBAL) return {length, 1, length, length, 1, 0, 0, 0};
    return {length, bins, std::min(length, length / bins + 2), 1, 1, 0, 0, 1};
}

i64 inputs_of(const Shape &shape) {
    i64 product = 1;
    for (const Dimension &dimension : shape) product *= dimension.length;
    return product;
}

i64 outputs_of(const Shape &shape) {
    i64 product = 1;
    for (const Dimension &dimension : shape) product *= dimension.outputs();
    return product;
}

Window window_of(const Shape &shape, i64 output) {
    std::vector<i64> index(shape.size());
    for (std::size_t d = shape.size(); d-- > 0;) {
        index[d] = output % shape[d].outputs();
        output /= shape[d].outputs();
    }
    Window window;
    i64 counted = 1;
    window.cells = window.indices = {0};
    for (std::size_t d = 0; d < shape.size(); ++d) {
        const std::vector<i64> along = shape[d].cells(index[d]);
        std::vector<i64> cells, indices;
        for (std::size_t i = 0; i < window.cells.size(); ++i)
            for (i64 cell : along) {
                if (cell < 0) continue;
                cells.push_back(window.cells[i] * shape[d].length + cell);
                indices.push_back(shape[d].pooled() ? window.indices[i] * shape[d].length + cell : window.indices[i]);
            }
        counted *= static_cast<i64>(along.size());
        window.cells = cells, window.indices = indices;
    }
    window.padded = counted - static_cast<i64>(window.cells.size());
    return window;
}

bool every_window_has_a_cell(const Shape &shape) {
    for (const Dimension &dimension : shape)
        for (i64 o = 0; o < dimension.outputs(); ++o) {
            const std::vector<i64> cells = dimension.cells(o);
            if (std::count(cells.begin(), cells.end(), -1) == static_cast<i64>(cells.size())) return false;
        }
    return true;
}

// --- kinds ------------------------------------------------------------------------------------------

namespace {

// Whether a beats b; NaN beats every number.
bool beats(Real a, Real b, bool least) { return std::isnan(a) ? !std::isnan(b) : least ? a < b : a > b; }

Expected selection(const KindSpec &kind, const std::vector<Real> &cells) {
    const bool least = kind.name == "min";
    Expected out;
    std::vector<std::size_t> best = {0};
    for (std::size_t i = 1; i < cells.size(); ++i) {
        if (beats(cells[i], cells[best[0]], least))
            best = {i};
        else if (!beats(cells[best[0]], cells[i], least))
            best.push_back(i);
    }
    out.winner = best[0];
    out.value = cells[out.winner];
    out.weights.assign(cells.size(), 0);
    if (kind.option == "first") best.resize(1);
    for (std::size_t i : best) out.weights[i] = kind.option == "split" ? 1 / static_cast<Real>(best.size()) : 1;
    return out;
}

Expected linear(const KindSpec &kind, const std::vector<Real> &cells, i64 padded) {
    const i64 real = static_cast<i64>(cells.size());
    Real divisor = 1;
    if (kind.name == "avg")
        divisor = kind.option == "fixed" ? static_cast<Real>(kind.parameter)
                                         : static_cast<Real>(kind.counts() == "real" ? real : real + padded);
    Expected out;
    for (Real cell : cells) out.value += cell, out.size += std::isfinite(cell) ? std::fabs(cell) : 0;
    if (divisor != 1) out.value /= divisor;
    out.size /= divisor;
    out.weights.assign(cells.size(), 1 / divisor);
    return out;
}

// The largest by an order in which NaN is the largest.
Real leading(const std::vector<Real> &numbers, bool least) {
    Real best = numbers[0];
    for (Real number : numbers) best = beats(number, best, least) ? number : best;
    return best;
}

Expected smooth_max(const KindSpec &kind, const std::vector<Real> &cells, i64 padded) {
    const Real beta = kind.parameter;
    const i64 zeros = kind.option == "counted" ? padded : 0;
    std::vector<Real> all = cells;
    if (zeros) all.push_back(0);
    const Real shift = leading(all, beta < 0);
    auto term = [&](Real v) { return v == shift ? Real(1) : std::exp(beta * (v - shift)); };
    Real norm = zeros ? static_cast<Real>(zeros) * term(0) : 0;
    for (Real cell : cells) norm += term(cell);
    Expected out;
    out.value = std::log(norm) / beta + shift;
    out.size = std::fabs(out.value) +
               std::log(2 + static_cast<Real>(cells.size() + static_cast<std::size_t>(padded))) / std::fabs(beta);
    for (Real cell : cells) out.weights.push_back(term(cell) / norm);
    return out;
}

Expected lp(const KindSpec &kind, const std::vector<Real> &cells) {
    const Real p = kind.parameter;
    std::vector<Real> sizes;
    for (Real cell : cells) sizes.push_back(std::fabs(cell));
    const Real largest = leading(sizes, false);
    Expected out;
    out.weights.assign(cells.size(), 0);
    if (largest == 0) return out;
    // Equal infinities cancel.
    auto ratio = [&](Real v) { return std::fabs(v) == largest ? std::copysign(Real(1), v) : v / largest; };
    Real sum = 0;
    for (Real cell : cells) sum += std::pow(std::fabs(ratio(cell)), p);
    const Real norm = std::pow(sum, 1 / p);
    out.value = largest * norm;
    out.size = std::fabs(out.value);
    for (std::size_t i = 0; i < cells.size(); ++i) {
        const Real v = cells[i], sign = std::isnan(v) ? v : v > 0 ? 1 : v < 0 ? -1 : 0;
        out.weights[i] = p == 1 ? sign : sign * std::pow(std::fabs(ratio(v) / norm), p - 1);
    }
    return out;
}

}  // namespace

std::int64_t rounded_mean(const KindSpec &kind, Wide sum, i64 divisor) {
    const std::string rounding = kind.rounding();
    const Wide size = sum < 0 ? -sum : sum, whole = size / divisor, twice = 2 * (size % divisor);
    const bool halfway = twice == divisor, negative = sum < 0;
    bool up = twice > divisor;  // away from zero
    if (halfway)
        up = rounding == "half_away" || (rounding == "half_up" && !negative) || (rounding == "half_even" && whole % 2);
    if (rounding == "truncate") up = false;
    if (rounding == "floor") up = negative && twice > 0;
    const Wide mean = whole + (up ? 1 : 0);
    return static_cast<std::int64_t>(negative ? -mean : mean);
}

Expected expected_of(const KindSpec &kind, const std::vector<Real> &cells, i64 padded) {
    if (kind.selects()) return selection(kind, cells);
    if (kind.name == "smooth_max") return smooth_max(kind, cells, padded);
    if (kind.name == "lp") return lp(kind, cells);
    return linear(kind, cells, padded);
}

}  // namespace ndpool_tests
