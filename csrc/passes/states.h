// What the passes carry from cell to cell, for each kind: a State of N lanes, and how two of them merge.
//
// A kind has
//   In, Lane              the type of a cell, and of what is carried
//   Lanes                 the same kind over cells that are lanes already
//   lift(cells, tag)      a State from N cells; the tag is their place in the window
//   IN_PAIRS              whether there is lift_pairs(cells, a, b): States of 2N cells, those at even places and those
//   at
//                         odd ones
//   MOST_IN_WORDS         of how many narrow integers the sum fits into a word of twice their size; 0 if that is not
//   asked HEAVY                 whether a merge is so long that it is better not unrolled
// and, as its Lanes have it,
//   merge(a, b)           both together; b's cells come later in row-major order than all of a's
//   merge_any(a, b)       the same in any order
//   retag(a, radix, tag)  the places in a window that has one axis more; retag_each adds 0, 1, 2, ... along the lanes
//   empty()               the State of no cell, where there is one
//   further(a, places)    the State of cells that are so many places further on in the window; of kinds that slide
//   IDEMPOTENT            whether a cell may be merged twice
//   ADDS_UP               whether it is a sum, which has only_last(a, count): the last `count` lanes, and in the others
//                         what changes no sum; a sum of floats has merge_beside(a, b), to the bit the same as merge
//   TAGGED, CARRIES       whether places matter, and whether another array is read along
//   COLUMNS_FIRST         whether its sums have an order: down the columns of a window, and then along the row
//   PLANES                how many arrays of lanes a State takes when it rests in memory
//   put, get              a State to and from memory
//   unzip(a, b)           the lanes of both at even places in a, those at odd ones in b
//   shift_in(a, b)        the last lane of a, and all of b but its last
#pragma once
#include "base/lanes.h"

namespace ndpool {
namespace NDPOOL_LEVEL {

template <class L>
struct OneLane {
    using Lane = L;
    static constexpr int PLANES = 1;

    template <int N>
    struct State {
        vec<L, N> v;
    };
    template <int N>
    static State<N> get(const L *p, i64) {
        return {load<N>(p)};
    }
    template <int N>
    static void put(L *p, i64, const State<N> &a) {
        store<N>(p, a.v);
    }
    template <int N>
    static void unzip(State<N> &a, State<N> &b) {
        State<N> even = {every_second<N, 0>(a.v, b.v)};
        b = {every_second<N, 1>(a.v, b.v)};
        a = even;
    }
    template <int N>
    static State<N> shift_in(const State<N> &a, const State<N> &b) {
        return {shift_lane_in<N>(a.v, b.v)};
    }
};

// A value, and what goes with it.
template <class L>
struct TwoLanes {
    using Lane = L;
    static constexpr int PLANES = 2;

    template <int N>
    struct State {
        vec<L, N> v;
        vec<L, N> with;
    };
    template <int N>
    static State<N> get(const L *p, i64 plane) {
        return {load<N>(p), load<N>(p + plane)};
    }
    template <int N>
    static void put(L *p, i64 plane, const State<N> &a) {
        store<N>(p, a.v);
        store<N>(p + plane, a.with);
    }
    template <int N>
    static void unzip(State<N> &a, State<N> &b) {
        State<N> even = {every_second<N, 0>(a.v, b.v), every_second<N, 0>(a.with, b.with)};
        b = {every_second<N, 1>(a.v, b.v), every_second<N, 1>(a.with, b.with)};
        a = even;
    }
    template <int N>
    static State<N> shift_in(const State<N> &a, const State<N> &b) {
        return {shift_lane_in<N>(a.v, b.v), shift_lane_in<N>(a.with, b.with)};
    }
};

// A kind to which the places of the cells do not matter.
struct Untagged {
    static constexpr bool TAGGED = false, CARRIES = false, HEAVY = false, ADDS_UP = false, IN_PAIRS = false,
                          COLUMNS_FIRST = false;
    static constexpr bool PLACED = false;  // whether further() changes anything
    static constexpr i64 MOST_IN_WORDS = 0;
    template <int N, class State>
    static State retag(State a, i64, i64) {
        return a;
    }
    template <int N, class State>
    static State retag_each(State a, i64, i64) {
        return a;
    }
    template <int N, class State>
    static const State &further(const State &a, i64) {
        return a;
    }
};

template <class L>
constexpr bool adds_up() {
    if constexpr (L::TAGGED)
        return false;
    else
        return L::ADDS_UP;
}
// Whether floats are widened for a sum, which keeps the unit that adds as busy as the sum does.
template <class P>
constexpr bool WIDENS_FLOATS = adds_up<P>() && P::PLANES == 1 && std::is_same_v<typename P::In, float> &&
                               std::is_same_v<typename P::Lane, double>;

template <class P>
constexpr bool in_pairs() {
    if constexpr (P::TAGGED)
        return false;
    else
        return P::IN_PAIRS;
}

template <class P>
constexpr bool columns_first() {
    if constexpr (P::TAGGED)
        return false;
    else
        return P::COLUMNS_FIRST;
}

template <class P>
constexpr i64 most_in_words() {
    if constexpr (P::TAGGED)
        return 0;
    else
        return P::MOST_IN_WORDS;
}

}  // namespace NDPOOL_LEVEL
}  // namespace ndpool
