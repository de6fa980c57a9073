#include "passes/gather.h"

#include <atomic>
#include <stdexcept>

#include "base/threads.h"

namespace ndpool {
namespace {

// Below this many elements, waking a thread costs more than it saves.
constexpr i64 WORTH_THREADS = 1 << 15;

// How far a place in a window is from the window's first cell, in elements of the slab.
class Distances {
  public:
    explicit Distances(const Plan &plan) : plan(plan), known(plan.cells < TABLE ? plan.cells : 0) {
        for (i64 place = 0; place < known; ++place) table[place] = decoded(place);
    }
    i64 of(i64 place) const { return place < known ? table[place] : decoded(place); }

  private:
    static constexpr i64 TABLE = 1024;
    const Plan &plan;
    const i64 known;
    i64 table[TABLE];

    // The place is a number whose digits are the steps along each pooled axis, the last one in front.
    i64 decoded(i64 place) const {
        i64 sum = 0, stride = plan.inner;
        for (int a = plan.axis_count - 1, d = plan.dim_count; a >= 0; --a) {
            const Axis &axis = plan.axes[a];
            if (a < plan.axis_count - 1) {
                while (plan.dims[--d].axis != a) continue;
                stride = plan.dims[d].in_stride;
            }
            sum += place % axis.kernel * axis.dilation * stride;
            place /= axis.kernel;
        }
        return sum;
    }
};

// Where the windows of one output row start, along all dimensions but the last pooled one.
i64 start_of_row(const Plan &plan, i64 row) {
    i64 start = 0;
    for (int d = plan.dim_count - 1; d >= 0; --d) {
        const Dim &dim = plan.dims[d];
        const i64 o = row % dim.out_count;
        row /= dim.out_count;
        start += (dim.axis < 0 ? o : plan.axes[dim.axis].start(o)) * dim.in_stride;
    }
    return start;
}

template <class W, class E>
void gather_rows(const Plan &plan, const W *winners, const E *t, E *dy) {
    const Distances distances(plan);
    std::atomic<bool> strange{false};
    parallel(plan.outer * plan.out_rows, plan.outer * plan.out_slab >= WORTH_THREADS, [&](i64 begin, i64 end) {
        bool all_known = true;
        for (i64 row = begin; row < end; ++row) {
            const i64 first = start_of_row(plan, row % plan.out_rows);
            const E *slab = t + row / plan.out_rows * plan.in_slab;
            const W *won = winners + row * plan.out_row;
            E *to = dy + row * plan.out_row;
            for (i64 o = 0; o < plan.last().output; ++o) {
                const i64 start = first + plan.last().start(o) * plan.inner;
                for (i64 e = 0; e < plan.inner; ++e) {
                    const i64 place = static_cast<i64>(*won++), cell = start + e + distances.of(place);
                    const bool known = place < plan.cells && cell >= 0 && cell < plan.in_slab;
                    all_known &= known;
                    *to++ = known ? slab[cell] : E();
                }
            }
        }
        if (!all_known) strange = true;
    });
    if (strange)
        throw std::invalid_argument("winners holds a place that is no cell of its window; give what linearize wrote");
}

template <class W>
void gather_of(const Plan &plan, const W *winners, i64 element_bytes, const void *t, void *dy) {
    auto as = [&](auto zero) {
        using E = decltype(zero);
        gather_rows(plan, winners, static_cast<const E *>(t), static_cast<E *>(dy));
    };
    if (element_bytes == 2) return as(std::uint16_t());
    if (element_bytes == 4) return as(std::uint32_t());
    as(std::uint64_t());
}

}  // namespace

void gather(const Plan &plan, const void *winners, int winner_bytes, i64 element_bytes, const void *t, void *dy) {
    auto as = [&](auto zero) { gather_of(plan, static_cast<const decltype(zero) *>(winners), element_bytes, t, dy); };
    if (winner_bytes == 1) return as(std::uint8_t());
    if (winner_bytes == 2) return as(std::uint16_t());
    as(std::uint32_t());
}

}  // namespace ndpool
