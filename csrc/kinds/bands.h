// Windows that are out of range of those around them: all of a part again, with other powers of 2, from those with the
// largest cells down.
#pragma once
#include "kinds/window_sums.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

class Bands {
    using Sums = WindowSums<double, double>;
    static constexpr double NONE = -__builtin_inf();

  public:
    // Waits for all windows whose sums are not good, but for those that no power of 2 can help.
    explicit Bands(const Sums &sums) : count(sums.count()), keys(count, "the best cells of windows") {
        for (i64 i = 0; i < count; ++i) keys.data()[i] = NONE;
        const auto &terms = sums.terms;
        sums.over_bad([&](const OutputRow &rows, i64 slab, i64 row, i64 o, i64 e) {
            const LoneWindow window(sums.plan, sums.kind, terms.type, terms.x, slab * sums.plan.in_slab, rows, o, e,
                                    true);
            if (window.is_plain()) keys.data()[sums.place_of(slab, row, o, e)] = window.best_key();
        });
    }

    bool waits(i64 output) const { return keys.data()[output] != NONE; }
    i64 waiting() const {
        i64 all = 0;
        for (i64 i = 0; i < count; ++i) all += waits(i);
        return all;
    }
    // The scale of the largest one that is waited for.
    TermScale scale(const Smooth &kind) const {
        double most = NONE;
        for (i64 i = 0; i < count; ++i) most = keys.data()[i] > most ? keys.data()[i] : most;
        return LoneWindow::scale_by(kind, most);
    }
    // Calls f(output) for those that are good now, and waits no more for them; says whether there are any.
    template <class F>
    bool take(const Sums &sums, const F &f) {
        bool any = false;
        for (i64 i = 0; i < count; ++i) {
            if (!waits(i) || !sums.is_good(i)) continue;
            f(i);
            keys.data()[i] = NONE, any = true;
        }
        return any;
    }

  private:
    const i64 count;
    const Scratch<double> keys;  // of windows that are waited for
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
