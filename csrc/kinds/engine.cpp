#include "kinds/engine.h"

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
    const bool aligned = array.bytes == 0 || reinterpret_cast<std::uintptr_t>(array.data) % static_cast<std::uintptr_t>(size) == 0;
    const bool there = array.bytes == 0 || array.data;
    if (array.element_bytes == size && array.bytes == elements * size && aligned && there) return;
    throw std::invalid_argument(string(name) + " has " + to_string(array.bytes) + " bytes in elements of " + to_string(array.element_bytes) +
                                (there ? "" : " and no memory") + "; expected " + to_string(elements) + " elements of " + to_string(size) +
                                (aligned ? "" : ", aligned to their size"));
}

// Memory for a result that nobody wants.
class Room {
  public:
    Room(i64 bytes, const char *purpose) : memory(std::malloc(static_cast<std::size_t>(bytes))) {
        if (!memory) throw OutOfMemory(static_cast<std::size_t>(bytes), purpose);
    }
    ~Room() { std::free(memory); }
    Room(const Room &) = delete;
    Room &operator=(const Room &) = delete;
    void *data() const { return memory; }

  private:
    void *memory;
};

int checked_winner_bytes(int bytes, const Kind &kind, i64 cells) {
    if (bytes == 0) return 0;
    if (bytes != 1 && bytes != 2 && bytes != 4) throw std::invalid_argument("winner_bytes=" + to_string(bytes) + " is not one of 0, 1, 2 and 4");
    if (kind.family != Family::SELECTION || kind.call.ties != Ties::FIRST)
        throw std::invalid_argument("winner_bytes=" + to_string(bytes) + ", but only Max and Min with ties 'first' keep winners; give 0");
    if (cells > i64(1) << (8 * bytes))
        throw std::invalid_argument("winner_bytes=" + to_string(bytes) + " is too few for the places in a window of " + to_string(cells) + " cells");
    return bytes;
}

}  // namespace

PlannedPool::PlannedPool(const Request &request)
    : plan(make_plan(request.dims)), kind(kind_named(request.kind, request.option, request.parameter)), result(type_named(request.result)) {
    Call &call = kind.call;
    call.type = type_named(request.dtype);
    call.derivative = type_named(request.derivative);
    check_types(kind, request.kind, call.type, result, call.derivative);
    call.winner_bytes = checked_winner_bytes(request.winner_bytes, kind, plan.cells);
    const bool selects = kind.family == Family::SELECTION, one_wins = selects && call.ties == Ties::FIRST;
    kept = {kind.family == Family::SMOOTH || (selects && !one_wins), selects && !one_wins, one_wins};
}

// --- checks ---------------------------------------------------------------------------------------

void PlannedPool::check_x(const Array &x, const char *name, Type type) const { check(x, name, inputs(), size_of(type)); }

void PlannedPool::check_y(const Array &y, const char *name, Type type) const { check(y, name, outputs(), size_of(type)); }

void PlannedPool::need_winners() const {
    if (!kept.winners) throw std::invalid_argument("only Max and Min with ties 'first' have winners");
    if (plan.cells > i64(1) << 32) throw std::invalid_argument("a window of more than 2**32 cells has no winners, whose places take 4 bytes at most");
    if (winner_bytes() == 0) throw std::invalid_argument("the plan was made with winner_bytes=0, for no winners");
}

void PlannedPool::check_winners(const Array &winners) const {
    need_winners();
    check(winners, "winners", outputs(), winner_bytes());
}

void PlannedPool::check_residual(const Array &x, const Array &y, const Array &winners) const {
    if (kept.x) check_x(x, "x", input_type());
    if (kept.y) check_y(y, "y", result);
    if (kept.winners) check_winners(winners);
}

// --- operations -----------------------------------------------------------------------------------

Call PlannedPool::call_for(Op op, const Manner &manner) const {
    Call call = kind.call;
    call.op = op;
    const std::size_t plus = manner.path.find('+');
    string name = manner.path.substr(0, plus), how = plus == string::npos ? "" : manner.path.substr(plus + 1);
    if (name == "stream" && how.empty()) std::swap(name, how);
    if (!how.empty() && how != "stream") throw std::invalid_argument("path='" + manner.path + "' ends in '" + how + "'; only 'stream' can follow a way");
    if (!name.empty()) call.asked = way_named(name.c_str());
    call.past_the_caches = how == "stream";
    return call;
}

Op PlannedPool::forward_op() const {
    return kind.family == Family::SELECTION ? Op::VALUE : kind.family == Family::LINEAR ? Op::SUM : Op::SMOOTH;
}

Op PlannedPool::pull_op() const {
    if (kind.family == Family::SELECTION) return kept.winners ? Op::WINNERS_VJP : Op::TIES_VJP;
    return kind.family == Family::LINEAR ? Op::SUM_VJP : Op::SMOOTH_VJP;
}

