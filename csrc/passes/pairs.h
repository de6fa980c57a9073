// Windows of two cells along a row of narrow integers, in steps of two, added up in registers.
//
// Two cells side by side are the halves of a word twice as wide, in which their sum is. So nothing has to be widened,
// nor to cross a register, before the rows of a window are added up.
#pragma once
#include "passes/rows.h"
#include "plan/choice.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

// The sum of the two T in each word.
template <class T, int N, class Word>
NDPOOL_INLINE vec<Word, N> add_halves(vec<Word, N> words) {
    constexpr int HALF = 8 * sizeof(T);
    using U = vec<typename IntOf<sizeof(Word)>::u, N>;
    if constexpr (std::is_signed_v<T>)
        return (bits<vec<Word, N>>(bits<U>(words) << HALF) >> HALF) + (words >> HALF);
    else
        return bits<vec<Word, N>>((bits<U>(words) & ((typename IntOf<sizeof(Word)>::u(1) << HALF) - 1)) +
                                  (bits<U>(words) >> HALF));
}

// Pools rows of outputs in lanes of 32 bits.
template <class P, class Sink>
class PairPooler {
    using T = typename P::In;
    using Lane = typename P::Lane;
    using Word = typename IntOf<2 * sizeof(T)>::s;
    static constexpr int N = LANES<Lane>, M = NDPOOL_VECTOR_BYTES / static_cast<int>(sizeof(Word));

  public:
    // For at most `part` outputs at a time.
    PairPooler(const Plan &plan, const T *x, i64 part)
        : axis(plan.last()), x(x), whole(direct_outputs(plan.last())), room(part + 2 * M, "sums of a row") {}

    i64 rows_at_a_time(const OutputRow &rows, const Sink &sink, i64 most) const {
        if (sink.finishes()) return 1;
        return rows.ahead + 1 < most ? rows.ahead + 1 : most;
    }

    // The outputs begin..end-1 of a row, and of `more` rows that follow; `base` is where its rows start in the array.
    void pool(i64 base, const OutputRow &rows, const Sink &sink, i64 begin, i64 end, i64, i64 more) const {
        const i64 first = whole.first < begin ? begin : whole.first, stop = whole.stop > end ? end : whole.stop;
        const bool in_registers = stop - first >= M && rows.count > 0;
        Sink to = sink;
        const T *from = x + base;
        for (i64 row = 0; row <= more; ++row, from += rows.step) {
            if (in_registers) pool_whole(from - axis.pad_lo, rows, to, first, stop);
            for (i64 o = begin; o < (in_registers ? first : end); ++o) pool_one(from, rows, to, o);
            for (i64 o = stop; in_registers && o < end; ++o) pool_one(from, rows, to, o);
            to.over_arrays([&](auto, auto &array) { array += axis.output; });
        }
    }

  private:
    const Axis &axis;
    const T *x;
    const DirectOutputs whole;
    const Scratch<Word> room;

    // Means that a shift rounds are made of the words as they are.
    void pool_whole(const T *cell, const OutputRow &rows, Sink &sink, i64 first, i64 stop) const {
        if (const auto *by = sink.shifts(first, stop)) {
            const auto means = by->template means<Word, M>();
            T *y = reinterpret_cast<T *>(sink.row.first);
            over_blocks(cell, rows, first, stop,
                        [=](i64 at, vec<Word, M> sum) NDPOOL_INLINED { store_as<M>(y + at, means.by_shift(sum)); });
        } else {
            over_blocks(cell, rows, first, stop, [&](i64 at, vec<Word, M> sum) NDPOOL_INLINED {
                Word sums[M];
                store<M>(sums, sum);
                NDPOOL_UNROLL
                for (int i = 0; i < M; i += N) sink.template put<N>(at + i, {load_as<Lane, N>(sums + i)}, N);
            });
        }
    }
    // Calls put(at, sums) for M outputs from the `at`-th on, and so for all from `first` to before `stop`. The last
    // ones overlap their neighbours. One row of cells is read after the other, and the sums rest in the nearest cache:
    // a processor that meets several rows of one page in turn does not fetch them ahead.
    template <class Put>
    NDPOOL_INLINE void over_blocks(const T *cell, const OutputRow &rows, i64 first, i64 stop, const Put &put) const {
        const i64 last = rows.count - 1;
        Word *const sums = room.data();
        for (i64 r = 0; r < last; ++r)
            over_row(cell + rows.offset[r], first, stop, [=](i64 slot, i64, vec<Word, M> sum) NDPOOL_INLINED {
                store<M>(sums + slot, r ? sum + load<M>(sums + slot) : sum);
            });
        over_row(cell + rows.offset[last], first, stop, [&](i64 slot, i64 at, vec<Word, M> sum) NDPOOL_INLINED {
            put(at, last ? sum + load<M>(sums + slot) : sum);
        });
    }
    // Calls use(slot, at, sums) for the pairs of one row; slots are side by side, and no two overlap.
    template <class Use>
    NDPOOL_INLINE static void over_row(const T *row, i64 first, i64 stop, const Use &use) {
        auto block = [&](i64 slot, i64 at) NDPOOL_INLINED {
            vec<Word, M> words;
            std::memcpy(&words, row + 2 * at, sizeof words);
            use(slot, at, add_halves<T, M, Word>(words));
        };
        i64 o = first;
        for (; o + 2 * M <= stop; o += 2 * M) block(o - first, o), block(o - first + M, o + M);
        for (; o < stop; o += M) block(o - first, o + M <= stop ? o : stop - M);
    }

    // A window at the edge, cell by cell.
    void pool_one(const T *from, const OutputRow &rows, Sink &sink, i64 o) const {
        const Axis::Taps taps = axis.taps(o);
        Lane sum = 0;
        for (i64 r = 0; r < rows.count; ++r)
            for (i64 k = 0; k < taps.count; ++k) sum += from[rows.offset[r] + taps.first + k];
        sink.template put<1>(o, {splat<Lane, 1>(sum)}, 1);
    }
};

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
