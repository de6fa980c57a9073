// Arrays of integers whose size is known only at run time.
#pragma once
#include "base/types.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// Stands for an integer of 1, 2, 4 or 8 bytes where code is compiled once for all of them.
struct AnyInteger {};

// A pointer to some.
struct IntegerPointer {
    char *first;
    i64 bytes;  // of each

    NDPOOL_INLINE IntegerPointer operator+(i64 elements) const { return {first + elements * bytes, bytes}; }
    NDPOOL_INLINE IntegerPointer operator-(i64 elements) const { return {first - elements * bytes, bytes}; }
    NDPOOL_INLINE IntegerPointer &operator+=(i64 elements) { return *this = *this + elements; }
};

// What an array of T is held by, where it starts, and the bytes of each element.
template <class T>
struct PointerTo {
    using type = T *;
};
template <>
struct PointerTo<AnyInteger> {
    using type = IntegerPointer;
};
template <class T>
NDPOOL_INLINE const void *start_of(const T *p) {
    return p;
}
NDPOOL_INLINE const void *start_of(const IntegerPointer &p) { return p.first; }
template <class T>
NDPOOL_INLINE i64 bytes_of(const T *) {
    return sizeof(T);
}
NDPOOL_INLINE i64 bytes_of(const IntegerPointer &p) { return p.bytes; }

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
