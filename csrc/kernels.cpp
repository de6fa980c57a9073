// The engine at one instruction level: compiled once for each, with NDPOOL_LEVEL naming it.
#include "engine.h"
#include "smooth.h"
#include "wide.h"

namespace ndpool {
namespace NDPOOL_LEVEL {
namespace {

// --- Max and Min --------------------------------------------------------------------------------

// Calls f(key) with the order of the cells. VALUES says that nobody asks which cells are equal.
template <bool VALUES, class F>
void with_key(const Call &call, const F &f) {
    bool least = call.minimum;
    auto half = [&](auto plus_infinity, auto nan) {
        auto flip = static_cast<std::int16_t>(least ? -1 : 0);
        if constexpr (VALUES)
            f(HalfOrder{static_cast<std::int16_t>(flip & -0x8000), static_cast<std::uint16_t>(~plus_infinity)});
        else
            f(HalfKey{flip, plus_infinity, nan});
    };
    switch (call.type) {
        case Type::I8: return f(IntegerKey<std::int8_t>{static_cast<std::int8_t>(least ? -1 : 0)});
        case Type::U8: return f(IntegerKey<std::int8_t>{static_cast<std::int8_t>(least ? 0x7f : -0x80)});
        case Type::I16: return f(IntegerKey<std::int16_t>{static_cast<std::int16_t>(least ? -1 : 0)});
        case Type::U16: return f(IntegerKey<std::int16_t>{static_cast<std::int16_t>(least ? 0x7fff : -0x8000)});
        case Type::I32: return f(IntegerKey<std::int32_t>{least ? -1 : 0});
        case Type::U32: return f(IntegerKey<std::int32_t>{least ? INT32_MAX : INT32_MIN});
        case Type::I64: return f(IntegerKey<std::int64_t>{least ? -1 : 0});
        case Type::U64: return f(IntegerKey<std::int64_t>{least ? INT64_MAX : INT64_MIN});
        case Type::F16: return half(std::int16_t(0x7c00), std::int16_t(0x7e00));
        case Type::BF16: return half(std::int16_t(0x7f80), std::int16_t(0x7fc0));
        case Type::F32: return least ? f(FloatKey<float, true>{}) : f(FloatKey<float, false>{});
        case Type::F64: return least ? f(FloatKey<double, true>{}) : f(FloatKey<double, false>{});
    }
}

template <class F>
void with_float(Type type, const F &f) {
    switch (type) {
        case Type::F16: return f(Half());
        case Type::BF16: return f(BFloat());
        case Type::F32: return f(float());
        case Type::F64: return f(double());
        default: return;
    }
}

template <class F>
void with_winners(const Call &call, const F &f) {
    if (call.winner_bytes == 1) return f(static_cast<const std::uint8_t *>(call.winners_in));
    if (call.winner_bytes == 2) return f(static_cast<const std::uint16_t *>(call.winners_in));
    return f(static_cast<const std::uint32_t *>(call.winners_in));
}

void extreme_value(const Plan &plan, const Call &call) {
    with_key<true>(call, [&](auto key) {
        using K = decltype(key);
        using T = typename K::In;
        ValueSink<K> sink{key, static_cast<T *>(call.y), nullptr};
        pool_wide_or_all(plan, Extreme<K>{key}, static_cast<const T *>(call.x), sink, call.forced);
    });
}

void extreme_winners(const Plan &plan, const Call &call) {
    const Places places(plan);
    with_key<false>(call, [&](auto key) {
        using K = decltype(key);
        using T = typename K::In;
        auto *x = static_cast<const T *>(call.x);
        // The tangent of floats is of their own type.
        if constexpr (!std::is_same_v<K, IntegerKey<T>>)
            if (call.t) {
                using G = typename K::Key;
                TangentSink<K> sink{key, static_cast<T *>(call.y), static_cast<G *>(call.dy), nullptr, nullptr};
                return pool_all(plan, ArgExtreme<K, true>{key, x, static_cast<const G *>(call.t)}, x, sink, call.forced);
            }
        WinnerSink<K> sink{key,
                           static_cast<T *>(call.y),
                           call.winners,
                           call.winner_bytes,
                           static_cast<const double *>(call.t),
                           static_cast<double *>(call.dy),
                           &places,
                           nullptr,
                           nullptr,
                           0};
        pool_all(plan, ArgExtreme<K>{key}, x, sink, call.forced);
    });
}

void find(const Plan &plan, const Call &call) {
    with_key<false>(call, [&](auto key) {
        using T = typename decltype(key)::In;
        auto *x = static_cast<const T *>(call.x), *y = static_cast<const T *>(call.y_in);
        if (call.winner_bytes == 1)
            find_winners(plan, key, x, y, static_cast<std::uint8_t *>(call.winners));
        else if (call.winner_bytes == 2)
            find_winners(plan, key, x, y, static_cast<std::uint16_t *>(call.winners));
        else
            find_winners(plan, key, x, y, static_cast<std::uint32_t *>(call.winners));
    });
}

void vjp_of_winners(const Plan &plan, const Call &call) {
    with_winners(call, [&](auto *winners) {
        with_float(call.derivative, [&](auto zero) {
            using G = decltype(zero);
            using A = std::conditional_t<std::is_same_v<G, Half> || std::is_same_v<G, BFloat>, float, G>;
            using W = std::remove_const_t<std::remove_pointer_t<decltype(winners)>>;
            winners_vjp<W, G, A>(plan, winners, static_cast<const G *>(call.g), static_cast<G *>(call.gx), call.forced);
        });
    });
}

void ties(const Plan &plan, const Call &call) {
    with_key<false>(call, [&](auto key) {
        using T = typename decltype(key)::In;
        auto *x = static_cast<const T *>(call.x), *y = static_cast<const T *>(call.y_in);
        with_float(call.derivative, [&](auto zero) {
            using G = decltype(zero);
            if (call.op == Op::TIES_JVP)
                ties_jvp(plan, key, x, y, static_cast<const G *>(call.t), static_cast<G *>(call.dy), call.ties);
            else
                ties_vjp(plan, key, x, y, static_cast<const G *>(call.g), static_cast<G *>(call.gx), call.ties);
        });
    });
}

// --- sums ---------------------------------------------------------------------------------------

template <class P, class R>
void sum_as(const Plan &plan, const Call &call) {
    SumSink<P, R> sink{static_cast<R *>(call.y), Divisor::of(plan, call.count, call.divisor), nullptr, nullptr};
    pool_wide_or_all(plan, P{}, static_cast<const typename P::In *>(call.x), sink, call.forced);
}

// Integers are summed modulo 2^64; their mean is a double.
template <class T>
void sum_integers(const Plan &plan, const Call &call) {
    auto pool = [&](auto kind, auto *y) {
        using P = decltype(kind);
        using R = std::remove_pointer_t<decltype(y)>;
        SumSink<P, R> sink{y, Divisor::of(plan, call.count, call.divisor), nullptr, nullptr};
        pool_all(plan, kind, static_cast<const T *>(call.x), sink, call.forced);
    };
    if constexpr (sizeof(T) == 8)
        if (call.count != Count::NONE) return pool(ExactSum<T>(), static_cast<double *>(call.y));
    pool(PlainSum<T, std::int64_t>(), static_cast<std::int64_t *>(call.y));
}

void sum(const Plan &plan, const Call &call) {
    switch (call.type) {
#define NDPOOL_SUM(NAME, T) \
    case Type::NAME: return sum_integers<T>(plan, call);
        NDPOOL_INTEGERS(NDPOOL_SUM)
#undef NDPOOL_SUM
        case Type::F16: return sum_as<PlainSum<Half, double>, Half>(plan, call);
        case Type::BF16: return sum_as<PlainSum<BFloat, double>, BFloat>(plan, call);
        case Type::F32: return sum_as<PlainSum<float, double>, float>(plan, call);
        case Type::F64: return sum_as<ExactSum<double>, double>(plan, call);
    }
}

}  // namespace

void run(const Plan &plan, const Call &call) {
    Smooth smooth{call.lp, call.parameter, call.count_pad};
    switch (call.op) {
        case Op::VALUE: return extreme_value(plan, call);
        case Op::WINNERS: return extreme_winners(plan, call);
        case Op::FIND_WINNERS: return find(plan, call);
        case Op::WINNERS_VJP: return vjp_of_winners(plan, call);
        case Op::EXPAND: return with_winners(call, [&](auto *winners) { expand(plan, winners, call.indices); });
        case Op::TIES_JVP:
        case Op::TIES_VJP: return ties(plan, call);
        case Op::SUM: return sum(plan, call);
        case Op::SUM_VJP:
            return with_float(call.derivative, [&](auto zero) {
                using G = decltype(zero);
                sum_vjp(plan, Divisor::of(plan, call.count, call.divisor), static_cast<const G *>(call.g), static_cast<G *>(call.gx), call.forced);
            });
        case Op::SMOOTH:
            return smooth_forward(plan, smooth, call.type, call.derivative, call.x, call.y, call.t, call.dy, call.forced);
        case Op::SMOOTH_VJP: return smooth_vjp(plan, smooth, call.type, call.derivative, call.x, call.g, call.gx, call.forced);
    }
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
