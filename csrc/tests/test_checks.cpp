// What the engine refuses, and what it says; and pools at the edges: without elements, and far too large.
#include <algorithm>

#include "base/out_of_memory.h"
#include "kinds/levels.h"
#include "tests/check.h"
#include "tests/numbers.h"

namespace ndpool_tests {
namespace {

using ndpool::Array;
using ndpool::Dims;
using ndpool::make_plan;
using ndpool::OutOfMemory;
using ndpool::Plan;
using ndpool::PlannedPool;
using ndpool::Request;

using Invalid = std::invalid_argument;
using TooLarge = std::overflow_error;

// Two images of 5 by 7 and windows of 3 by 3, two cells apart, with a border of one.
const Dims IMAGES = {{2}, {5, 3, 3, 2, 1, 1, 1, 0}, {7, 4, 3, 2, 1, 1, 1, 0}};

Request request(const std::string &kind, const std::string &option, double parameter, const std::string &type,
                int winner_bytes) {
    const bool floats = type[0] == 'f' || type[0] == 'b';
    const std::string result = floats || kind == "max" || kind == "min" ? type : kind == "avg" ? "float64" : "int64";
    return {IMAGES, kind, option, parameter, type, result, floats ? type : "float64", winner_bytes};
}

template <class Change>
Request changed(Request request, const Change &change) {
    change(request);
    return request;
}

}  // namespace

void test_geometry_is_checked(const Options &) {
    const Plan plan = make_plan(IMAGES);
    expect(plan.outer == 2 && plan.axis_count == 2 && plan.dim_count == 1 && plan.inner == 1,
           "the dimensions of the plan");
    expect(plan.in_slab == 35 && plan.out_slab == 12 && plan.cells == 9 && plan.outer_cells == 3,
           "the sizes of the plan");
    expect(plan.padded && !plan.same_real && plan.same_count, "what the windows of the plan count");
    const Plan joined = make_plan({{3}, {4, 1, 4, 4, 1, 0, 0, 0}, {5, 1, 5, 5, 1, 0, 0, 0}, {2}});
    const Plan apart = make_plan({{4, 1, 6, 6, 1, 0, 0, 0}, {5, 1, 5, 5, 1, 0, 0, 0}});
    expect(apart.axis_count == 2 && apart.cells == 30, "a window that is longer than its axis is not joined");
    expect(joined.axis_count == 1 && joined.last().kernel == 20 && joined.inner == 2,
           "windows over everything are joined");

    auto with = [](const std::vector<i64> &axis) { return [axis] { make_plan({axis}); }; };
    expect_error<Invalid>("no dimension is pooled", [] { make_plan({{3}, {4}}); });
    expect_error<Invalid>("no dimension is pooled", [] { make_plan({}); });
    expect_error<Invalid>("a dimension is one number", [] { make_plan({{3, 4}, {5, 3, 3, 2, 1, 1, 1, 0}}); });
    expect_error<Invalid>("a dimension is one number", [] { make_plan({{-1}, {5, 3, 3, 2, 1, 1, 1, 0}}); });
    expect_error<Invalid>("a dimension is one number", [] { make_plan({{}, {5, 3, 3, 2, 1, 1, 1, 0}}); });
    expect_error<Invalid>("65 dimensions", [] {
        Dims many(64, {1});
        many.push_back({5, 3, 3, 2, 1, 1, 1, 0});
        make_plan(many);
    });
    for (int i = 0; i < 5; ++i) {  // length, output, kernel, stride, dilation
        std::vector<i64> axis = {5, 3, 3, 2, 1, 1, 1, 0};
        axis[static_cast<std::size_t>(i)] = 0;
        expect_error<Invalid>("do not make a window", with(axis));
    }
    expect_error<Invalid>("do not make a window", with({5, 3, 3, 2, 1, -1, 1, 0}));
    expect_error<Invalid>("do not make a window", with({5, 3, 3, 2, 1, 1, -1, 0}));
    expect_error<Invalid>("do not make a window",
                          with({5, 9, 3, 2, 1, 1, 1, 0}));  // the last one would start behind the end
    expect_error<Invalid>("do not make a window", with({5, 2, 4, 1, 1, 1, 0, 1}));  // bins are not padded
    expect_error<Invalid>("do not make a window", with({9, 2, 3, 1, 1, 0, 0, 1}));  // a bin has up to five cells
}

void test_huge_windows(const Options &) {
    const i64 large = i64(1) << 40;
    expect_error<TooLarge>("above 2**40", [&] { make_plan({{large + 1, 1, 1, 1, 1, 0, 0, 0}}); });
    expect_error<TooLarge>("the array has more than 2**63 elements",
                           [&] { make_plan({{large}, {large}, {4, 4, 1, 1, 1, 0, 0, 0}, {1}}); });
    expect_error<TooLarge>("the input has more than 2**63 elements",
                           [&] { make_plan({{large, 1, 1, large, 1, 0, 0, 0}, {large, 1, 1, large, 1, 0, 0, 0}}); });
    expect_error<TooLarge>("the output has more than 2**63 elements", [&] {
        make_plan({{3, large, 3, 1, 1, large, large, 0}, {3, large, 3, 1, 1, large, large, 0}});
    });
    expect_error<TooLarge>("a window reaches over more than 2**40 cells",
                           [&] { make_plan({{9, 1, 1 << 21, 1, 1 << 21, large, large, 0}}); });
    expect_error<TooLarge>("a window has more than 2**63 cells", [&] {
        make_plan({{9, 1, large, 1, 1, large, large, 0}, {9, 1, large, 1, 1, large, large, 0}});
    });
    expect_error<TooLarge>("a window has more than 2**40 rows", [&] {
        make_plan(
            {{9, 1, 1 << 30, 1, 1, large, large, 0}, {9, 1, 1 << 20, 1, 1, large, large, 0}, {9, 1, 1, 1, 1, 0, 0, 0}});
    });
    // Rows that a window sees are listed in memory: there is none for so many, and that is said.
    const i64 wide = i64(1) << 39;
    const Dims tall = {{4, 1, wide, wide, 1, wide, wide, 0}, {4, 2, 3, 1, 1, 0, 0, 0}};
    const PlannedPool pool({tall, "avg", "counted", 0, "float32", "float32", "float32", 0});
    Numbers x(Type::F32, 16), y(Type::F32, 2), g(Type::F32, 2), gx(Type::F32, 16);
    for (int again = 0; again < 2; ++again) {
        expect_error<OutOfMemory>("there is no memory for", [&] { pool.forward(x.array(), y.array()); });
        // The way back lists none.
        pool.pull({}, {}, {}, g.array(), gx.array());
    }
    // After which all is as before.
    const PlannedPool small({IMAGES, "sum", "", 0, "float32", "float32", "float32", 0});
    Numbers images(Type::F32, 70), sums(Type::F32, 24);
    for (i64 i = 0; i < 70; ++i) images.set(i, 1);
    small.forward(images.array(), sums.array());
    expect(sums[0] == 4 && sums[5] == 9, "a pool after one that had too little memory");
}

void test_requests_are_checked(const Options &) {
    PlannedPool(request("max", "first", 0, "float32", 1));
    PlannedPool(request("max", "first", 0, "float32", 4));
    PlannedPool(request("max", "first", 0, "float32", 0));
    PlannedPool(changed(request("sum", "", 0, "uint8", 0), [](Request &r) { r.result = "uint64"; }));
    PlannedPool(changed(request("max", "first", 0, "uint8", 1), [](Request &r) { r.dtype = r.result = "bool"; }));
    auto refuse = [](const std::string &message, const Request &wrong) {
        expect_error<Invalid>(message, [&] { PlannedPool pool(wrong); });
    };
    refuse("no kind 'midrange'", request("midrange", "", 0, "float32", 0));
    refuse("'max' has no option 'last'", request("max", "last", 0, "float32", 0));
    refuse("'sum' has no option 'first'", request("sum", "first", 0, "float32", 0));
    refuse("'avg' has no option ''", request("avg", "", 0, "float32", 0));
    refuse("the divisor", request("avg", "fixed", 0, "float32", 0));
    refuse("the divisor", request("avg", "fixed", HUGE_VAL, "float32", 0));
    refuse("the divisor", request("avg", "fixed", std::nan(""), "float32", 0));
    refuse("beta", request("smooth_max", "real", 0, "float32", 0));
    refuse("beta", request("smooth_max", "real", -HUGE_VAL, "float32", 0));
    refuse("beta", request("smooth_max", "real", std::nan(""), "float32", 0));
    refuse("p must", request("lp", "", 0.5, "float32", 0));
    refuse("p must", request("lp", "", std::nan(""), "float32", 0));
    refuse("no type 'complex64'", request("sum", "", 0, "complex64", 0));
    refuse("'lp' of int32 does not give int64", request("lp", "", 2, "int32", 0));
    refuse("'max' of int8 does not give int16",
           changed(request("max", "first", 0, "int8", 1), [](Request &r) { r.result = "int16"; }));
    refuse("'sum' of int8 does not give uint64",
           changed(request("sum", "", 0, "int8", 0), [](Request &r) { r.result = "uint64"; }));
    refuse("'sum' of int8 does not give int8",
           changed(request("sum", "", 0, "int8", 0), [](Request &r) { r.result = "int8"; }));
    refuse("'avg' of int8 does not give int64",
           changed(request("avg", "real", 0, "int8", 0), [](Request &r) { r.result = "int64"; }));
    refuse("'avg' of int8 does not give float64", request("avg", "real floor", 0, "int8", 0));
    refuse("'avg' rounds means of integers, not of float32", request("avg", "counted half_up", 0, "float32", 0));
    refuse("'avg' has no option 'fixed floor'", request("avg", "fixed floor", 1, "int8", 0));
    refuse("'sum' of float32 does not give float64",
           changed(request("sum", "", 0, "float32", 0), [](Request &r) { r.result = "float64"; }));
    refuse("derivatives", changed(request("sum", "", 0, "float32", 0), [](Request &r) { r.derivative = "float64"; }));
    refuse("derivatives", changed(request("sum", "", 0, "int8", 0), [](Request &r) { r.derivative = "float32"; }));
    for (int bytes : {-1, 3, 8}) refuse("is not one of 0, 1, 2 and 4", request("max", "first", 0, "float32", bytes));
    for (const char *ties : {"split", "all"})
        refuse("only Max and Min with ties 'first'", request("min", ties, 0, "float32", 1));
    refuse("only Max and Min with ties 'first'", request("avg", "real", 0, "float32", 1));
    auto wider = [](i64 side, int bytes) {
        return changed(request("max", "first", 0, "float32", bytes),
                       [&](Request &r) { r.dims = {{side, 1, side, 1, 1, 0, 0, 0}}; });
    };
    PlannedPool(wider(256, 1));
    refuse("winner_bytes=1 is too few for the places in a window of 257 cells", wider(257, 1));
    PlannedPool(wider(65536, 2));
    refuse("winner_bytes=2 is too few for the places in a window of 65537 cells", wider(65537, 2));
    PlannedPool(wider(i64(1) << 32, 4));
    refuse("winner_bytes=4 is too few", wider((i64(1) << 32) + 1, 4));
}

void test_arrays_are_checked(const Options &) {
    Numbers x(Type::F32, 70), y(Type::F32, 24), winners(Type::U8, 24), t(Type::F32, 70), dy(Type::F32, 24),
        wide(Type::F64, 35), indices(Type::I64, 24);
    for (Numbers *numbers : {&x, &t}) std::fill(numbers->data(), numbers->data() + numbers->bytes(), char(0));
    const Array none;
    auto refuse = [](const std::string &message, const auto &call) { expect_error<Invalid>(message, call); };
    auto shorter = [](Array array) {
        return Array{array.data, array.bytes - array.element_bytes, array.element_bytes};
    };
    auto shifted = [](Array array) {
        return Array{static_cast<char *>(array.data) + 1, array.bytes, array.element_bytes};
    };
    auto absent = [](Array array) { return Array{nullptr, array.bytes, array.element_bytes}; };

    const PlannedPool max(request("max", "first", 0, "float32", 1));
    const Array X = x.array(), Y = y.array(), W = winners.array(), T = t.array(), DY = dy.array();
    max.linearize(X, Y, W);
    refuse("x is None and is needed", [&] { max.forward(none, Y); });
    refuse("y is None and is needed", [&] { max.forward(X, none); });
    refuse("x has 276 bytes in elements of 4; expected 70 elements of 4", [&] { max.forward(shorter(X), Y); });
    refuse("y has 92 bytes in elements of 4; expected 24 elements of 4", [&] { max.forward(X, shorter(Y)); });
    refuse("x has 280 bytes in elements of 8; expected 70 elements of 4", [&] { max.forward(wide.array(), Y); });
    refuse("expected 70 elements of 4, aligned to their size", [&] { max.forward(shifted(X), Y); });
    refuse("expected 24 elements of 4, aligned to their size", [&] { max.forward(X, shifted(Y)); });
    refuse("x has 280 bytes in elements of 4 and no memory", [&] { max.forward(absent(X), Y); });
    refuse("winners is None", [&] { max.linearize(X, Y, none); });
    refuse("winners has 23 bytes", [&] { max.linearize(X, Y, shorter(W)); });
    refuse("winners is None", [&] { max.push(X, Y, none, T, DY); });
    refuse("winners is None", [&] { max.pull(X, Y, none, DY, T); });
    refuse("t has 276", [&] { max.push(none, none, W, shorter(T), DY); });
    refuse("dy has 92", [&] { max.push(none, none, W, T, shorter(DY)); });
    refuse("g has 92", [&] { max.pull(none, none, W, shorter(DY), T); });
    refuse("gx has 276", [&] { max.pull(none, none, W, DY, shorter(T)); });
    refuse("t has 276", [&] { max.jvp(X, shorter(T), Y, DY); });
    refuse("dy has 92", [&] { max.jvp(X, T, Y, shorter(DY)); });
    refuse("indices has 184", [&] { max.indices(W, shorter(indices.array())); });
    refuse("winners is None", [&] { max.indices(none, indices.array()); });
    for (int threads : {-1, 1025}) refuse("is not a number of threads", [&] { max.forward(X, Y, {threads}); });
    // A place in the padding in front of the array, and one beyond a window that lies inside of it.
    for (int at : {0, 5}) {
        max.linearize(X, Y, W);
        winners.data()[at] = at ? char(9) : char(0);
        refuse("winners holds a place that is no cell of its window", [&] { max.push(none, none, W, T, DY); });
    }

    const PlannedPool split(request("max", "split", 0, "float32", 0));
    split.linearize(X, Y, none);
    refuse("x is None", [&] { split.push(none, Y, none, T, DY); });
    refuse("y is None", [&] { split.pull(X, none, none, DY, T); });
    refuse("only Max and Min with ties 'first', modes and quantiles that are a cell have winners",
           [&] { split.linearize(X, Y, W); });
    refuse("only Max and Min with ties 'first', modes and quantiles that are a cell have winners",
           [&] { split.indices(W, indices.array()); });
    const PlannedPool smooth(request("lp", "", 2, "float32", 0));
    refuse("x is None", [&] { smooth.pull(none, none, none, DY, T); });
    smooth.pull(X, none, none, DY, T);
    const PlannedPool sum(request("sum", "", 0, "float32", 0));
    sum.pull(none, none, none, DY, T);
    refuse("only Max and Min", [&] { sum.indices(W, indices.array()); });
    const PlannedPool without(request("max", "first", 0, "float32", 0));
    without.forward(X, Y);
    without.jvp(X, T, Y, DY);
    refuse("made with winner_bytes=0", [&] { without.linearize(X, Y, none); });
    refuse("made with winner_bytes=0", [&] { without.pull(none, none, W, DY, T); });
    const PlannedPool enormous(changed(request("max", "first", 0, "float32", 0), [](Request &r) {
        r.dims = {{70, 24, (i64(1) << 32) + 1, 1, 1, i64(1) << 33, 0, 0}};
    }));
    refuse("a window of more than 2**32 cells has no winners", [&] { enormous.linearize(X, Y, none); });
}

void test_pools_without_elements(const Options &) {
    for (const char *kind : {"max", "sum", "lp"}) {
        Request empty = request(kind, kind[0] == 'm' ? "first" : "", 2, "float32", kind[0] == 'm');
        empty.dims[0] = {0};
        const PlannedPool pool(empty);
        const Array nothing{nullptr, 0, 4}, no_winners = kind[0] == 'm' ? Array{nullptr, 0, 1} : Array{},
                                            no_indices{nullptr, 0, 8};
        pool.forward(nothing, nothing);
        pool.linearize(nothing, nothing, no_winners);
        pool.push(nothing, nothing, no_winners, nothing, nothing);
        pool.pull(nothing, nothing, no_winners, nothing, nothing);
        pool.jvp(nothing, nothing, nothing, nothing);
        if (kind[0] == 'm') pool.indices(no_winners, no_indices);
        expect_error<Invalid>("is not a number of threads", [&] { pool.forward(nothing, nothing, {-1}); });
    }
}

void test_levels(const Options &) {
    const std::vector<std::string> levels = ndpool::levels_here();
    expect(!levels.empty(), "there is no level");
    expect(ndpool::level_in_use() == levels.back(), "the best level is in use");
    for (const std::string &level : levels) {
        ndpool::use_level(level);
        expect(ndpool::level_in_use() == level, "the level in use is not the one that was set");
    }
    for (const char *level : {"", "sse9", "avx", "baseline "})
        expect_error<Invalid>("is not one of this processor's", [&] { ndpool::use_level(level); });
    expect(ndpool::level_in_use() == levels.back(), "a level that is refused is not used");
}

}  // namespace ndpool_tests
