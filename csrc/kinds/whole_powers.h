// Lp of integers, for p = 1, 2, 3 and 4: sums of whole numbers, right from the cells.
//
// Powers of integers are integers. Those of a part of the input are written down in 16 or 32 bits, and added up in
// words or in doubles. Where no sum can have more than 53 bits, nothing is lost. So the bits are those of sums of
// doubles with their errors, which all other cells go by.
#pragma once
#include "kinds/window_sums.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// As PlainSum, but without the way of narrow integers whose results are integers, too.
template <class U, class A>
struct PowerSum : PlainSum<U, A> {
    static constexpr i64 MOST_IN_WORDS = 0;
};

// Writes sums of integers as doubles, or the roots of them.
template <class L>
struct WholeRootSink : RowsOf<double> {
    bool root;

    template <int N>
    NDPOOL_INLINE void put(i64 at, const typename L::template State<N> &s, int count) const {
        using Lane = typename L::Lane;
        constexpr int M = N < LANES<double> ? N : LANES<double>;
        Lane sums[N];
        store<N>(sums, s.v);
        put_some<N>(row + at, count, [&](double *p) NDPOOL_INLINED {
            NDPOOL_UNROLL_ALL
            for (int i = 0; i < N; i += M) {
                const auto sum = convert<double, M>(load<M>(sums + i));
                store<M>(p + i, root ? sqrt_lanes<M>(sum) : sum);
            }
        });
    }
};

// The outputs of a part.
class WholePowers {
  public:
    static bool suit(const Smooth &kind, Type type) {
        const bool whole = kind.parameter == 1 || kind.parameter == 2 || kind.parameter == 3 || kind.parameter == 4;
        return !is_float(type) && kind.lp && whole;
    }

    explicit WholePowers(const PartTerms<double> &terms)
        : terms(terms), plan(terms.plan), p(static_cast<int>(terms.kind.parameter)) {}

    // Writes them, if it is sure that no sum has more than 53 bits; says whether it is.
    bool fill(double *y, bool past_the_caches) const {
        const double size = most_size(), most = p == 1 ? size : p == 2 ? size * size : std::pow(size, p);
        const double all = most * static_cast<double>(plan.cells);
        if (!(most < 0x1p32 && all < 0x1p53)) return false;
        Route route;
        route.past_the_caches = past_the_caches && has_its_sink();
        y += terms.slab * plan.out_slab + terms.start();
        if (most < 0x1p16 && all < 0x1p31)
            add_up<std::uint16_t, std::int32_t>(y, route);
        else
            add_up<std::uint32_t, double>(y, route);
        if (!has_its_sink() || terms.in_pieces) take_roots(y);
        return true;
    }

  private:
    const PartTerms<double> &terms;
    const Plan &plan;
    const int p;

    bool has_its_sink() const { return p <= 2; }

    // Calls f(cells) with those from an element of the slab on.
    template <class F>
    void with_cells(i64 from, const F &f) const {
        switch (terms.type) {
#define NDPOOL_CELLS(NAME, T) \
    case Type::NAME: return f(static_cast<const T *>(terms.x) + terms.slab * plan.in_slab + from);
            NDPOOL_INTEGERS(NDPOOL_CELLS)
#undef NDPOOL_CELLS
            default: return;
        }
    }
    template <class T>
    NDPOOL_INLINE static auto size_of_cell(T x) {
        using U = std::make_unsigned_t<T>;
        return static_cast<U>(x < 0 ? U(0) - static_cast<U>(x) : static_cast<U>(x));
    }
    // A number that no cell's size is above.
    double most_size() const {
        if (size_of(terms.type) == 1) return 255;
        std::uint64_t all = 0;
        with_cells(terms.low(), [&](const auto *x) {
            const i64 count = terms.length();
            decltype(size_of_cell(*x)) any = 0;
            for (i64 i = 0; i < count; ++i) any |= size_of_cell(x[i]);
            all = any;
        });
        return static_cast<double>(all);
    }

    // The powers of `count` cells from an element of the slab on.
    template <class U>
    void write_powers(i64 from, i64 count, U *to) const {
        with_cells(from, [&](const auto *x) {
            if (p == 1) write_each(x, count, to, [](std::uint32_t v) { return v; });
            if (p == 2) write_each(x, count, to, [](std::uint32_t v) { return v * v; });
            if (p == 3) write_each(x, count, to, [](std::uint32_t v) { return v * v * v; });
            if (p == 4) write_each(x, count, to, [](std::uint32_t v) { return v * v * v * v; });
        });
    }
    template <class T, class U, class Power>
    static void write_each(const T *__restrict x, i64 count, U *__restrict to, const Power &power) {
        for (i64 i = 0; i < count; ++i)
            to[i] = static_cast<U>(power(static_cast<std::uint32_t>(size_of_cell(x[i]))));
    }

    template <class U, class A>
    void add_up(double *y, const Route &route) const {
        using P = PowerSum<U, A>;
        Scratch<U> block;
        auto powers = [&](i64 from, i64 count) {
            block.grow(count + 64, "powers of a part");
            write_powers(from, count, block.data());
            return block.data();
        };
        if (!terms.in_pieces) {
            const WholeRootSink<typename P::Lanes> sink{{y}, p == 2};
            return pool_part<Tuned::NOT, P>(terms, powers(terms.low(), terms.length()), sink, route);
        }
        const Scratch<double> sums(plan.out_slab + 64, "sums of a piece");
        const WholeRootSink<typename P::Lanes> sink{{sums.data()}, false};
        const i64 outputs = terms.outputs();
        for (i64 i = 0; i < outputs; ++i) y[i] = 0;
        terms.over_piece_plans([&](const Plan &piece, i64 from, i64 count) {
            pool_all<Tuned::NOT>(piece, P{}, powers(from, count), sink, {});
            for (i64 i = 0; i < outputs; ++i) y[i] += sums.data()[i];
        });
    }

    // Of sums that are where the outputs go.
    void take_roots(double *y) const {
        const i64 count = terms.outputs();
        with_value<double>(terms.kind, {}, [&](const auto &value) NDPOOL_INLINED {
            constexpr int N = LANES<double>;
            over_cells(y, count, [=](i64 i, vec<double, N> sum) NDPOOL_INLINED {
                const int some = count - i < N ? static_cast<int>(count - i) : N;
                put_some<N>(y + i, some, [&](double *to) NDPOOL_INLINED { store<N>(to, value(sum)); });
            });
        });
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
