// Writing past the caches.
//
// An ordinary store of a line reads it from memory first, and pushes out of the cache what was there. For an array that
// the cache will not hold anyway, lines are better sent to memory whole.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include "base/integers.h"
#include "base/lanes.h"
#include "base/threads.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

constexpr i64 LINE = 64;

// Whether an array is written faster past the caches, to be read back included: it is large, and with what is read
// meanwhile (`moved` bytes in all) so large that no cache holds it to the end. And whether it is there: a page that was
// never touched is cleared on the first store, after which it is in the cache.
inline bool worth_streaming([[maybe_unused]] const void *p, [[maybe_unused]] i64 bytes, [[maybe_unused]] i64 moved) {
#if defined(__x86_64__) && defined(__linux__)
    constexpr i64 LARGE = i64(4) << 20, MOVED = i64(16) << 20;
    if (bytes < LARGE || moved < MOVED) return false;
    auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    auto middle = (reinterpret_cast<std::uintptr_t>(p) + static_cast<std::uintptr_t>(bytes) / 2) / page * page;
    unsigned char there = 0;
    return mincore(reinterpret_cast<void *>(middle), 1, &there) == 0 && (there & 1);
#else
    return false;
#endif
}

// Stores a register past the caches, at a multiple of its size. Other threads see it after end_streaming().
template <int N, class T>
NDPOOL_INLINE void stream(T *p, vec<T, N> v) {
#if defined(__AVX512F__)
    if constexpr (sizeof v == 64) return _mm512_stream_si512(reinterpret_cast<__m512i *>(p), bits<__m512i>(v));
#endif
#if defined(__AVX2__)
    if constexpr (sizeof v == 32) return _mm256_stream_si256(reinterpret_cast<__m256i *>(p), bits<__m256i>(v));
#endif
#if defined(__x86_64__)
    if constexpr (sizeof v == 16) return _mm_stream_si128(reinterpret_cast<__m128i *>(p), bits<__m128i>(v));
    if constexpr (sizeof v == 8) return _mm_stream_si64(reinterpret_cast<long long *>(p), bits<long long>(v));
#endif
    store<N>(p, v);
}

inline void end_streaming() {
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

// Copies to memory past the caches.
inline void stream_bytes(char *to, const char *from, i64 bytes) {
    constexpr int N = NDPOOL_VECTOR_BYTES;
    i64 i = -reinterpret_cast<std::intptr_t>(to) & (LINE - 1);  // as far as the first whole line
    if (i > bytes) i = bytes;
    if (i) std::memcpy(to, from, static_cast<std::size_t>(i));
    for (; i + LINE <= bytes; i += LINE) {
        NDPOOL_UNROLL
        for (int part = 0; part < LINE; part += N) stream<N>(to + i + part, load<N>(from + i + part));
    }
    if (i < bytes) std::memcpy(to + i, from + i, static_cast<std::size_t>(bytes - i));
}

// Pieces of memory that follow each other. They are made in the nearest cache and sent on from there, whole lines at a
// time: of a line that is stored in parts, memory would have to be read first.
class Outbox {
  public:
    Outbox() = default;
    Outbox(const Outbox &) = delete;
    ~Outbox() {
        if (!made.data()) return;
        send(filled);
        end_streaming();
    }

    // Room to make the `count` elements that belong at `to`; of the pieces asked for, none has more than `most`
    // elements.
    template <class T>
    NDPOOL_INLINE T *room(T *to, i64 count, i64 most) {
        constexpr i64 size = sizeof(T);
        return reinterpret_cast<T *>(room(reinterpret_cast<char *>(to), count * size, most * size));
    }
    NDPOOL_INLINE IntegerPointer room(IntegerPointer to, i64 count, i64 most) {
        return {room(to.first, count * to.bytes, most * to.bytes), to.bytes};
    }
    __attribute__((noinline)) char *room(char *to, i64 bytes, i64 most) {
        if (to != first + filled) {
            send(filled);
            first = to;
        } else if (filled >= ENOUGH) {
            send(filled - (reinterpret_cast<std::intptr_t>(to) & (LINE - 1)));
        }
        made.grow(ENOUGH + LINE + most + BEYOND, "results on their way to memory");
        filled += bytes;
        return made.data() + filled - bytes;
    }

  private:
    // What is sent at a time: much of it keeps the next stores waiting. A register may be written beyond the room that
    // was asked for.
    static constexpr i64 ENOUGH = 256, BEYOND = 256;
    Scratch<char> made;
    char *first = nullptr;  // where what is made belongs
    i64 filled = 0;

    void send(i64 bytes) {
        stream_bytes(first, made.data(), bytes);
        first += bytes;
        filled -= bytes;
        if (filled) std::memcpy(made.data(), made.data() + bytes, LINE);  // the rest is less than a line
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
