// Bare loops: they read and write as many bytes as a pool must, and do nothing else.
//
// The input is taken in pieces, each followed by its share of the output. Built and called by bare.py.
#include <cstddef>
#include <cstdint>
#include <cstring>
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

template <class T>
constexpr T inverse_factorial(int n) {
    return n < 2 ? T(1) : inverse_factorial<T>(n - 1) / n;
}

// exp(x), for x that is not large: 2 to the power of a whole number, which is added to the exponent, times a polynomial.
template <int DEGREE, int MANTISSA, class Bits, class V>
V exponential(V x) {
    using T = std::decay_t<decltype(x[0])>;
    constexpr T WHOLE = T(1.5) * (std::uint64_t(1) << MANTISSA), LOG2_E = T(1.4426950408889634), LN_2 = T(0.6931471805599453);
    const V shifted = x * LOG2_E + WHOLE, rest = x - (shifted - WHOLE) * LN_2;
    V series = V{} + inverse_factorial<T>(DEGREE);
#pragma GCC unroll 16
    for (int k = DEGREE - 1; k >= 0; --k) series = series * rest + inverse_factorial<T>(k);
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

// --- windows ----------------------------------------------------------------------------------------
//
// What windows are made of, whatever their kernel, stride and bins: cells are read, become lanes and lie in the nearest
// cache, a piece of the array at a time. Then one pooled axis after the other makes other lines of a piece's lines, each
// of some that are merged in a register. What the last axis makes is written as cells. Padding, the ends of rows and the
// phases of a stride would come on top of that. The way back of sums is the same, with more lines after each axis.

namespace {

constexpr std::size_t PIECE = 8 << 10;  // bytes of lanes, those of all lines of a piece before or after an axis

// What one axis makes of a piece: so many registers, each of some lines that are merged `merges` times. These lie
// `apart` lanes from each other, and those of the next register `step` lanes further on: of a row, within registers.
struct Along {
    std::size_t registers, merges, step, apart;
};

template <class V>
struct Lines {
    using T = std::decay_t<decltype(V{}[0])>;
    static constexpr std::size_t lanes = sizeof(V) / sizeof(T);
    alignas(64) T numbers[2 * PIECE / sizeof(T)];
    V at(std::size_t i) const { return load<V>(numbers + i); }
    void set(std::size_t i, V v) { __builtin_memcpy(numbers + i, &v, sizeof v); }
};

// Sums, and what they have lost by rounding.
struct Exact {
    Doubles sum, error;
};
template <>
struct Lines<Exact> {
    static constexpr std::size_t lanes = LANES;
    Lines<Doubles> sums, errors;
    Exact at(std::size_t i) const { return {sums.at(i), errors.at(i)}; }
    void set(std::size_t i, Exact v) { sums.set(i, v.sum), errors.set(i, v.error); }
};

struct Pieces {
    std::size_t count, registers;  // that are read of each
    const Along *axes;
    std::size_t axis_count;
};

// The lines of one axis. A loop over few merges is written out.
template <int FEW, class V, class Merge, class Put>
void merge_lines(const Along &axis, const Lines<V> &from, const Merge &merge, const Put &put) {
    const std::size_t merges = FEW >= 0 ? FEW : axis.merges;
    for (std::size_t r = 0; r < axis.registers; ++r) {
        V v = from.at(r * axis.step);
#pragma GCC unroll 4
        for (std::size_t m = 1; m <= merges; ++m) v = merge(v, from.at(r * axis.step + m * axis.apart));
        put(r, v);
    }
}

template <class V, class Merge, class Put>
void along(const Along &axis, const Lines<V> &from, const Merge &merge, const Put &put) {
    switch (axis.merges) {
        case 0: return merge_lines<0>(axis, from, merge, put);
        case 1: return merge_lines<1>(axis, from, merge, put);
        case 2: return merge_lines<2>(axis, from, merge, put);
        case 3: return merge_lines<3>(axis, from, merge, put);
        default: return merge_lines<-1>(axis, from, merge, put);
    }
}

// `read(i)` makes a register of the cells from i on; `write(i, v)` makes the outputs from i on of one.
template <class Read, class Merge, class Write>
void make_windows(const Pieces &pieces, const Read &read, const Merge &merge, const Write &write) {
    using V = decltype(read(0));
    static Lines<V> lines[2];
    constexpr std::size_t lanes = Lines<V>::lanes;
    const std::size_t last = pieces.axis_count - 1, written = pieces.axes[last].registers;
    for (std::size_t piece = 0; piece < pieces.count; ++piece) {
        for (std::size_t r = 0; r < pieces.registers; ++r)
            lines[0].set(r * lanes, read((piece * pieces.registers + r) * lanes));
        for (std::size_t a = 0; a < last; ++a)
            along(pieces.axes[a], lines[a % 2], merge, [&](std::size_t r, V v) { lines[1 - a % 2].set(r * lanes, v); });
        along(pieces.axes[last], lines[last % 2], merge,
              [&](std::size_t r, V v) { write((piece * written + r) * lanes, v); });
    }
}

using Bfloats = Of<std::int16_t, LANES>::type;
using Longs = Of<std::int64_t, LANES>::type;
using Ints = Of<std::int32_t, LANES>::type;

Floats widened(Bfloats v) { return reinterpret_cast<Floats>(__builtin_convertvector(v, Ints) << 16); }
Doubles widened(Doubles v) { return v; }
Doubles widened(Ints v) { return __builtin_convertvector(v, Doubles); }
Doubles widened(Longs v) { return __builtin_convertvector(v, Doubles); }
template <class V>
Doubles as_doubles(V v) {
    if constexpr (sizeof(v) == 2 * LANES) return widened(widened(v));
    else return widened(v);
}

template <class V>
V narrowed(Floats v) {
    if constexpr (std::is_same_v<V, Floats>) return v;
#if defined(__F16C__) && defined(__AVX__)
    else if constexpr (std::is_same_v<V, Halves>)
        return reinterpret_cast<Halves>(_mm256_cvtps_ph(reinterpret_cast<__m256>(v), _MM_FROUND_TO_NEAREST_INT));
#endif
    else return __builtin_convertvector((reinterpret_cast<Ints>(v) + 0x7fff) >> 16, V);
}
template <class V>
V narrowed(Doubles v) {
    if constexpr (std::is_same_v<V, Doubles>) return v;
    else return narrowed<V>(__builtin_convertvector(v, Floats));
}
template <class V>
V narrowed(Exact v) { return narrowed<V>(v.sum + v.error); }

const auto plus = [](auto a, auto b) { return a + b; };
const auto larger = [](auto a, auto b) { return a > b ? a : b; };
// Half of the differences are products, as above.
struct ExactPlus {
    Doubles one = Doubles{} + 1.0;
    ExactPlus() { asm("" : "+m"(one)); }
    Exact operator()(Exact a, Exact b) const {
        const Doubles all = a.sum + b.sum, part = by_product(all, a.sum, one);
        return {all, a.error + b.error + by_product(a.sum, all - part, one) + by_product(b.sum, part, one)};
    }
};

// log(x): the exponent, and a polynomial of the mantissa.
template <int DEGREE, int MANTISSA, class Bits, class V>
V logarithm(V x) {
    using T = std::decay_t<decltype(x[0])>;
    using Whole = std::decay_t<decltype(Bits{}[0])>;
    constexpr Whole ONE = sizeof(T) == 4 ? Whole(0x3f800000) : Whole(0x3ff0000000000000);
    const Bits bits = reinterpret_cast<Bits>(x), high = (bits - ONE) >> MANTISSA;
    const V rest = reinterpret_cast<V>(bits - (high << MANTISSA)) - T(1);
    V series = V{} + T(DEGREE % 2 ? 1 : -1) / DEGREE;
#pragma GCC unroll 24
    for (int k = DEGREE - 1; k >= 1; --k) series = series * rest + T(k % 2 ? 1 : -1) / k;
    return series * rest + __builtin_convertvector(high, V) * T(0.6931471805599453);
}

Doubles roots(Doubles v) {
    for (int lane = 0; lane < LANES; ++lane) v[lane] = __builtin_sqrt(v[lane]);
    return v;
}

// The terms of a kind, and what its outputs are of their sums.
struct Plain {
    template <class V>
    static Doubles term(V v) { return as_doubles(v); }
    static Doubles whole(Doubles sum) { return sum; }
};
struct Squares {
    template <class V>
    static Doubles term(V v) { return as_doubles(v) * as_doubles(v); }
    static Doubles whole(Doubles sum) { return roots(sum); }
};
struct Exponentials {
    static Doubles of(Floats v) { return widened(exponential<5, 23, Ints>(v)); }
    static Doubles of(Doubles v) { return exponential<11, 52, Longs>(v); }
    template <class V>
    static Doubles term(V v) {
        if constexpr (sizeof(v) == 2 * LANES) return of(widened(v));
        else if constexpr (std::is_same_v<V, Floats>) return of(v);
        else return of(as_doubles(v));
    }
    static Doubles whole(Doubles sum) { return logarithm<20, 52, Longs>(sum); }
};

template <class V, class T>
void store(T *to, const V &v) {
    __builtin_memcpy(to, &v, sizeof v);
}

template <class V>
void largest(const Pieces &pieces, const void *x, const void *, void *y) {
    using T = std::decay_t<decltype(V{}[0])>;
    const T *cells = static_cast<const T *>(x);
    T *outputs = static_cast<T *>(y);
    make_windows(
        pieces, [=](std::size_t i) { return load<V>(cells + i); }, larger,
        [=](std::size_t i, V v) { store(outputs + i, v); });
}

// Sums of terms: of cells V, as outputs of W.
template <class Kind, class V, class W, bool EXACT>
void total(const Pieces &pieces, const void *x, const void *, void *y) {
    using T = std::decay_t<decltype(V{}[0])>;
    using U = std::decay_t<decltype(W{}[0])>;
    const T *cells = static_cast<const T *>(x);
    U *outputs = static_cast<U *>(y);
    const auto term = [=](std::size_t i) { return Kind::term(load<V>(cells + i)); };
    if constexpr (EXACT)
        make_windows(
            pieces, [=](std::size_t i) { return Exact{term(i), Doubles{}}; }, ExactPlus(),
            [=](std::size_t i, Exact v) { store(outputs + i, narrowed<W>(Kind::whole(v.sum + v.error))); });
    else
        make_windows(pieces, term, plus, [=](std::size_t i, Doubles v) { store(outputs + i, narrowed<W>(Kind::whole(v))); });
}

// Sums of integers, which are whole numbers of 64 bits or, up to 16 bits, of 32.
template <class T>
void count_up(const Pieces &pieces, const void *x, const void *, void *y) {
    using Lane = std::conditional_t<(sizeof(T) < 4), std::int32_t, std::int64_t>;
    constexpr int lanes = 64 / sizeof(Lane);
    using V = typename Of<Lane, lanes>::type;
    const T *cells = static_cast<const T *>(x);
    std::int64_t *outputs = static_cast<std::int64_t *>(y);
    make_windows(
        pieces,
        [=](std::size_t i) { return __builtin_convertvector(load<typename Of<T, lanes>::type>(cells + i), V); }, plus,
        [=](std::size_t i, V v) {
            store(outputs + i, __builtin_convertvector(v, typename Of<std::int64_t, lanes>::type));
        });
}

// What cells get of cotangents: the sums of those over them and, of kinds with terms, as much of these as the cell's is.
template <class Kind, class V>
void handed_back(const Pieces &pieces, const void *g, const void *x, void *gx) {
    using T = std::decay_t<decltype(V{}[0])>;
    const T *cotangents = static_cast<const T *>(g), *cells = static_cast<const T *>(x);
    T *gradient = static_cast<T *>(gx);
    make_windows(
        pieces, [=](std::size_t i) { return as_doubles(load<V>(cotangents + i)); }, plus, [=](std::size_t i, Doubles v) {
            if constexpr (!std::is_same_v<Kind, Plain>) v *= Kind::term(load<V>(cells + i));
            store(gradient + i, narrowed<V>(v));
        });
}

using Loop = void (*)(const Pieces &, const void *from, const void *x, void *to);
struct Named {
    const char *name;
    Loop loop;
};
const Named LOOPS[] = {
    {"max 1", largest<Of<std::uint8_t, 64>::type>},
    {"max 2", largest<Of<std::int16_t, 32>::type>},
    {"max int32", largest<Of<std::int32_t, 16>::type>},
    {"max int64", largest<Longs>},
    {"max float32", largest<Of<float, 16>::type>},
    {"max float64", largest<Doubles>},
    {"sum uint8", count_up<std::uint8_t>},
    {"sum int16", count_up<std::int16_t>},
    {"sum int32", count_up<std::int32_t>},
    {"sum int64", count_up<std::int64_t>},
#define OF_FLOATS(name, Kind)                                                                                       \
    {name " float16", total<Kind, Halves, Halves, false>}, {name " bfloat16", total<Kind, Bfloats, Bfloats, false>}, \
        {name " float32", total<Kind, Floats, Floats, false>}, {name " float64", total<Kind, Doubles, Doubles, true>}, \
        {name " float16 back", handed_back<Kind, Halves>}, {name " bfloat16 back", handed_back<Kind, Bfloats>},      \
        {name " float32 back", handed_back<Kind, Floats>}, {name " float64 back", handed_back<Kind, Doubles>}
    OF_FLOATS("sum", Plain),
    OF_FLOATS("lp", Squares),
    OF_FLOATS("smooth", Exponentials),
#undef OF_FLOATS
};

}  // namespace

// Runs the loop of that name, and says whether there is one.
extern "C" int run_windows(const char *name, const Pieces *pieces, const void *from, const void *x, void *to) {
    for (const Named &named : LOOPS)
        if (std::strcmp(named.name, name) == 0) {
            named.loop(*pieces, from, x, to);
            return 1;
        }
    return 0;
}
