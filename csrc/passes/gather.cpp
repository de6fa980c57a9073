#include "passes/gather.h"

#include <atomic>
#include <stdexcept>

#include "base/threads.h"
#include "passes/places.h"

namespace ndpool {
namespace {

template <class W, class E>
void gather_rows(const Plan &plan, const W *winners, const E *t, E *dy, bool skips) {
    const Places places(plan);
    std::atomic<bool> strange{false};
    parallel(plan.outer * plan.out_rows, worth_threads(plan.outer * plan.out_slab), [&](i64 begin, i64 end) {
        const auto cells = static_cast<std::uint64_t>(plan.cells), slab = static_cast<std::uint64_t>(plan.in_slab);
        i64 strangers = 0;
        for (i64 row = begin; row < end; ++row) {
            const i64 first = start_of_row(plan, row % plan.out_rows);
            const E *from = t + row / plan.out_rows * plan.in_slab;
            const W *won = winners + row * plan.out_row;
            E *to = dy + row * plan.out_row;
            places.over_row(plan, won, 0, plan.last().output, [&](i64 i, i64 at) NDPOOL_INLINED {
                const auto cell = static_cast<std::uint64_t>(first + at);
                const bool known = won[i] < cells && cell < slab;
                const bool absent = skips && won[i] >= cells && won[i] < 2 * cells;
                strangers += !known && !absent;
                to[i] = absent ? E(0) : from[known ? cell : 0];
            });
        }
        if (strangers) strange = true;
    });
    if (strange)
        throw std::invalid_argument("winners holds a place that is no cell of its window; give what linearize wrote");
}

template <class W>
void gather_of(const Plan &plan, const W *winners, i64 element_bytes, const void *t, void *dy, bool skips) {
    auto as = [&](auto zero) {
        using E = decltype(zero);
        gather_rows(plan, winners, static_cast<const E *>(t), static_cast<E *>(dy), skips);
    };
    if (element_bytes == 2) return as(std::uint16_t());
    if (element_bytes == 4) return as(std::uint32_t());
    as(std::uint64_t());
}

}  // namespace

void gather(const Plan &plan, const void *winners, int winner_bytes, i64 element_bytes, const void *t, void *dy,
            bool skips) {
    auto as = [&](auto zero) {
        gather_of(plan, static_cast<const decltype(zero) *>(winners), element_bytes, t, dy, skips);
    };
    if (winner_bytes == 1) return as(std::uint8_t());
    if (winner_bytes == 2) return as(std::uint16_t());
    as(std::uint32_t());
}

}  // namespace ndpool
