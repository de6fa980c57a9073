#include "kinds/engine.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <stdexcept>

#include "base/threads.h"
#include "kinds/levels.h"
#include "passes/gather.h"

namespace ndpool {
namespace {

using std::string;
using std::to_string;

// Throws unless the array has just so many elements of such a size, in memory that is aligned to it.
void check(const Array &array, const char *name, i64 elements, i64 size) {
    if (!array.is_given()) throw std::invalid_argument(string(name) + " is None and is needed here");
    const bool aligned =
        array.bytes == 0 || reinterpret_cast<std::uintptr_t>(array.data) % static_cast<std::uintptr_t>(size) == 0;
    const bool there = array.bytes == 0 || array.data;
    if (array.element_bytes == size && array.bytes == elements * size && aligned && there) return;
    throw std::invalid_argument(string(name) + " has " + to_string(array.bytes) + " bytes in elements of " +
                                to_string(array.element_bytes) + (there ? "" : " and no memory") + "; expected " +
                                to_string(elements) + " elements of " + to_string(size) +
                                (aligned ? "" : ", aligned to their size"));
}

// Throws unless the array is dense.
void check_dense(const Array &array, const char *name) {
    if (array.steps) throw std::invalid_argument(string(name) + " is a view, and is needed dense here");
}

// Throws unless a view has these lengths.
void check_lengths(const Array &array, const char *name, const std::vector<i64> &lengths) {
    if (array.steps && !std::equal(lengths.begin(), lengths.end(), array.lengths, array.lengths + array.dims))
        throw std::invalid_argument(string(name) + " is a view of other lengths than the plan's");
}

// Memory for a result that nobody wants.
class Room {
  public:
    Room(i64 bytes, const char *purpose) : memory(std::malloc(static_cast<std::size_t>(bytes ? bytes : 1))) {
        if (!memory) throw OutOfMemory(static_cast<std::size_t>(bytes), purpose);
    }
    ~Room() { std::free(memory); }
    Room(const Room &) = delete;
    Room &operator=(const Room &) = delete;
    void *data() const { return memory; }

  private:
    void *memory;
};

// A path in its two parts.
struct Path {
    Way way = Way::NONE;
    bool streams = false;

