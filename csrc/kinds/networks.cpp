#include "kinds/networks.h"

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

namespace ndpool {
namespace {

struct Making : Network {
    std::vector<Comparison> steps;
};

// Batcher's merge exchange (Knuth, volume 3, 5.2.2, algorithm M), which sorts any number of cells.
void sort_all(Making &network, int n) {
    for (int i = 0; i < n; ++i) network.at[i] = static_cast<std::uint8_t>(i);
    int half = 1;
    while (2 * half < n) half *= 2;
    for (int p = half; p > 0; p /= 2) {
        int q = half, r = 0, d = p;
        for (;;) {
            for (int i = 0; i + d < n; ++i)
                if ((i & p) == r)
                    network.steps.push_back(
                        {static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(i + d), Comparison::BOTH});
            if (q == p) break;
            d = q - p, q /= 2, r = p;
        }
    }
}

using Places = std::vector<std::uint8_t>;

Places every_second(const Places &from, std::size_t first) {
    Places some;
    for (std::size_t i = first; i < from.size(); i += 2) some.push_back(from[i]);
    return some;
}

// Merges two sorted lists of cells: those at even places of both, those at odd places, and then each two neighbours
// (Batcher's odd-even merge). Gives where the cells are, in their order.
Places merge(Making &network, const Places &a, const Places &b) {
    if (a.empty()) return b;
    if (b.empty()) return a;
    auto compare = [&](std::uint8_t lo, std::uint8_t hi) { network.steps.push_back({lo, hi, Comparison::BOTH}); };
    if (a.size() == 1 && b.size() == 1) {
        compare(a[0], b[0]);
        return {a[0], b[0]};
    }
    const Places even = merge(network, every_second(a, 0), every_second(b, 0)),
                 odd = merge(network, every_second(a, 1), every_second(b, 1));
    Places all{even[0]};
    for (std::size_t i = 0; i < odd.size() || i + 1 < even.size(); ++i) {
        if (i < odd.size()) all.push_back(odd[i]);
        if (i + 1 < even.size()) all.push_back(even[i + 1]);
        if (i < odd.size() && i + 1 < even.size()) compare(odd[i], even[i + 1]);
    }
    return all;
}

// Merges the columns first..stop-1, half of them with the other half.
Places merge_columns(Making &network, int first, int stop, int height) {
    if (stop - first > 1) {
        const int middle = (first + stop) / 2;
        const Places before = merge_columns(network, first, middle, height);
        return merge(network, before, merge_columns(network, middle, stop, height));
    }
    Places column;
    for (int i = 0; i < height; ++i) column.push_back(static_cast<std::uint8_t>(first * height + i));
    return column;
}

// Leaves out what no wanted rank depends on, from the last step back.
void keep_ranks(Making &network, int lo, int hi) {
    bool wanted[256] = {};
    for (int rank = lo; rank <= hi; ++rank) wanted[network.at[rank]] = true;
    std::vector<Comparison> kept;
    for (std::size_t i = network.steps.size(); i-- > 0;) {
        Comparison step = network.steps[i];
        if (!wanted[step.lo] && !wanted[step.hi]) continue;
        step.made = !wanted[step.hi] ? Comparison::LESSER : !wanted[step.lo] ? Comparison::GREATER : Comparison::BOTH;
        wanted[step.lo] = wanted[step.hi] = true;
        kept.push_back(step);
    }
    network.steps.assign(kept.rbegin(), kept.rend());
}

}  // namespace

const Network &network_of_columns(int columns, int height, int lo, int hi) {
    static std::mutex mutex;
    static std::map<std::tuple<int, int, int, int>, std::unique_ptr<Making>> made;
    const std::lock_guard<std::mutex> lock(mutex);
    std::unique_ptr<Making> &found = made[{columns, height, lo, hi}];
    if (found) return *found;
    auto network = std::make_unique<Making>();
    if (height == 1) {
        sort_all(*network, columns);
    } else {
        const Places places = merge_columns(*network, 0, columns, height);
        for (std::size_t i = 0; i < places.size(); ++i) network->at[i] = places[i];
    }
    if (lo != ALL_RANKS) keep_ranks(*network, lo, hi);
    network->Network::steps = network->steps.data();
    network->count = static_cast<int>(network->steps.size());
    found = std::move(network);
    return *found;
}

const Network &network_of(int n, int lo, int hi) { return network_of_columns(n, 1, lo, hi); }

}  // namespace ndpool
