// Sums over one window that is all of a slab too large for the caches, with cells that are skipped: a stretch at a
// time.
//
// Such a slab has no outputs between which it could be cut into pieces. So stretches of its cells are added up as
// doubles, and their sums with the errors of these additions, in order.
#pragma once
#include "kinds/families.h"
#include "kinds/planes.h"
#include "passes/skipped.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

class LongSums {
    using Byte = std::uint8_t;

  public:
    static bool suits(const Plan &plan, const Call &call) {
        const bool sums =
            call.op == Op::SUM_VJP || (call.op == Op::SUM && is_float(call.t ? call.derivative : call.type));
        const Axis &axis = plan.last();
        const bool one = plan.dim_count == 0 && axis.output == 1 && axis.kernel == axis.length && axis.dilation == 1 &&
                         axis.taps(0).count == axis.length;
        return sums && one && plan.inner <= 64 && plan.in_slab * size_of(call.type) > LARGE;
    }

    LongSums(const Plan &plan, const Call &call, const SkippedBits &skipped, i64 least)
        : plan(plan),
          call(call),
          skipped(skipped),
          least(static_cast<double>(least)),
          inner(plan.inner),
          each(STRETCH / plan.inner),
          stretches((plan.last().length + each - 1) / each),
          found(stretches * 2 * plan.inner, "sums of stretches") {}

    void run() {
        const Scratch<double> totals(2 * inner, "sums of a slab");
        for (i64 slab = 0; slab < plan.outer; ++slab) {
            add_up(slab, totals.data(), totals.data() + inner);
            if (call.gx)
                hand_on(slab, totals.data() + inner);
            else
                put(slab, totals.data(), totals.data() + inner);
        }
    }

  private:
    static constexpr i64 LARGE = i64(4) << 20, STRETCH = i64(1) << 15;
    const Plan &plan;
    const Call &call;
    const SkippedBits skipped;
    const double least;
    const i64 inner, each, stretches;  // cells of a stretch, and how many there are
    const Scratch<double> found;       // of each stretch: its sums, and how many cells are there

    // Calls f(stretch, first element, elements) for the stretches of a slab, on several threads.
    template <class F>
    void over_stretches(i64 slab, const F &f) const {
        parallel(stretches, true, [&](i64 begin, i64 end) {
            for (i64 i = begin; i < end; ++i) {
                const i64 left = plan.last().length - i * each;
                f(i, slab * plan.in_slab + i * each * inner, (left < each ? left : each) * inner);
            }
        });
    }
    const void *at(const void *array, i64 element, Type type) const {
        return static_cast<const char *>(array) + element * size_of(type);
    }
    void mark(i64 first, i64 count, Byte *there) const {
        replace(call.type, at(call.x, first, call.type), count, skipped, 0, nullptr, there);
    }
    // The sums of what lies there, as doubles.
    void sum(Type type, const void *x, i64 count, double *to) const {
        Plan part = plan;
        const i64 length = count / inner;
        part.outer = 1, part.cells = length;
        part.axes[0] = {length, 1, length, length, 1, 0, 0, false};
        part.in_row = part.in_slab = count;
        Call own;
        own.op = Op::SUM, own.type = type, own.derivative = Type::F64;
        own.count = Count::FIXED, own.divisor = 1;
        own.x = x, own.y = to;
        run_dense(part, own);
    }
    void add_up(i64 slab, double *totals, double *counts) const {
        over_stretches(slab, [&](i64 stretch, i64 first, i64 count) {
            const Scratch<Byte> there(count + 64, "marks of cells");
            mark(first, count, there.data());
            double *sums = found.data() + stretch * 2 * inner;
            sum(Type::U8, there.data(), count, sums + inner);
            if (call.gx) return;
            const Type type = call.t ? call.derivative : call.type;
            const Scratch<std::uint64_t> kept((count * size_of(type) + 7) / 8 + 16, "cells without skipped ones");
            const Scratch<double> wide(count + 64, "cells as doubles");
            choose(there.data(), count, at(call.t ? call.t : call.x, first, type), 0, kept.data(), size_of(type));
            load_plane(type, kept.data(), 0, count, wide.data());
            sum(Type::F64, wide.data(), count, sums);
        });
        for (i64 e = 0; e < inner; ++e) {
            double total = 0, error = 0, count = 0;
            for (i64 stretch = 0; stretch < stretches; ++stretch) {
                const double *sums = found.data() + stretch * 2 * inner;
                count += sums[inner + e];
                const double next = total + sums[e], part = next - total;
                error += (total - (next - part)) + (sums[e] - part);
                total = next;
            }
            totals[e] = error - error == 0 ? total + error : total;  // beside an infinity it is not a number
            counts[e] = count;
        }
    }
    double divisor(double count) const {
        return call.count == Count::NONE ? 1 : call.count == Count::FIXED ? call.divisor : count;
    }
    void put(i64 slab, const double *totals, const double *counts) const {
        for (i64 e = 0; e < inner; ++e) {
            const i64 to = slab * inner + e;
            const bool enough = counts[e] >= least;
            const double value = totals[e] / divisor(counts[e]);
            if (call.t)
                write(call.derivative, call.dy, to, enough ? value : 0);
            else if (enough)
                write(call.type, call.y, to, value);
            else
                std::memcpy(static_cast<char *>(call.y) + to * size_of(call.type), &call.skip.absent,
                            static_cast<std::size_t>(size_of(call.type)));
        }
    }
    void hand_on(i64 slab, const double *counts) const {
        const i64 bytes = size_of(call.derivative), most = each * inner;
        const Scratch<std::uint64_t> shares((most * bytes + 7) / 8 + 16, "what cells get");
        for (i64 e = 0; e < inner; ++e) {
            const double share = read(call.derivative, call.g, slab * inner + e) / divisor(counts[e]);
            for (i64 i = e; i < most; i += inner)
                write(call.derivative, shares.data(), i, counts[e] >= least ? share : 0);
        }
        over_stretches(slab, [&](i64, i64 first, i64 count) {
            const Scratch<Byte> there(count + 64, "marks of cells");
            mark(first, count, there.data());
            char *to = static_cast<char *>(call.gx) + first * bytes;
            choose(there.data(), count, shares.data(), 0, to, bytes, call.past_the_caches);
        });
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