Way PlannedPool::way_of(const string &operation, Way asked) const {
    Call call = kind.call;
    call.op = forward_op();
    if (operation == "pull")
        call.op = pull_op();
    else if (operation == "push" && kept.winners)
        return asked == Way::NONE || asked == Way::GATHER ? Way::GATHER : (cannot_go(asked), asked);
    else if (operation == "push" && kind.family == Family::SELECTION)
        call.op = Op::TIES_JVP;
    else if (operation == "push" && kind.family == Family::LINEAR)
        call.type = call.derivative;
    else if ((operation == "linearize" || operation == "jvp") && kept.winners && places_fit())
        call.op = Op::WINNERS;
    else if (operation != "forward" && operation != "linearize" && operation != "jvp" && operation != "push")
        throw std::invalid_argument("operation='" + operation + "' is none of 'forward', 'linearize', 'push', 'pull' and 'jvp'");
    // With a tangent the kernels carry another array along, which is another choice.
    static const char nothing = 0;
    if (operation == "jvp" && (call.op == Op::WINNERS || call.op == Op::SMOOTH)) call.t = &nothing;
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

// Whether a lane as wide as a cell can hold any place in the window.
bool PlannedPool::places_fit() const {
    const i64 bits = 8 * size_of(input_type());
    return bits == 64 || plan.cells <= i64(1) << bits;
}

void PlannedPool::forward(const Array &x, const Array &y, const Manner &manner) const {
    check_x(x, "x", input_type());
    check_y(y, "y", result);
    const ThreadsOfCall threads(manner.threads);
    if (is_empty()) return;
    Call call = call_for(forward_op(), manner);
    call.x = x.data, call.y = y.data;
    run(plan, call);
}

void PlannedPool::linearize(const Array &x, const Array &y, const Array &winners, const Manner &manner) const {
    if (!kept.winners) {
        if (winners.is_given()) need_winners();
        return forward(x, y, manner);
    }
    check_x(x, "x", input_type());
    check_y(y, "y", result);
    check_winners(winners);
    const ThreadsOfCall threads(manner.threads);
    if (is_empty()) return;
    Call call = call_for(places_fit() ? Op::WINNERS : Op::VALUE, manner);
    call.x = x.data, call.y = y.data, call.winners = winners.data;
    run(plan, call);
    if (places_fit()) return;
    call.op = Op::FIND_WINNERS, call.y_in = y.data;
    run(plan, call);
}

void PlannedPool::push(const Array &x, const Array &y, const Array &winners, const Array &t, const Array &dy, const Manner &manner) const {
    check_residual(x, y, winners);
    check_x(t, "t", derivative_type());
    check_y(dy, "dy", derivative_type());
    const ThreadsOfCall threads(manner.threads);
    if (is_empty()) return;
    if (kept.winners) way_of("push", call_for(Op::EXPAND, manner).asked);
    if (kept.winners) return gather(plan, winners.data, winner_bytes(), size_of(derivative_type()), t.data, dy.data);
    if (kind.family == Family::LINEAR) {  // the derivative is the pool itself
        Call call = call_for(Op::SUM, manner);
        call.x = t.data, call.y = dy.data, call.type = derivative_type();
        return run(plan, call);
    }
    Call call = call_for(kind.family == Family::SMOOTH ? Op::SMOOTH : Op::TIES_JVP, manner);
    call.x = x.data, call.t = t.data, call.dy = dy.data;
    if (kind.family == Family::SELECTION) {
        call.y_in = y.data;
        return run(plan, call);
    }
    const Room values(outputs() * size_of(result), "y, beside which dy is computed");
    call.y = values.data();
    run(plan, call);
}

void PlannedPool::pull(const Array &x, const Array &y, const Array &winners, const Array &g, const Array &gx, const Manner &manner) const {
    check_residual(x, y, winners);
    check_y(g, "g", derivative_type());
    check_x(gx, "gx", derivative_type());
    const ThreadsOfCall threads(manner.threads);
    if (is_empty()) return;
    Call call = call_for(pull_op(), manner);
    call.x = x.data, call.y_in = y.data, call.winners_in = winners.data, call.g = g.data, call.gx = gx.data;
    run(plan, call);
}

void PlannedPool::jvp(const Array &x, const Array &t, const Array &y, const Array &dy, const Manner &manner) const {
    check_x(x, "x", input_type());
    check_x(t, "t", derivative_type());
    check_y(y, "y", result);
    check_y(dy, "dy", derivative_type());
    const ThreadsOfCall threads(manner.threads);
    if (is_empty()) return;
    if (kind.family == Family::LINEAR) {
        forward(x, y, manner);
        // The tangent has a type of its own, which may not go the way that is asked for.
        return push({}, {}, {}, t, dy, {manner.threads, call_for(Op::SUM, manner).past_the_caches ? "stream" : ""});
    }
    const bool in_one = kind.family == Family::SMOOTH || (kept.winners && places_fit());
    Call call = call_for(kind.family == Family::SMOOTH ? Op::SMOOTH : in_one ? Op::WINNERS : Op::VALUE, manner);
    call.x = x.data, call.y = y.data;
    if (in_one) call.t = t.data, call.dy = dy.data;
    run(plan, call);
    if (in_one) return;
    call.op = Op::TIES_JVP, call.t = t.data, call.dy = dy.data, call.y_in = y.data, call.asked = Way::NONE;
    run(plan, call);
}

void PlannedPool::indices(const Array &winners, const Array &out, const Manner &manner) const {
    check_winners(winners);
    check(out, "indices", outputs(), 8);
    const ThreadsOfCall threads(manner.threads);
    if (is_empty()) return;
    Call call = call_for(Op::EXPAND, manner);
    call.winners_in = winners.data, call.indices = static_cast<i64 *>(out.data);
    run(plan, call);
}

}  // namespace ndpool
