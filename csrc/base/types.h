// The types of numbers that the engine reads and writes, and the words that all of its files use.
#pragma once
#include <cstdint>

namespace ndpool {

using i64 = std::int64_t;

// Always inlined. The linker keeps one copy of an inline function, and a copy that was compiled for AVX-512 must not be
// the one that the other levels call.
#define NDPOOL_INLINE __attribute__((always_inline)) inline
// The same for a lambda; it stands between the arguments and the body.
#define NDPOOL_INLINED __attribute__((always_inline))

enum class Type { I8, U8, I16, U16, I32, U32, I64, U64, F16, BF16, F32, F64 };

NDPOOL_INLINE bool is_float(Type type) { return type >= Type::F16; }

// Bytes of an element.
NDPOOL_INLINE i64 size_of(Type type) {
    static const i64 sizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
    return sizes[static_cast<int>(type)];
}

#define NDPOOL_FLOATS(X) X(F16, Half) X(BF16, BFloat) X(F32, float) X(F64, double)
#define NDPOOL_INTEGERS(X) \
    X(I8, std::int8_t)     \
    X(U8, std::uint8_t)    \
    X(I16, std::int16_t)   \
    X(U16, std::uint16_t) X(I32, std::int32_t) X(U32, std::uint32_t) X(I64, std::int64_t) X(U64, std::uint64_t)

}  // namespace ndpool
