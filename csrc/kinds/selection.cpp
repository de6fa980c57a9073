// Max and Min, for cells of every type.
#include "kinds/selection.h"

#include "kinds/families.h"

namespace ndpool {
namespace NDPOOL_LEVEL {
namespace {

// --- Max and Min --------------------------------------------------------------------------------

// For which types the ways in registers are compiled.
template <class K>
constexpr Tuned TUNED_BY_TYPE =
    std::is_same_v<typename K::In, float> ? Tuned::ALL
    : std::is_same_v<K, HalfOrder> || std::is_same_v<typename K::In, double> || sizeof(typename K::In) == 1
        ? Tuned::ROWS
        : Tuned::NOT;

// Calls f(key) with the order of the cells. VALUES says that nobody asks which cells are equal.
template <bool VALUES, class F>
void with_key(const Call &call, const F &f) {
    bool least = call.minimum;
    const auto flip = static_cast<std::int16_t>(least ? -1 : 0);
    auto half = [&](std::int16_t infinity, std::int16_t nan) {
        if constexpr (VALUES)
            f(HalfOrder{static_cast<std::int16_t>(flip & -0x8000), static_cast<std::uint16_t>(~infinity)});
        else
            f(ShortKey{flip, infinity, nan, 0x7fff, -1});
    };
    // Integers of 16 bits, in the order of signed ones when flipped; no number is NaN.
    auto whole = [&](int flip) {
        const auto bits = static_cast<std::int16_t>(flip);
        if constexpr (VALUES)
            f(IntegerKey<std::int16_t>{bits});
        else
            f(ShortKey{bits, 0x7fff, static_cast<std::int16_t>(0x7fff ^ bits), 0, 0});
    };
    switch (call.type) {
        case Type::I8: return f(IntegerKey<std::int8_t>{static_cast<std::int8_t>(least ? -1 : 0)});
        case Type::U8: return f(IntegerKey<std::int8_t>{static_cast<std::int8_t>(least ? 0x7f : -0x80)});
        case Type::I16: return whole(least ? -1 : 0);
        case Type::U16: return whole(least ? 0x7fff : -0x8000);
        case Type::I32: return f(IntegerKey<std::int32_t>{least ? -1 : 0});
        case Type::U32: return f(IntegerKey<std::int32_t>{least ? INT32_MAX : INT32_MIN});
        case Type::I64: return f(IntegerKey<std::int64_t>{least ? -1 : 0});
        case Type::U64: return f(IntegerKey<std::int64_t>{least ? INT64_MAX : INT64_MIN});
        case Type::F16: return half(0x7c00, 0x7e00);
        case Type::BF16: return half(0x7f80, 0x7fc0);
        case Type::F32: return f(FloatKey<float>{least ? 0x80000000u : 0u});
        case Type::F64: return f(FloatKey<double>{least ? std::uint64_t(1) << 63 : 0});
    }
}

template <class F>
void with_winners(const Call &call, const F &f) {
    if (call.winner_bytes == 1) return f(static_cast<const std::uint8_t *>(call.winners_in));
    if (call.winner_bytes == 2) return f(static_cast<const std::uint16_t *>(call.winners_in));
    return f(static_cast<const std::uint32_t *>(call.winners_in));
}

void extreme_value(const Plan &plan, const Call &call, const Route &route) {
    with_key<true>(call, [&](auto key) {
        using K = decltype(key);
        using T = typename K::In;
        ValueSink<K> sink{key, static_cast<T *>(call.y), nullptr};
        pool_all<TUNED_BY_TYPE<K>>(plan, Extreme<K>{key}, static_cast<const T *>(call.x), sink, route);
    });
}

void extreme_winners(const Plan &plan, const Call &call, const Route &route) {
    const Places places(plan);
    with_key<false>(call, [&](auto key) {
        using K = decltype(key);
        using T = typename K::In;
        auto *x = static_cast<const T *>(call.x);
        // Floats carry their tangent along; for others it is read where the winners are.
        if constexpr (std::is_same_v<T, float>)
            if (call.t) {
                TangentSink<K> sink{key, static_cast<T *>(call.y), static_cast<T *>(call.dy), nullptr, nullptr};
                return pool_all<Tuned::ALL>(plan, ArgExtreme<K, true>{key, x, static_cast<const T *>(call.t)}, x, sink,
                                            route);
            }
        WinnerSink<K> sink{key,
                           static_cast<T *>(call.y),
                           call.winners,
                           call.winners          ? call.winner_bytes
                           : plan.cells <= 256   ? 1
                           : plan.cells <= 65536 ? 2
                                                 : 4,
                           call.t,
                           call.dy,
                           static_cast<int>(size_of(call.derivative)),
                           &places,
                           nullptr,
                           nullptr,
                           0};
        pool_all<std::is_floating_point_v<T> ? TUNED_BY_TYPE<K> : Tuned::NOT>(plan, ArgExtreme<K>{key}, x, sink, route);
    });
}

void vjp_of_winners(const Plan &plan, const Call &call, const Route &route) {
    with_winners(call, [&](auto *winners) {
        with_float(call.derivative, [&](auto zero) {
            using G = decltype(zero);
            using A = std::conditional_t<std::is_same_v<G, Half> || std::is_same_v<G, BFloat>, float, G>;
            using W = std::remove_const_t<std::remove_pointer_t<decltype(winners)>>;
            winners_vjp<W, G, A>(plan, winners, static_cast<const G *>(call.g), static_cast<G *>(call.gx), route);
        });
    });
}

// --- by looking ---------------------------------------------------------------------------------

template <class A, class G>
TiedArrays<A> tied_arrays(const Call &call) {
    using I = typename IntOf<sizeof(A)>::s;
    const Type type = call.type;
    return {
        call.x,   call.y_in, call.t, call.g, key_rows<I>(type), FLOAT_ROWS<A, G>, static_cast<I>(call.minimum ? -1 : 0),
        call.ties};
}

// One window, cut into pieces of so many cells: each is a window of its own.
Plan in_pieces(const Plan &plan, i64 cells) {
    Plan own = plan;
    Axis &axis = own.axes[0];
    const i64 count = (axis.length + cells - 1) / cells;
    axis = {axis.length, count, cells, cells, 1, 0, count * cells - axis.length, false};
    own.out_row = own.out_slab = count * plan.inner;
    own.cells = cells;
    own.same_count = own.same_real = axis.pad_hi == 0;
    return own;
}

// The winners of one window over all cells, of which a lane cannot count the places: those of its pieces, and then the
// first of the best.
template <class K>
void find_by_pieces(const Plan &plan, const Call &call, const K &key) {
    using T = typename K::In;
    using Place = typename IntOf<sizeof(T)>::u;
    constexpr i64 PIECE = sizeof(T) == 1 ? 128 : 4096;
    const Plan pieces = in_pieces(plan, PIECE);
    const i64 outputs = pieces.outer * pieces.out_slab, inner = plan.inner;
    const Scratch<T> y(outputs + 64, "values of the pieces of a window");
    const Scratch<Place> winners(outputs + 64, "winners of the pieces of a window");
    const Places places(pieces);
    WinnerSink<K> sink{key, y.data(), winners.data(), sizeof(Place), nullptr, nullptr, 0, &places, nullptr, nullptr, 0};
    pool_all<Tuned::NOT>(pieces, ArgExtreme<K>{key}, static_cast<const T *>(call.x), sink, Route());
    const i64 before = plan.last().taps(0).skipped;
    for (i64 slab = 0; slab < plan.outer; ++slab)
        for (i64 e = 0; e < inner; ++e) {
            auto at = [&](i64 piece) { return slab * pieces.out_slab + piece * inner + e; };
            i64 best = 0;
            for (i64 piece = 1; piece < pieces.last().output; ++piece)
                if (Order<typename K::Key>::template better<1>(key.template in<1>(&y[at(piece)]),
                                                               key.template in<1>(&y[at(best)]))[0])
                    best = piece;
            const i64 place = before + best * PIECE + winners[at(best)], to = slab * inner + e;
            if (call.winner_bytes == 1)
                static_cast<std::uint8_t *>(call.winners)[to] = static_cast<std::uint8_t>(place);
            else if (call.winner_bytes == 2)
                static_cast<std::uint16_t *>(call.winners)[to] = static_cast<std::uint16_t>(place);
            else
                static_cast<std::uint32_t *>(call.winners)[to] = static_cast<std::uint32_t>(place);
        }
}

void find(const Plan &plan, const Call &call) {
    if (is_one_window(plan) && plan.last().taps(0).count == plan.last().length && size_of(call.type) <= 2)
        return with_key<false>(call, [&](auto key) {
            if constexpr (sizeof(typename decltype(key)::In) <= 2) find_by_pieces(plan, call, key);
        });
    find_winners(plan, tied_arrays<double, double>(call), call.winners, call.winner_bytes);
}

// How many numbers are added up at most: those that tie for an output, or what the windows over a cell hand to it.
i64 most_terms(const Plan &plan, Op op) {
    i64 terms = 1;
    for (int a = 0; a < plan.axis_count; ++a) {
        const Axis &axis = plan.axes[a];
        if (op == Op::TIES_JVP)
            terms *= axis.kernel;
        else
            terms *= axis.adaptive ? axis.output / axis.length + 2 : axis.kernel / axis.stride + 1;
    }
    return terms;
}

template <class A, class G>
void ties_as(const Plan &plan, const Call &call, const Route &route) {
    const TiedArrays<A> arrays = tied_arrays<A, G>(call);
    if (call.op == Op::TIES_VJP) return ties_vjp<A>(plan, arrays, Gradient(plan, call.gx, sizeof(G), route));
    // A sum of floats may be beyond all floats where its share is not, so what is not finite is added up again.
    if (!ties_jvp<A>(plan, arrays, call.dy, sizeof(G)) && sizeof(A) < sizeof(double))
        ties_as<double, G>(plan, call, route);
}

void ties(const Plan &plan, const Call &call, const Route &route) {
    if (route.asked != Way::NONE && route.asked != Way::TIES) cannot_go(route.asked);
    if (route.tell(Way::TIES)) return;
    if (call.ties == Ties::FIRST) {
        TiedArrays<double> arrays = tied_arrays<double, double>(call);
        arrays.t = nullptr;
        return first_jvp(plan, arrays, call.t, call.dy, size_of(call.derivative));
    }
    constexpr i64 FEW = 64;  // that floats can add up without losing more than a last place or two
    const bool few = most_terms(plan, call.op) <= FEW && plan.cells < (1 << 24);
    with_float(call.derivative, [&](auto zero) {
        using G = decltype(zero);
        if constexpr (!std::is_same_v<G, double>)
            if (few) return ties_as<float, G>(plan, call, route);
        ties_as<double, G>(plan, call, route);
    });
}

}  // namespace

void run_selection(const Plan &plan, const Call &call, const Route &route) {
    switch (call.op) {
        case Op::VALUE: return extreme_value(plan, call, route);
        case Op::WINNERS: return extreme_winners(plan, call, route);
        case Op::WINNERS_VJP: return vjp_of_winners(plan, call, route);
        case Op::FIND_WINNERS: return find(plan, call);
        case Op::EXPAND: return with_winners(call, [&](auto *winners) { expand(plan, winners, call.indices); });
        default: return ties(plan, call, route);
    }
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
