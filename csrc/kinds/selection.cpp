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
        constexpr Tuned TUNED = std::is_floating_point_v<T> ? TUNED_BY_TYPE<K> : Tuned::NOT;
        if constexpr (PACKS<K>) {
            const bool slides = !call.t && plan.cells <= Packed<K>::MOST_CELLS;
            return pool_all<TUNED>(plan, ArgExtreme<K>{key}, x, sink, route, slides, [&](bool streamed) {
                slide_all(plan, Packed<K>(key), x, PackedSink<K>{sink}, streamed);
            });
        }
        if constexpr (LEVEL_IS_TUNED && sizeof(typename K::Key) == 8)
            return pool_all<TUNED>(plan, ArgExtreme<K>{key}, x, sink, route, !call.t, [&](bool streamed) {
                slide_all(plan, Placed<K>(key), x, PlacedSink<K>{sink}, streamed);
            });
        pool_all<TUNED>(plan, ArgExtreme<K>{key}, x, sink, route);
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

}  // namespace

void run_selection(const Plan &plan, const Call &call, const Route &route) {
    switch (call.op) {
        case Op::VALUE: return extreme_value(plan, call, route);
        case Op::WINNERS: return extreme_winners(plan, call, route);
        case Op::WINNERS_VJP: return vjp_of_winners(plan, call, route);
        case Op::EXPAND: return with_winners(call, [&](auto *winners) { expand(plan, winners, call.indices); });
        default: return run_ties(plan, call, route);
    }
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
