// A kind over a window over a shape, ready to run: the engine without Python.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "kinds/registry.h"
#include "plan/make_plan.h"

namespace ndpool {

// All that a pool is, as it was decided elsewhere. The engine checks it and derives none of it.
struct Request {
    Dims dims;
    std::string kind, option;
    double parameter = 0;
    std::string dtype, result, derivative;  // of x; of y; of t, dy, g and gx
    int winner_bytes = 0;                   // of each winner that the derivative keeps; 0 if it keeps none
    Skip skip{};                            // which cells are not there
    // The pooled axes as they lie in memory, by numbers whose order is that of the caller's axes. It decides which cell
    // of a window comes first. Empty where both orders are the same.
    std::vector<i64> pooled{};
};

// Memory that holds an array: C-contiguous, in the order of the dimensions, unless it has steps. Without data there is
// no array.
struct Array {
    void *data = nullptr;
    i64 bytes = 0, element_bytes = 0;  // of all elements, and of each
    // Of an array that is not dense: so many lengths and steps, the latter in elements. They outlive the call.
    int dims = 0;
    const i64 *lengths = nullptr, *steps = nullptr;

    bool is_given() const { return data || element_bytes; }
};

// How one call runs.
struct Manner {
    int threads = 0;  // for this call alone; 0 is the number of the process
    // The way to go, by a name of plan/choice.h; empty for the engine's own choice. With "+stream" behind it, or
    // "stream" alone, results are written past the caches, worth it or not.
    std::string path{};
};

// The derivative of a pool is a linear map that is known from some of the forward's arrays: its residual.
struct Residual {
    bool x, y, winners;
};

// The operations. An x, t, g, y or gx need not be dense, but for the t of a push by winners. Each throws
// std::invalid_argument for an array that is not what the request says, OutOfMemory where there is too little of that,
// and writes nothing but its results.
class PlannedPool {
  public:
    explicit PlannedPool(const Request &request);

    void forward(const Array &x, const Array &y, const Manner &manner = {}) const;
    // y, and the winners where they are the residual.
    void linearize(const Array &x, const Array &y, const Array &winners, const Manner &manner = {}) const;
    // dy = J t and gx = J^T g. What is not of the residual is not looked at.
    void push(const Array &x, const Array &y, const Array &winners, const Array &t, const Array &dy,
              const Manner &manner = {}) const;
    void pull(const Array &x, const Array &y, const Array &winners, const Array &g, const Array &gx,
              const Manner &manner = {}) const;
    // y and dy in one go.
    void jvp(const Array &x, const Array &t, const Array &y, const Array &dy, const Manner &manner = {}) const;
    // The flat index of each winner over the pooled axes, in 8 bytes.
    void indices(const Array &winners, const Array &out, const Manner &manner = {}) const;

    // The way that an operation ("forward", "linearize", "push", "pull", "jvp") goes, and all ways that it can go.
    std::string path(const std::string &operation) const;
    std::vector<std::string> paths(const std::string &operation) const;

    const Residual &residual() const { return kept; }
    // Whether a cell takes little more than to read it.
    bool adds_or_compares() const { return kind.family == Family::SELECTION || kind.family == Family::LINEAR; }
    const Plan &geometry() const { return plan; }
    i64 inputs() const { return plan.outer * plan.in_slab; }
    i64 outputs() const { return plan.outer * plan.out_slab; }
    Type input_type() const { return kind.call.type; }
    Type result_type() const { return result; }
    Type derivative_type() const { return kind.call.derivative; }
    int winner_bytes() const { return kind.call.winner_bytes; }

  private:
    Plan plan;
    Kind kind;  // with its types
    Type result;
    Residual kept;
    std::vector<i64> in_lengths, out_lengths;  // of the request's dimensions
    int leading = 0;                           // of which so many stand before the first that is pooled

    std::vector<i64> pooled;  // as in the request; empty where both orders are one
    // What was decided of an operation, packed: at which level, and how. 0 is nothing yet.
    mutable std::atomic<std::uint32_t> decisions[2 * OPS] = {};

    bool is_empty() const { return inputs() == 0 || outputs() == 0; }
    bool places_fit() const;
    Op forward_op() const;
    Op pull_op() const;
    Way way_of(const std::string &operation, Way asked) const;
    bool is_decided_once(const Call &call) const;
    Decision decision(const Call &call) const;
    template <class Set>
    void start(Op op, const Manner &manner, const Set &set) const;
    void push_by_winners(const Array &winners, const Array &t, const Array &dy, const Manner &manner) const;
    void push_to_ties(const Array &x, const Array &y, const Array &t, const Array &dy, const Manner &manner) const;
    void check_x(const Array &x, const char *name, Type type) const;
    void check_y(const Array &y, const char *name, Type type) const;
    void check_winners(const Array &winners) const;
    void check_residual(const Array &x, const Array &y, const Array &winners) const;
    void need_winners() const;
};

}  // namespace ndpool
