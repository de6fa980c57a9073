// Bare loops: they read and write as many bytes as a pool must, and do nothing else.
//
// The input is taken in pieces, each followed by its share of the output. Built and called by bare.py.
#include <cstddef>
#include <cstdint>
#include <type_traits>

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

// --- sums ----------------------------------------------------------------------------------------
//
// Cells added up over and over, in registers alone: what a sum costs before anything is moved. So are exponentials, as
// polynomials of the least degree that is as exact as the cells are.

namespace {

template <class T, int N>
struct Of {
    typedef T type __attribute__((vector_size(sizeof(T) * N)));
};
constexpr int LANES = 8, AT_ONCE = 8;  // numbers of a register of 64 bytes, and registers
using Doubles = Of<double, LANES>::type;
using Floats = Of<float, LANES>::type;
using Halves = Of<std::uint16_t, LANES>::type;

template <class V, class T>
V load(const T *from) {
    V v;
    __builtin_memcpy(&v, from, sizeof v);
    return v;
}

// a - b, by the unit that multiplies, where `one` is 1 and the compiler does not know it.
Doubles by_product(Doubles a, Doubles b, Doubles one) { return a - b * one; }

Doubles widened(Floats v) {
#if defined(__AVX512F__)  // the compiler would do it in two halves
    return reinterpret_cast<Doubles>(_mm512_cvtps_pd(reinterpret_cast<__m256>(v)));
#endif
    return __builtin_convertvector(v, Doubles);
}

Floats widened(Halves v) {
#if defined(__F16C__) && defined(__AVX__)
    return reinterpret_cast<Floats>(_mm256_cvtph_ps(reinterpret_cast<__m128i>(v)));
#else
    return __builtin_convertvector(v, Floats);  // of the bits: less than it takes
#endif
}

// exp(x), for x that is not large: 2 to the power of a whole number, which is added to the exponent, times a polynomial.
template <int DEGREE, int MANTISSA, class Bits, class V>
V exponential(V x) {
    using T = std::decay_t<decltype(x[0])>;
    constexpr T WHOLE = T(1.5) * (std::uint64_t(1) << MANTISSA), LOG2_E = T(1.4426950408889634), LN_2 = T(0.6931471805599453);
    const V shifted = x * LOG2_E + WHOLE, rest = x - (shifted - WHOLE) * LN_2;
    V series = V{} + T(1) / DEGREE;
#pragma GCC unroll 16
    for (int k = DEGREE - 1; k >= 0; --k) series = series * rest + T(1) / (k + 1);
    return reinterpret_cast<V>(reinterpret_cast<Bits>(series) + (reinterpret_cast<Bits>(shifted) << MANTISSA));
}

template <class Step>
double added_up(std::size_t count, std::size_t times, const Step &step) {
    Doubles sum[AT_ONCE] = {}, error[AT_ONCE] = {};
    for (; times; --times) {
        for (std::size_t i = 0; i + LANES * AT_ONCE <= count; i += LANES * AT_ONCE) {
#pragma GCC unroll 8
            for (int r = 0; r < AT_ONCE; ++r) step(sum[r], error[r], i + r * LANES);
        }
    }
    double all = 0;
    for (int r = 0; r < AT_ONCE; ++r)
        for (int lane = 0; lane < LANES; ++lane) all += sum[r][lane] + error[r][lane];
    return all;
}

}  // namespace

extern "C" double add_doubles(const double *from, std::size_t count, std::size_t times) {
    return added_up(count, times, [=](Doubles &sum, Doubles &, std::size_t i) { sum += load<Doubles>(from + i); });
}

extern "C" double add_floats_as_doubles(const float *from, std::size_t count, std::size_t times) {
    return added_up(count, times,
                    [=](Doubles &sum, Doubles &, std::size_t i) { sum += widened(load<Floats>(from + i)); });
}

extern "C" double add_halves_as_doubles(const std::uint16_t *from, std::size_t count, std::size_t times) {
    return added_up(count, times,
                    [=](Doubles &sum, Doubles &, std::size_t i) { sum += widened(widened(load<Halves>(from + i))); });
}

// Half of the differences are products, which some processors make beside sums, and others instead of them.
template <class Next>
double added_up_with_errors(std::size_t count, std::size_t times, const Next &next_one) {
    Doubles one = Doubles{} + 1.0;
    asm("" : "+m"(one));
    return added_up(count, times, [=](Doubles &sum, Doubles &error, std::size_t i) {
        const Doubles next = next_one(i), all = sum + next, part = by_product(all, sum, one);
        error += by_product(sum, all - part, one) + by_product(next, part, one);
        sum = all;
    });
}

