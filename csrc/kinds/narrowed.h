// Order statistics of integers whose upper bits are all alike, as integers of fewer bytes.
//
// Labels are stored in 32 or 64 bits and differ in few of them. In the order of what is left they are as before, and a
// register holds more of them. Whether that is so, every part of an array says by itself.
#pragma once
#include "kinds/families.h"
#include "passes/batch.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// The bits in which cells differ from `base`; or some beyond `enough`, as soon as there are any.
template <class U>
U differing_bits(const U *x, i64 count, U base, U enough) {
    constexpr int N = LANES<U>;
    constexpr i64 AT_A_TIME = 4096;
    U all = 0;
    for (i64 first = 0; first < count && all <= enough; first += AT_A_TIME) {
        const i64 stop = count - first < AT_A_TIME ? count : first + AT_A_TIME;
        vec<U, N> some{};
        i64 i = first;
        for (; i + N <= stop; i += N) some |= load<N>(x + i) ^ base;
        for (int l = 0; l < N; ++l) all |= some[l];
        for (; i < stop; ++i) all |= x[i] ^ base;
    }
    return all;
}

// Runs find(plan, call) on the narrowed cells of one part, if they are; says whether it did.
class NarrowedCells {
  public:
    // Whether it is worth looking: the result is a cell, and windows are not so small that looking takes longer.
    static bool suit(const Plan &plan, const Call &call) {
        return LEVEL_IS_TUNED && !is_float(call.type) && size_of(call.type) >= 4 && !is_between_cells(call.order) &&
               !call.t && plan.cells >= 4;
    }

    template <class Find>
    static bool run(const Plan &plan, const Call &call, const Find &find) {
        if (size_of(call.type) == 4) return run_as<std::uint32_t>(plan, call, find);
        return run_as<std::uint64_t>(plan, call, find);
    }

  private:
    template <class U, class Find>
    static bool run_as(const Plan &plan, const Call &call, const Find &find) {
        constexpr U ENOUGH = U(~U(0)) >> (4 * sizeof(U));  // half of the bits
        const U *x = static_cast<const U *>(call.x);
        const U base = call.skip.any ? static_cast<U>(call.skip.value) : *x;
        const U differing = differing_bits(x, plan.in_slab, base, ENOUGH);
        if (differing > ENOUGH) return false;
        if (differing <= 0xff)
            narrow<std::uint8_t>(Type::U8, plan, call, x, base, find);
        else if (differing <= 0xffff)
            narrow<std::uint16_t>(Type::U16, plan, call, x, base, find);
        else
            narrow<std::uint32_t>(Type::U32, plan, call, x, base, find);
        return true;
    }
    template <class To, class U, class Find>
    static void narrow(Type type, const Plan &plan, const Call &call, const U *x, U base, const Find &find) {
        constexpr int N = LANES<U>;
        if constexpr (sizeof(To) < sizeof(U)) {
            const Scratch<To> cells(plan.in_slab + 64, "narrowed cells"), found(plan.out_slab + 64, "narrowed outputs");
            i64 i = 0;
            for (; i + N <= plan.in_slab; i += N) store<N>(cells.data() + i, convert<To, N>(load<N>(x + i)));
            for (; i < plan.in_slab; ++i) cells[i] = static_cast<To>(x[i]);
            Call own = call;
            own.type = type, own.x = cells.data(), own.y = found.data();
            own.skip.value = static_cast<To>(call.skip.value), own.skip.absent = static_cast<To>(call.skip.absent);
            find(own);
            const U upper = base & ~static_cast<U>(static_cast<To>(~To(0)));
            U *y = static_cast<U *>(call.y);
            for (i = 0; i < plan.out_slab; ++i) y[i] = upper | found[i];
        }
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