    explicit Path(const string &path) {
        const std::size_t plus = path.find('+');
        string name = path.substr(0, plus), how = plus == string::npos ? "" : path.substr(plus + 1);
        if (plus == string::npos && name == "stream") std::swap(name, how);
        if (!how.empty() && how != "stream")
            throw std::invalid_argument("path='" + path + "' ends in '" + how + "'; only 'stream' can follow a way");
        if (!name.empty()) way = way_named(name.c_str());
        streams = !how.empty();
    }
};

const char *const HAVE_WINNERS = "Max and Min with ties 'first', modes and quantiles that are a cell";

// Whether each output is one cell of its window, and leans on it alone.
bool one_wins(const Kind &kind) {
    if (kind.family == Family::ORDER) return !is_between_cells(kind.call.order);
    return kind.family == Family::SELECTION && kind.call.ties == Ties::FIRST;
}

bool is_ascending(const std::vector<i64> &numbers) { return std::is_sorted(numbers.begin(), numbers.end()); }

// Whether axes with one window each may be one axis: not where that would put cells into another order. Nor where there
// are two axes more, along which winners may be added up one after the other: that depends on the window, of which the
// one axis would know less, as it is in a part of an array whose axes have more windows.
bool can_join(const Request &request) {
    const Family family = kind_named(request.kind, request.option, request.parameter).family;
    const auto axes =
        std::count_if(request.dims.begin(), request.dims.end(), [](const auto &dim) { return dim.size() > 1; });
    const bool all = std::all_of(request.dims.begin(), request.dims.end(),
                                 [](const auto &dim) { return dim.size() < 2 || dim[1] == 1; });
    if (family == Family::SELECTION && axes > 3 && !all) return false;
    return is_ascending(request.pooled) || family != Family::ORDER;
}

int checked_winner_bytes(int bytes, const Kind &kind, i64 cells, bool skips) {
    if (bytes == 0) return 0;
    if (bytes != 1 && bytes != 2 && bytes != 4)
        throw std::invalid_argument("winner_bytes=" + to_string(bytes) + " is not one of 0, 1, 2 and 4");
    if (!one_wins(kind))
        throw std::invalid_argument("winner_bytes=" + to_string(bytes) + ", but only " + HAVE_WINNERS +
                                    " keep winners; give 0");
    if (cells > (i64(1) << (8 * bytes)) / (skips ? 2 : 1))  // absent outputs have places of their own
        throw std::invalid_argument("winner_bytes=" + to_string(bytes) + " is too few for the places in a window of " +
                                    to_string(cells) + " cells" + (skips ? ", twice with skipped ones" : ""));
    return bytes;
}

Skip checked_skip(const Skip &skip) {
    if (skip.min_count < 0) throw std::invalid_argument("min_count=" + to_string(skip.min_count) + " is less than 0");
    return skip;
}

// A sum that is rounded is exact before. Of cells of up to 32 bits it has 64, and of wider ones their halves have.
void check_rounding(const Call &call, i64 cells) {
    const i64 bytes = size_of(call.type), bits = bytes > 4 ? 31 : 63 - 8 * bytes;
    if (call.rounding != Rounding::NONE && cells > i64(1) << bits)
        throw std::overflow_error("a mean that is rounded has at most 2**" + to_string(bits) + " cells of " +
                                  name_of(call.type));
}

void check_pooled(const std::vector<i64> &pooled, const Dims &dims) {
    const auto axes = std::count_if(dims.begin(), dims.end(), [](const auto &dim) { return dim.size() > 1; });
    if (!pooled.empty() && static_cast<i64>(pooled.size()) != axes)
        throw std::invalid_argument("pooled has " + to_string(pooled.size()) + " numbers for " + to_string(axes) +
                                    " pooled axes");
}

}  // namespace

PlannedPool::PlannedPool(const Request &request)
    : plan(make_plan(request.dims, can_join(request))),
      kind(kind_named(request.kind, request.option, request.parameter)),
      result(type_named(request.result)) {
    Call &call = kind.call;
    call.type = type_named(request.dtype);
    call.derivative = type_named(request.derivative);
    check_types(kind, request.kind, call.type, result, call.derivative);
    check_rounding(call, plan.cells);
    call.skip = checked_skip(request.skip);
    call.skip.beyond = plan.cells;
    // No integer can stand in for a cell that is not there, as an infinity does.
    if (call.skip.any && kind.family == Family::SMOOTH && !is_float(call.type))
        throw std::invalid_argument("'" + request.kind + "' of integers that are skipped is computed in floats; " +
                                    "convert integers to float64");
    check_pooled(request.pooled, request.dims);
    call.winner_bytes = checked_winner_bytes(request.winner_bytes, kind, plan.cells, call.skip.any);
    const bool wins = one_wins(kind), ties = kind.family == Family::SELECTION && !wins;
    kept = {!wins && (kind.family != Family::LINEAR || call.skip.any), ties, wins};
    if (!is_ascending(request.pooled)) pooled = request.pooled;
    for (const auto &dim : request.dims) {
        const bool pooled = dim.size() > 1, first = leading == static_cast<int>(in_lengths.size());
        if (!pooled && first) ++leading;
        in_lengths.push_back(dim[0]);
        out_lengths.push_back(dim[pooled]);
    }
}

// --- checks ---------------------------------------------------------------------------------------

void PlannedPool::check_x(const Array &x, const char *name, Type type) const {
    check(x, name, inputs(), size_of(type));
    check_lengths(x, name, in_lengths);
}

void PlannedPool::check_y(const Array &y, const char *name, Type type) const {
    check(y, name, outputs(), size_of(type));
    check_lengths(y, name, out_lengths);
}

void PlannedPool::need_winners() const {
    if (!kept.winners) throw std::invalid_argument("only " + string(HAVE_WINNERS) + " have winners");
    if (plan.cells > i64(1) << 32)
        throw std::invalid_argument(
            "a window of more than 2**32 cells has no winners, whose places take 4 bytes at most");
    if (winner_bytes() == 0) throw std::invalid_argument("the plan was made with winner_bytes=0, for no winners");
}

void PlannedPool::check_winners(const Array &winners) const {
    need_winners();
    check(winners, "winners", outputs(), winner_bytes());
    check_dense(winners, "winners");
}

void PlannedPool::check_residual(const Array &x, const Array &y, const Array &winners) const {
    if (kept.x) check_x(x, "x", input_type());
    if (kept.y) check_y(y, "y", result), check_dense(y, "y");
    if (kept.winners) check_winners(winners);
}

// --- operations -----------------------------------------------------------------------------------

// Whether a lane as wide as a cell, and the 4 bytes of a winner, can hold any place in the window.
bool PlannedPool::places_fit() const {
    const i64 bits = 8 * size_of(input_type());
    return plan.cells <= i64(1) << (bits < 32 ? bits : 32);
}

Op PlannedPool::forward_op() const {
    switch (kind.family) {
        case Family::SELECTION: return Op::VALUE;
        case Family::LINEAR: return Op::SUM;
        case Family::SMOOTH: return Op::SMOOTH;
        default: return Op::ORDER;
    }
}

Op PlannedPool::pull_op() const {
    if (kept.winners) return Op::WINNERS_VJP;
    if (kind.family == Family::SELECTION) return Op::TIES_VJP;
    if (kind.family == Family::ORDER) return Op::ORDER_VJP;
    return kind.family == Family::LINEAR ? Op::SUM_VJP : Op::SMOOTH_VJP;
}

// Runs one operation of the kernels, whose arrays `set` puts into the call.
template <class Set>
void PlannedPool::start(Op op, const Manner &manner, const Set &set) const {
    const ThreadsOfCall threads(manner.threads);
    if (is_empty()) return;
    Call call = kind.call;
    call.op = op;
    if (!pooled.empty()) call.pooled = pooled.data();
    if (!manner.path.empty()) {
        const Path path(manner.path);
        call.asked = path.way, call.past_the_caches = path.streams;
    }
    Views views{static_cast<int>(in_lengths.size()), leading, in_lengths.data(), out_lengths.data()};
    set(call, views);
    // Places of winners are counted as the cells lie, which is how they are read on the way back. Only axes of one cell
    // are out of order there, and these change no order of cells.
    if (call.winners) call.pooled = nullptr;
    if (views.any() || call.skip.any) call.views = &views;
    Decision decided;
    if (is_decided_once(call)) decided = decision(call), call.decided = &decided;
    run(plan, call);
}

// A way may be asked for; parts of a view have plans of their own; and a tangent makes another choice.
bool PlannedPool::is_decided_once(const Call &call) const {
    if (call.asked != Way::NONE || call.views || call.t || call.type != kind.call.type) return false;
    switch (call.op) {
        case Op::VALUE:
        case Op::WINNERS:
        case Op::WINNERS_VJP:
        case Op::SUM:
        case Op::SUM_VJP:
        case Op::SMOOTH:
        case Op::SMOOTH_VJP:
        case Op::ORDER:
        case Op::ORDER_VJP: return true;
        default: return false;
    }
}

Decision PlannedPool::decision(const Call &call) const {
    std::atomic<std::uint32_t> &kept = decisions[2 * static_cast<int>(call.op) + (call.winners != nullptr)];
    const auto level = static_cast<std::uint32_t>(number_of_level() + 1);
    const std::uint32_t packed = kept.load(std::memory_order_relaxed);
    auto way = [packed](int shift) { return static_cast<Way>((packed >> shift) & 0xff); };
    if (packed >> 24 == level) return {(packed & 1) != 0, way(8), way(16)};
    const Decision made = decide(plan, call);
    kept.store(level << 24 | static_cast<std::uint32_t>(made.of_strands) << 16 |
                   static_cast<std::uint32_t>(made.way) << 8 | (made.in_one_row ? 1u : 0u),
               std::memory_order_relaxed);
    return made;
}

void PlannedPool::forward(const Array &x, const Array &y, const Manner &manner) const {
    check_x(x, "x", input_type());
    check_y(y, "y", result);
    start(forward_op(), manner, [&](Call &call, Views &views) {
        call.x = x.data, call.y = y.data;
        views.x = x.steps, views.y = y.steps;
    });
}

void PlannedPool::linearize(const Array &x, const Array &y, const Array &winners, const Manner &manner) const {
    if (!kept.winners) {
        if (winners.is_given()) need_winners();
        return forward(x, y, manner);
    }
    check_winners(winners);
    if (kind.family != Family::ORDER && !places_fit()) {  // a pass for the values, and one that looks where they are
        forward(x, y, manner);
        check_dense(y, "y");
        return start(Op::FIND_WINNERS, manner, [&](Call &call, Views &views) {
            call.x = x.data, call.y_in = y.data, call.winners = winners.data;
            views.x = x.steps;
        });
    }
    check_x(x, "x", input_type());
    check_y(y, "y", result);
    start(kind.family == Family::ORDER ? Op::ORDER : Op::WINNERS, manner, [&](Call &call, Views &views) {
        call.x = x.data, call.y = y.data, call.winners = winners.data;
        views.x = x.steps, views.y = y.steps;
    });
}

void PlannedPool::push(const Array &x, const Array &y, const Array &winners, const Array &t, const Array &dy,
                       const Manner &manner) const {
    check_residual(x, y, winners);
    check_x(t, "t", derivative_type());
    check_y(dy, "dy", derivative_type()), check_dense(dy, "dy");
    if (kept.winners) return push_by_winners(winners, t, dy, manner);
    if (kind.family == Family::LINEAR && kept.x)  // and x says which cells are there
        return start(Op::SUM, manner, [&](Call &call, Views &views) {
            call.x = x.data, call.t = t.data, call.dy = dy.data;
            views.x = x.steps, views.t = t.steps;
        });
    if (kind.family == Family::LINEAR)  // the derivative is the pool itself
        return start(Op::SUM, manner, [&](Call &call, Views &views) {
            call.x = t.data, call.y = dy.data, call.type = derivative_type();
            views.x = t.steps;
        });
    if (kind.family == Family::SELECTION) return push_to_ties(x, y, t, dy, manner);
    if (kind.family == Family::ORDER)
        return start(Op::ORDER, manner, [&](Call &call, Views &views) {
            call.x = x.data, call.t = t.data, call.dy = dy.data;
            views.x = x.steps, views.t = t.steps;
        });
    const Room values(outputs() * size_of(result), "y, beside which dy is computed");
    start(Op::SMOOTH, manner, [&](Call &call, Views &views) {
        call.x = x.data, call.y = values.data(), call.t = t.data, call.dy = dy.data;
        views.x = x.steps, views.t = t.steps;
    });
}

void PlannedPool::push_by_winners(const Array &winners, const Array &t, const Array &dy, const Manner &manner) const {
    way_of("push", Path(manner.path).way);  // there is one alone
    check_dense(t, "t");
    const ThreadsOfCall threads(manner.threads);
    if (!is_empty())
        gather(plan, winners.data, winner_bytes(), size_of(derivative_type()), t.data, dy.data, kind.call.skip.any);
}

void PlannedPool::push_to_ties(const Array &x, const Array &y, const Array &t, const Array &dy,
                               const Manner &manner) const {
    start(Op::TIES_JVP, manner, [&](Call &call, Views &views) {
        call.x = x.data, call.y_in = y.data, call.t = t.data, call.dy = dy.data;
        views.x = x.steps, views.t = t.steps;
    });
}

void PlannedPool::pull(const Array &x, const Array &y, const Array &winners, const Array &g, const Array &gx,
                       const Manner &manner) const {
    check_residual(x, y, winners);
    check_y(g, "g", derivative_type());
    check_x(gx, "gx", derivative_type());
    start(pull_op(), manner, [&](Call &call, Views &views) {
        call.x = x.data, call.y_in = y.data, call.winners_in = winners.data;
        call.g = g.data, call.gx = gx.data;
        views.x = x.steps, views.g = g.steps, views.gx = gx.steps;
    });
}

void PlannedPool::jvp(const Array &x, const Array &t, const Array &y, const Array &dy, const Manner &manner) const {
    check_x(x, "x", input_type());
    check_x(t, "t", derivative_type());
    check_y(y, "y", result);
    check_y(dy, "dy", derivative_type()), check_dense(dy, "dy");
    const bool in_order = kind.family == Family::ORDER;
    if (kind.family == Family::LINEAR || (!in_order && kept.winners && !places_fit())) {
        forward(x, y, manner);
        // The path is that of y; the tangent may have a type that cannot go it.
        const Manner any{manner.threads, Path(manner.path).streams ? "stream" : ""};
        if (kind.family == Family::LINEAR) return push(kept.x ? x : Array(), {}, {}, t, dy, any);
        check_dense(y, "y");
        return push_to_ties(x, y, t, dy, any);
    }
    const Op op = in_order                        ? Op::ORDER
                  : kind.family == Family::SMOOTH ? Op::SMOOTH
                  : kept.winners                  ? Op::WINNERS
                                                  : Op::TIES_JVP;
    start(op, manner, [&](Call &call, Views &views) {
        call.x = x.data, call.t = t.data, call.y = y.data, call.dy = dy.data;
        views.x = x.steps, views.t = t.steps, views.y = y.steps;
    });
}

void PlannedPool::indices(const Array &winners, const Array &out, const Manner &manner) const {
    check_winners(winners);
    check(out, "indices", outputs(), 8);
    check_dense(out, "indices");
    start(Op::EXPAND, manner,
          [&](Call &call, Views &) { call.winners_in = winners.data, call.indices = static_cast<i64 *>(out.data); });
}

// --- paths ----------------------------------------------------------------------------------------

Way PlannedPool::way_of(const string &operation, Way asked) const {
    if (operation != "forward" && operation != "linearize" && operation != "push" && operation != "pull" &&
        operation != "jvp")
        throw std::invalid_argument("operation='" + operation +
                                    "' is none of 'forward', 'linearize', 'push', 'pull', 'jvp'");
    if (operation == "push" && kept.winners) {
        if (asked != Way::NONE && asked != Way::GATHER) cannot_go(asked);
        return Way::GATHER;
    }
    Call call = kind.call;
    if (!pooled.empty()) call.pooled = pooled.data();
    call.op = operation == "pull" ? pull_op() : forward_op();
    const bool tied = kind.family == Family::SELECTION && !kept.winners;
    if (tied && (operation == "push" || operation == "jvp")) call.op = Op::TIES_JVP;
    if (operation == "push" && kind.family == Family::LINEAR) call.type = derivative_type();
    const bool finds = operation == "linearize" || operation == "jvp";
    if (finds && kind.family == Family::SELECTION && kept.winners && places_fit()) call.op = Op::WINNERS;
    // The kernels choose another way where they carry a tangent along. It is not read.
    if (operation == "jvp" && (call.op == Op::WINNERS || call.op == Op::SMOOTH)) call.t = this;
    // They look for the cells, too, and not for values alone.
    if (call.op == Op::ORDER && operation != "forward" && (operation != "linearize" || kept.winners)) call.t = this;
    Way way = Way::NONE;
    call.asked = asked, call.told = &way;
    run(plan, call);
    return way;
}

string PlannedPool::path(const string &operation) const { return ndpool::name_of(way_of(operation, Way::NONE)); }

std::vector<string> PlannedPool::paths(const string &operation) const {
    const Way chosen = way_of(operation, Way::NONE);
    std::vector<string> names{ndpool::name_of(chosen)};
    for (int i = 0; i < static_cast<int>(Way::NONE); ++i) {
        const Way way = static_cast<Way>(i);
        try {
            if (way != chosen && way_of(operation, way) == way) names.push_back(ndpool::name_of(way));
        } catch (const std::invalid_argument &) {
            continue;  // not for this plan
        }
    }
    return names;
}

}  // namespace ndpool