extern "C" double add_doubles_and_errors(const double *from, std::size_t count, std::size_t times) {
    return added_up_with_errors(count, times, [=](std::size_t i) { return load<Doubles>(from + i); });
}

extern "C" double add_exponentials_of_floats(const float *from, std::size_t count, std::size_t times) {
    using Bits = Of<std::int32_t, LANES>::type;
    return added_up(count, times, [=](Doubles &sum, Doubles &, std::size_t i) {
        sum += widened(exponential<5, 23, Bits>(load<Floats>(from + i)));
    });
}

extern "C" double add_exponentials_of_doubles(const double *from, std::size_t count, std::size_t times) {
    using Bits = Of<std::int64_t, LANES>::type;
    return added_up_with_errors(count, times,
                                [=](std::size_t i) { return exponential<11, 52, Bits>(load<Doubles>(from + i)); });
}

// --- windows in steps of one ----------------------------------------------------------------------
//
// What such windows are made of: some cells of an array after the other become lines in the nearest cache, which are
// merged with themselves, some cells further on, again and again. The first merges are along the row, where registers
// start within others. Cells are read and widened by the first merge, and what the last one makes is narrowed and
// written.

namespace {

constexpr std::size_t CELLS = 2048, ROOM = CELLS + 64, ALONG_ROWS[] = {1, 2, 4}, ACROSS = 32;

template <class V, class Read, class Write, class Merge>
void merge_lines(std::size_t merges, std::size_t along_rows, std::size_t count, const Read &read, const Write &write, const Merge &merge) {
    using T = std::decay_t<decltype(V{}[0])>;
    constexpr std::size_t lanes = sizeof(V) / sizeof(T);
    alignas(64) static T lines[2][ROOM];
    for (std::size_t at = 0; at < count; at += CELLS) {
        for (std::size_t m = 0; m < merges; ++m) {
            const T *from = lines[m % 2];
            T *to = lines[1 - m % 2];
            const std::size_t shift = m < along_rows ? ALONG_ROWS[m % 3] : ACROSS;
            const auto stored = [=](std::size_t i, V v) { __builtin_memcpy(to + i, &v, sizeof v); };
            if (m == 0)
                for (std::size_t i = 0; i < CELLS; i += lanes) stored(i, merge(read(at + i), read(at + i + shift)));
            else if (m == merges - 1)
                for (std::size_t i = 0; i < CELLS; i += lanes)
                    write(at + i, merge(load<V>(from + i), load<V>(from + i + shift)));
            else
                for (std::size_t i = 0; i < CELLS; i += lanes)
                    stored(i, merge(load<V>(from + i), load<V>(from + i + shift)));
        }
    }
}

Halves narrowed(Floats v) {
#if defined(__F16C__) && defined(__AVX__)
    return reinterpret_cast<Halves>(_mm256_cvtps_ph(reinterpret_cast<__m256>(v), _MM_FROUND_TO_NEAREST_INT));
#else
    return __builtin_convertvector(v, Halves);
#endif
}

const auto plus = [](auto a, auto b) { return a + b; };
const auto larger = [](auto a, auto b) { return a > b ? a : b; };

}  // namespace

extern "C" void merge_shorts(const std::int16_t *cells, std::int16_t *windows, std::size_t merges, std::size_t along_rows, std::size_t count) {
    using Shorts = Of<std::int16_t, 32>::type;
    merge_lines<Shorts>(
        merges, along_rows, count, [=](std::size_t i) { return load<Shorts>(cells + i); },
        [=](std::size_t i, Shorts v) { __builtin_memcpy(windows + i, &v, sizeof v); }, larger);
}

extern "C" void merge_halves(const std::uint16_t *cells, std::uint16_t *windows, std::size_t merges, std::size_t along_rows, std::size_t count) {
    const auto write = [=](std::size_t i, Doubles v) {
        const Halves made = narrowed(__builtin_convertvector(v, Floats));
        __builtin_memcpy(windows + i, &made, sizeof made);
    };
    merge_lines<Doubles>(
        merges, along_rows, count, [=](std::size_t i) { return widened(widened(load<Halves>(cells + i))); }, write, plus);
}

extern "C" void merge_floats(const float *cells, float *windows, std::size_t merges, std::size_t along_rows, std::size_t count) {
    const auto write = [=](std::size_t i, Doubles v) {
        const Floats made = __builtin_convertvector(v, Floats);
        __builtin_memcpy(windows + i, &made, sizeof made);
    };
    merge_lines<Doubles>(
        merges, along_rows, count, [=](std::size_t i) { return widened(load<Floats>(cells + i)); }, write, plus);
}
