// Numbers of any type read, and floats written, as lanes: one, or many side by side.
#pragma once
#include "passes/rows.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

inline double read(Type type, const void *x, i64 i) {
    switch (type) {
#define NDPOOL_READ(NAME, T) \
    case Type::NAME: return load_as<double, 1>(static_cast<const T *>(x) + i)[0];
        NDPOOL_FLOATS(NDPOOL_READ)
        NDPOOL_INTEGERS(NDPOOL_READ)
#undef NDPOOL_READ
    }
    return 0;
}
inline void write(Type type, void *y, i64 i, double v) {
    switch (type) {
#define NDPOOL_WRITE(NAME, T) \
    case Type::NAME: store_as<1>(static_cast<T *>(y) + i, vec<double, 1>{v}); break;
        NDPOOL_FLOATS(NDPOOL_WRITE)
#undef NDPOOL_WRITE
        default: break;
    }
}

template <class To>
void load_plane(Type type, const void *x, i64 from, i64 length, To *to) {
    constexpr int N = LANES<To>;
    switch (type) {
#define NDPOOL_LOAD(NAME, T)                                      \
    case Type::NAME: {                                            \
        const T *p = static_cast<const T *>(x) + from;            \
        i64 i = 0;                                                \
        for (; i + N <= length; i += N) {                         \
            prefetch<N>(p + i);                                   \
            store<N>(to + i, load_as<To, N>(p + i));              \
        }                                                         \
        for (; i < length; ++i) to[i] = load_as<To, 1>(p + i)[0]; \
        break;                                                    \
    }
        NDPOOL_FLOATS(NDPOOL_LOAD)
        NDPOOL_INTEGERS(NDPOOL_LOAD)
#undef NDPOOL_LOAD
    }
}

template <class S>
void store_plane(Type type, void *y, i64 to, const S *from, i64 length) {
    constexpr int N = LANES<S>;
    switch (type) {
#define NDPOOL_STORE(NAME, T)                                                                            \
    case Type::NAME:                                                                                     \
        return blocks<N>(length, [p = static_cast<T *>(y) + to, from](i64 i, int count) NDPOOL_INLINED { \
            put_some<N>(p + i, count, [&](T *some) { store_as<N>(some, load<N>(from + i)); });           \
        });
        NDPOOL_FLOATS(NDPOOL_STORE)
#undef NDPOOL_STORE
        default: return;
    }
}

// What is made in the nearest cache before it goes on: calls f(first, count) for so many at a time, with room in CHUNK
// for all registers of them.
constexpr i64 CHUNK = 512;
template <class F>
NDPOOL_INLINE void over_chunks(i64 count, const F &f) {
    for (i64 i = 0; i < count; i += CHUNK) f(i, count - i < CHUNK ? count - i : CHUNK);
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
