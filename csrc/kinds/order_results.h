// What becomes of the cells that were found: values, winners, tangents and cotangents.
#pragma once
#include "base/lanes.h"
#include "kinds/families.h"
#include "kinds/order.h"
#include "passes/batch.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// Calls f(zero) with a zero of the type.
template <class F>
void with_type(Type type, const F &f) {
    switch (type) {
#define NDPOOL_CASE(NAME, T) \
    case Type::NAME: return f(T());
        NDPOOL_INTEGERS(NDPOOL_CASE)
        NDPOOL_FLOATS(NDPOOL_CASE)
#undef NDPOOL_CASE
    }
}

template <class T>
NDPOOL_INLINE double as_double(const T *p) {
    return load_as<double, 1>(p)[0];
}
template <class T>
NDPOOL_INLINE void put_double(T *p, double value) {
    store_as<1>(p, vec<double, 1>{value});
}

// The results of one part of the arrays, row by row.
struct OrderResults {
    const Call &call;  // with the part's arrays
    i64 out_row;

    void take(i64 row, const Found *found) const {
        const i64 at = row * out_row;
        if (call.y) put_values(at, found);
        if (call.winners) put_winners(at, found);
        if (call.dy) put_tangents(at, found);
    }

  private:
    void put_values(i64 at, const Found *found) const {
        if (!is_between_cells(call.order))
            return with_bits(size_of(call.type), [&](auto zero) {
                using B = decltype(zero);
                const B *x = static_cast<const B *>(call.x);
                B *y = static_cast<B *>(call.y) + at;
                for (i64 i = 0; i < out_row; ++i)
                    y[i] = found[i].lo < 0 ? static_cast<B>(call.skip.absent) : x[found[i].lo];
            });
        with_type(call.type, [&](auto zero) {
            using T = decltype(zero);
            using Y = std::conditional_t<std::is_integral_v<T>, double, T>;
            const T *x = static_cast<const T *>(call.x);
            Y *y = static_cast<Y *>(call.y) + at;
            for (i64 i = 0; i < out_row; ++i) put_value(x, found[i], y + i);
        });
    }
    template <class T, class Y>
    NDPOOL_INLINE void put_value(const T *x, const Found &found, Y *y) const {
        if (found.lo < 0) {
            std::memcpy(y, &call.skip.absent, sizeof(Y));
            return;
        }
        const double a = as_double(x + found.lo);
        if (found.hi == found.lo) return put_double(y, a);
        const double b = as_double(x + found.hi);
        bool equal = a == b;
        if constexpr (std::is_integral_v<T> && sizeof(T) == 8) equal = x[found.lo] == x[found.hi];
        put_double(y, equal ? a : mixed(a, b, found.share));
    }

    void put_winners(i64 at, const Found *found) const {
        with_bits(call.winner_bytes, [&](auto zero) {
            using W = decltype(zero);
            W *winners = static_cast<W *>(call.winners) + at;
            for (i64 i = 0; i < out_row; ++i)
                winners[i] = static_cast<W>(found[i].place + (found[i].lo < 0 ? call.skip.beyond : 0));
        });
    }

    void put_tangents(i64 at, const Found *found) const {
        if (!is_between_cells(call.order))
            return with_bits(size_of(call.derivative), [&](auto zero) {
                using B = decltype(zero);
                const B *t = static_cast<const B *>(call.t);
                B *dy = static_cast<B *>(call.dy) + at;
                for (i64 i = 0; i < out_row; ++i) dy[i] = found[i].lo < 0 ? B(0) : t[found[i].lo];
            });
        with_float(call.derivative, [&](auto zero) {
            using T = decltype(zero);
            const T *t = static_cast<const T *>(call.t);
            T *dy = static_cast<T *>(call.dy) + at;
            for (i64 i = 0; i < out_row; ++i) {
                const Found &f = found[i];
                const double a = f.lo < 0 ? 0 : as_double(t + f.lo);
                put_double(dy + i, f.hi == f.lo ? a : (1 - f.share) * a + f.share * as_double(t + f.hi));
            }
        });
    }
};

// Cotangents of the windows of a part, added up at its cells.
template <class T>
struct OrderCotangents {
    const T *g;
    double *sums;
    i64 out_row;

    void take(i64 row, const Found *found) const {
        const T *from = g + row * out_row;
        for (i64 i = 0; i < out_row; ++i) {
            const Found &f = found[i];
            if (f.lo < 0) continue;
            const double all = as_double(from + i);
            if (f.hi == f.lo) {
                sums[f.lo] += all;
            } else {
                sums[f.lo] += (1 - f.share) * all;
                sums[f.hi] += f.share * all;
            }
        }
    }
};

template <class Self>
FoundRows rows_into(const Self &self) {
    return {&self,
            [](const void *it, i64 row, const Found *found) { static_cast<const Self *>(it)->take(row, found); }};
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
