// What the engine can do, once for each instruction level.
#pragma once
#include "plan/choice.h"

namespace ndpool {

enum class Type { I8, U8, I16, U16, I32, U32, I64, U64, F16, BF16, F32, F64 };

// Bytes of an element.
NDPOOL_INLINE i64 size_of(Type type) {
    static const i64 sizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
    return sizes[static_cast<int>(type)];
}

#define NDPOOL_FLOATS(X) X(F16, Half) X(BF16, BFloat) X(F32, float) X(F64, double)
#define NDPOOL_INTEGERS(X)                                                                               \
    X(I8, std::int8_t)                                                                                   \
    X(U8, std::uint8_t)                                                                                  \
    X(I16, std::int16_t) X(U16, std::uint16_t) X(I32, std::int32_t) X(U32, std::uint32_t) X(I64, std::int64_t) X(U64, std::uint64_t)

enum class Op { VALUE, WINNERS, FIND_WINNERS, WINNERS_VJP, EXPAND, TIES_JVP, TIES_VJP, SUM, SUM_VJP, SMOOTH, SMOOTH_VJP };

// Who leans on an output that several cells tie for.
enum class Ties { FIRST, SPLIT, ALL };

// What a window's sum is divided by: nothing, a number, its cells with those of the padding, its real cells.
enum class Count { NONE, FIXED, COUNTED, REAL };

// One operation on arrays whose sizes have been checked.
struct Call {
    Op op;
    Type type;            // of x and, for Max and Min, y
    Type derivative;      // of t, dy, g, gx
    bool minimum = false; // Min in place of Max
    Ties ties = Ties::FIRST;
    Count count = Count::NONE;
    double divisor = 1;
    bool lp = false;
    double parameter = 0;  // beta or p
    bool count_pad = false;
    int winner_bytes = 0;
    Way asked = Way::NONE;         // the way that must be gone, if any
    bool past_the_caches = false;  // whether results must be written there, worth it or not
    Way *told = nullptr;           // if set, the way is written here and nothing is run
    const void *x = nullptr, *y_in = nullptr, *t = nullptr, *g = nullptr, *winners_in = nullptr;
    void *y = nullptr, *dy = nullptr, *gx = nullptr, *winners = nullptr;
    i64 *indices = nullptr;
};

namespace baseline {
void run(const Plan &plan, const Call &call);
}
#if defined(NDPOOL_X86_LEVELS)
namespace avx2 {
void run(const Plan &plan, const Call &call);
}
namespace avx512 {
void run(const Plan &plan, const Call &call);
}
#endif

}  // namespace ndpool
