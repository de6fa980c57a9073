// Bare loops: they read and write as many bytes as a pool must, and do nothing else.
//
// The input is taken in pieces, each followed by its share of the output. Built and called by bare.py.
#include <cstddef>
#include <cstdint>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace {

constexpr std::size_t PIECES = 4096, LINE = 16, AHEAD = 8192 / sizeof(std::uint32_t);  // counted in numbers of 4 bytes

std::uint32_t read(const std::uint32_t *from, std::size_t count) {
    std::uint32_t seen[4 * LINE] = {};
    for (std::size_t i = 0; i + 4 * LINE <= count; i += 4 * LINE) {
        for (std::size_t line = 0; line < 4 * LINE; line += LINE) __builtin_prefetch(from + i + line + AHEAD);
        for (std::size_t lane = 0; lane < 4 * LINE; ++lane) seen[lane] |= from[i + lane];
    }
    std::uint32_t all = 0;
    for (std::uint32_t lane : seen) all |= lane;
    return all;
}

void write(std::uint32_t *to, std::size_t count, std::uint32_t value, bool past_the_caches) {
#if defined(__SSE2__)
    if (past_the_caches) {
        for (std::size_t i = 0; i < count; i += 4)
            _mm_stream_si128(reinterpret_cast<__m128i *>(to + i), _mm_set1_epi32(static_cast<int>(value)));
        return;
    }
#endif
    for (std::size_t i = 0; i < count; ++i) to[i] = value;
}

}  // namespace

// Both start at whole lines. What is left over after pieces of whole lines is left alone.
extern "C" std::uint32_t move_bytes(const std::uint32_t *from, std::size_t from_count, std::uint32_t *to, std::size_t to_count, int past_the_caches) {
    std::size_t in = from_count / PIECES / LINE * LINE, out = to_count / PIECES / LINE * LINE;
    std::uint32_t seen = 0;
    for (std::size_t piece = 0; piece < PIECES; ++piece) {
        seen |= read(from + piece * in, in);
        write(to + piece * out, out, seen, past_the_caches != 0);
    }
#if defined(__SSE2__)
    _mm_sfence();
#endif
    return seen;
}
