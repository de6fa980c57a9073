// Random pools: every operation, on every level, on one thread and on several, against the definition.
#include <set>

#include "kinds/levels.h"
#include "tests/check.h"
#include "tests/reference.h"

namespace ndpool_tests {
namespace {

using ndpool::Array;
using ndpool::Manner;
using ndpool::PlannedPool;
using ndpool::Request;

// --- cases ------------------------------------------------------------------------------------------

struct Case {
    std::uint64_t seed;
    Shape shape;
    KindSpec kind;
    Type type, result, derivative;
    int winner_bytes;
    std::string flavour;

    Request request() const {
        Request out;
        for (const Dimension &dimension : shape) out.dims.push_back(dimension.numbers());
        out.kind = kind.name, out.option = kind.option, out.parameter = kind.parameter;
        out.dtype = ndpool::name_of(type), out.result = ndpool::name_of(result),
        out.derivative = ndpool::name_of(derivative);
        out.winner_bytes = winner_bytes;
        return out;
    }
    std::string description() const {
        std::ostringstream out;
        out << "seed " << seed << ": " << kind.name << " '" << kind.option << "' " << kind.parameter << " of "
            << flavour << " " << ndpool::name_of(type) << " to " << ndpool::name_of(result) << ", winners in "
            << winner_bytes << " bytes, dims";
        for (const auto &numbers : request().dims) {
            out << " [";
            for (std::size_t i = 0; i < numbers.size(); ++i) out << (i ? " " : "") << numbers[i];
            out << "]";
        }
        return out.str();
    }
};

Dimension random_dimension(Dice &dice, i64 longest) {
    Dimension d;
    d.length = dice.from(1, longest);
    const i64 which = dice.from(1, 10);
    if (which == 1) {
        d.side = Side::GLOBAL;
    } else if (which <= 3) {
        d.side = Side::ADAPTIVE;
        d.bins = dice.one_in(4) ? dice.from(1, d.length + 3) : dice.from(1, d.length);
    } else {
        d.side = Side::WINDOW;
        d.kernel = dice.one_in(6) ? dice.from(1, 12) : dice.from(1, 4);
        d.stride = dice.one_in(3) ? dice.from(1, 9) : dice.from(1, 3);
        d.dilation = dice.one_in(3) ? dice.from(2, 4) : 1;
        const i64 reach = d.dilation * (d.kernel - 1) + 1;
        d.pad_lo = dice.one_in(2) ? 0 : dice.from(0, dice.one_in(4) ? reach + 1 : reach / 2);
        d.pad_hi = dice.one_in(2) ? d.pad_lo : dice.from(0, dice.one_in(4) ? reach + 1 : reach / 2);
        d.length = std::max(d.length, reach - d.pad_lo - d.pad_hi);
        d.ceil_mode = dice.one_in(3);
    }
    return d;
}

// Pooled axes with carried ones in front of, between and behind them, of no more than so many elements.
Shape random_shape(Dice &dice, i64 most) {
    for (;;) {
        Shape shape;
        const i64 rank = dice.one_in(3) ? dice.from(1, 4) : dice.from(1, 2);
        const i64 longest = most > 4000 ? (rank == 1   ? 40000
                                           : rank == 2 ? 300
                                                       : 40)
                            : rank == 1 ? 300
                            : rank == 2 ? 40
                                        : 9;
        auto carry = [&](i64 length) {
            shape.emplace_back();
            shape.back().length = length;
        };
        if (dice.one_in(2)) carry(dice.from(1, most > 4000 ? 20 : 4));
        for (i64 axis = 0; axis < rank; ++axis) {
            if (axis && dice.one_in(5)) carry(dice.from(1, 3));
            shape.push_back(random_dimension(dice, longest));
        }
        if (dice.one_in(3)) carry(dice.one_in(3) ? dice.from(1, 40) : dice.from(1, 9));
        const i64 in = inputs_of(shape), out = outputs_of(shape);
        i64 cells = 1;
        for (const auto &d : shape) cells *= d.pooled() ? d.numbers()[2] : 1;
        const bool large_enough = most <= 4000 || in >= 40000;
        if (in <= most && out <= most && large_enough && out * cells <= (most > 4000 ? 8 : 60) * most) return shape;
    }
}

KindSpec random_kind(Dice &dice) {
    static const KindSpec kinds[] = {{"max", "first"},       {"max", "first"}, {"max", "split"},
                                     {"max", "all"},         {"min", "first"}, {"min", "split"},
                                     {"min", "all"},         {"sum", ""},      {"avg", "counted"},
                                     {"avg", "real"},        {"avg", "fixed"}, {"smooth_max", "counted"},
                                     {"smooth_max", "real"}, {"lp", ""}};
    KindSpec kind = kinds[dice.from(0, 13)];
    static const double betas[] = {1, 0.5, -1.5, 3, 20, -0.01}, powers[] = {1, 2, 3, 1.5, 2.5, 7};
    if (kind.option == "fixed") kind.parameter = static_cast<double>(dice.from(1, 9));
    if (kind.name == "smooth_max") kind.parameter = betas[dice.from(0, 5)];
    if (kind.name == "lp") kind.parameter = powers[dice.from(0, 5)];
    return kind;
}

Case random_case(std::uint64_t seed, bool large) {
    Dice dice(seed);
    Case c;
    c.seed = seed;
    c.kind = random_kind(dice);
    do {
        c.shape = random_shape(dice, large ? 90000 : 3000);
    } while (c.kind.needs_cell() && !every_window_has_a_cell(c.shape));
    c.type = static_cast<Type>(c.kind.is_smooth() || dice.one_in(2) ? dice.from(8, 11) : dice.from(0, 7));
    const bool floats = ndpool::is_float(c.type), has_sign = static_cast<int>(c.type) % 2 == 0;
    static const char *const roundings[] = {" half_even", " half_up", " half_away", " floor", " truncate"};
    if (!floats && c.kind.name == "avg" && c.kind.option != "fixed" && !dice.one_in(3))
        c.kind.option += roundings[dice.from(0, 4)];
    c.derivative = floats ? c.type : Type::F64;
    c.result = c.type;
    if (!floats && c.kind.name == "avg" && c.kind.rounding().empty()) c.result = Type::F64;
    if (!floats && c.kind.name == "sum") c.result = has_sign || dice.one_in(2) ? Type::I64 : Type::U64;
    i64 cells = 1;
    for (const Dimension &d : c.shape) cells *= d.pooled() ? d.numbers()[2] : 1;
    c.winner_bytes = c.kind.selects() && c.kind.option == "first" ? (cells <= 256 ? 1 : cells <= 65536 ? 2 : 4) : 0;
    if (c.winner_bytes && dice.one_in(10)) c.winner_bytes = 4;
    static const char *const flavours[] = {"plain", "plain", "tied", "tied", "equal", "wild", "huge"};
    c.flavour = flavours[dice.from(0, 6)];
    return c;
}

// Plain numbers; few different ones; only one; NaNs, infinities and zeros of both signs among them; all of the range;
// two halves with the largest number at the end of each.
void fill(Numbers &numbers, const std::string &flavour, Dice &dice) {
    const bool floats = ndpool::is_float(numbers.type), has_sign = floats || static_cast<int>(numbers.type) % 2 == 0;
    const Real wild[] = {std::nanl(""), HUGE_VALL, -HUGE_VALL, Real(0), -Real(0)};
    for (i64 i = 0; i < numbers.count; ++i) {
        Real v = flavour == "equal" ? 3 : flavour == "tied" ? static_cast<Real>(dice.from(-2, 2)) : dice.normal() * 20;
        if (flavour == "one winner, the last cell") v = i % (numbers.count / 2) == numbers.count / 2 - 1 ? 9 : 3;
        if (flavour == "wild" && floats && dice.one_in(8)) v = wild[dice.from(0, 4)];
        if (flavour == "huge" && !floats)
            v = std::ldexp(dice.normal() / 4, static_cast<int>(8 * size_of(numbers.type)) - 1);
        if (!floats) v = std::trunc(v);
        numbers.set(i, has_sign ? v : std::fabs(v));
    }
}

// --- comparisons ------------------------------------------------------------------------------------

// The distance from a number to the next one of its type, or more.
Real last_place(Type type, Real size) {
    switch (type) {
        case Type::F16: return size * 0x1p-10L + 0x1p-24L;
        case Type::BF16: return size * 0x1p-7L + 0x1p-133L;
        case Type::F32: return size * 0x1p-23L + 0x1p-149L;
        default: return size * 0x1p-52L + 0x1p-1074L;
    }
}

Real finite_size(Real v) { return std::isfinite(v) ? std::fabs(v) : 0; }

// Nonfinite results are to be the same, and others no further apart than allowed.
bool is_close(Real got, Real wanted, Real allowed) {
    if (std::isnan(wanted)) return std::isnan(got);
    if (!std::isfinite(wanted)) return got == wanted;
    return std::isfinite(got) && std::fabs(got - wanted) <= allowed;
}

// --- one case, as it should be ----------------------------------------------------------------------

class Answer {
  public:
    Answer(const Case &c, const Numbers &x, const Numbers &t, const Numbers &g)
        : c(c), gx(static_cast<std::size_t>(x.count)), gx_mass(gx.size()), outputs(outputs_of(c.shape)) {
        for (i64 o = 0; o < outputs; ++o) {
            const Window window = window_of(c.shape, o);
            std::vector<Real> cells;
            for (i64 cell : window.cells) cells.push_back(x[cell]);
            add(window, expected_of(c.kind, cells, window.padded), x, t, g[o]);
        }
    }

    void check_value(const Numbers &got) const {
        for (i64 o = 0; o < outputs; ++o) {
            if (!ndpool::is_float(c.result) && !c.kind.selects()) {
                expect(got.whole(o) == wholes[at(o)], "y[", o, "] is ", got[o], " and should be ",
                       static_cast<std::int64_t>(wholes[at(o)]));
                continue;
            }
            check_one("y", o, got[o], values[at(o)], c.kind.selects() ? 0 : value_allowed(at(o)));
        }
    }
    void check_push(const Numbers &got, const char *name) const {
        for (i64 o = 0; o < outputs; ++o)
            check_one(name, o, got[o], dy[at(o)], derivative_allowed(dy[at(o)], dy_mass[at(o)]));
    }
    void check_pull(const Numbers &got) const {
        for (std::size_t i = 0; i < gx.size(); ++i)
            check_one("gx", static_cast<i64>(i), got[static_cast<i64>(i)], gx[i],
                      derivative_allowed(gx[i], gx_mass[i]));
    }
    void check_indices(const std::vector<i64> &got) const {
        for (std::size_t o = 0; o < got.size(); ++o)
            expect(got[o] == indices[o], "index ", o, " is ", got[o], " and should be ", indices[o]);
    }

  private:
    const Case &c;
    std::vector<Real> values, sizes, dy, dy_mass, gx, gx_mass;
    std::vector<std::uint64_t> wholes;
    std::vector<i64> indices;
    i64 outputs;

    static std::size_t at(i64 i) { return static_cast<std::size_t>(i); }

    void add(const Window &window, const Expected &expected, const Numbers &x, const Numbers &t, Real cotangent) {
        values.push_back(expected.value);
        sizes.push_back(expected.size);
        if (c.kind.selects()) indices.push_back(window.indices[expected.winner]);
        Wide whole = 0;
        if (!ndpool::is_float(c.type))
            for (i64 cell : window.cells)
                whole += c.type == Type::U64 ? Wide(x.whole(cell)) : Wide(static_cast<std::int64_t>(x.whole(cell)));
        if (!c.kind.rounding().empty()) {
            const i64 real = static_cast<i64>(window.cells.size());
            whole = rounded_mean(c.kind, whole, c.kind.counts() == "real" ? real : real + window.padded);
        }
        wholes.push_back(static_cast<std::uint64_t>(whole));
        Real change = 0, mass = 0;
        for (std::size_t i = 0; i < window.cells.size(); ++i) {
            const Real w = expected.weights[i];
            const std::size_t cell = at(window.cells[i]);
            if (w == 0) continue;
            change += w * t[window.cells[i]];
            mass += finite_size(w * t[window.cells[i]]);
            gx[cell] += w * cotangent;
            gx_mass[cell] += finite_size(w * cotangent);
        }
        dy.push_back(change);
        dy_mass.push_back(mass);
    }
    Real value_allowed(std::size_t o) const {
        if (!c.kind.is_smooth()) return last_place(c.result, finite_size(values[o])) + 0x1p-47L * sizes[o];
        return 2 * last_place(c.result, finite_size(sizes[o])) + 0x1p-43L * finite_size(sizes[o]);
    }
    Real derivative_allowed(Real value, Real mass) const {
        const Real least = c.derivative == Type::F32 ? 0x1p-120L : 1e-170L;
        return 2 * last_place(c.derivative, finite_size(value)) + 4 * last_place(c.derivative, mass) + 0x1p-40L * mass +
               least;
    }
    static void check_one(const char *name, i64 i, Real got, Real wanted, Real allowed) {
        expect(is_close(got, wanted, allowed), name, "[", i, "] is ", got, " and should be ", wanted, " within ",
               allowed);
    }
};

// --- one case, as it is -----------------------------------------------------------------------------

// All that the engine gives for one case at one level on so many threads.
struct Results {
    Numbers y, y_linearized, y_jvp, dy, dy_jvp, gx, winners;
    std::vector<i64> indices;

    Results(const Case &c, i64 inputs, i64 outputs)
        : y(c.result, outputs),
          y_linearized(c.result, outputs),
          y_jvp(c.result, outputs),
          dy(c.derivative, outputs),
          dy_jvp(c.derivative, outputs),
          gx(c.derivative, inputs),
          winners(winner_type(c.winner_bytes), c.winner_bytes ? outputs : 0),
          indices(static_cast<std::size_t>(winners.count)) {}

    static Type winner_type(int bytes) { return bytes == 4 ? Type::U32 : bytes == 2 ? Type::U16 : Type::U8; }

    void compute(const PlannedPool &pool, Numbers &x, Numbers &t, Numbers &g, const Manner &manner) {
        const Array won = winners.count ? winners.array() : Array{};
        pool.forward(x.array(), y.array(), manner);
        pool.linearize(x.array(), y_linearized.array(), won, manner);
        const Array from = pool.residual().x ? x.array() : Array{}, value = pool.residual().y ? y.array() : Array{};
        pool.push(from, value, won, t.array(), dy.array(), manner);
        pool.pull(from, value, won, g.array(), gx.array(), manner);
        pool.jvp(x.array(), t.array(), y_jvp.array(), dy_jvp.array(), manner);
        if (winners.count) pool.indices(won, {indices.data(), static_cast<i64>(indices.size()) * 8, 8}, manner);
    }
    void check(const Answer &answer) const {
        for (const Numbers *numbers : {&y, &y_linearized, &y_jvp, &dy, &dy_jvp, &gx, &winners})
            expect(numbers->margins_are_whole(), "memory beside a result was written to");
        for (const Numbers *value : {&y, &y_linearized, &y_jvp}) answer.check_value(*value);
        answer.check_push(dy, "dy of push");
        answer.check_push(dy_jvp, "dy of jvp");
        answer.check_pull(gx);
        answer.check_indices(indices);
    }
    void check_same(const Results &other) const {
        expect(y.same_bytes(other.y), "y depends on the number of threads");
        expect(y_linearized.same_bytes(other.y_linearized), "y of linearize depends on the number of threads");
        expect(y_jvp.same_bytes(other.y_jvp), "y of jvp depends on the number of threads");
        expect(dy.same_bytes(other.dy), "dy of push depends on the number of threads");
        expect(dy_jvp.same_bytes(other.dy_jvp), "dy of jvp depends on the number of threads");
        expect(gx.same_bytes(other.gx), "gx depends on the number of threads");
        expect(winners.same_bytes(other.winners) && indices == other.indices,
               "the winners depend on the number of threads");
    }
};

void check_case(const Case &c) {
    Dice dice(c.seed + 0x123456789);
    const i64 inputs = inputs_of(c.shape), outputs = outputs_of(c.shape);
    Numbers x(c.type, inputs), t(c.derivative, inputs), g(c.derivative, outputs);
    fill(x, c.flavour, dice);
    fill(t, "plain", dice);
    fill(g, "plain", dice);
    const Numbers before = x;
    const Answer answer(c, x, t, g);
    const PlannedPool pool(c.request());
    expect(pool.inputs() == inputs && pool.outputs() == outputs, "the plan has other sizes");
    for (const std::string &level : ndpool::levels_here()) {
        ndpool::use_level(level);
        try {
            Results one(c, inputs, outputs), several(c, inputs, outputs);
            one.compute(pool, x, t, g, {1});
            one.check(answer);
            several.compute(pool, x, t, g, {3});
            several.check_same(one);
            expect(x.same_bytes(before), "the input was changed");
        } catch (const std::exception &error) {
            throw Failure(text("at level ", level, ": ", error.what()));
        }
    }
}

}  // namespace

// Windows with more places than the integers of a cell's size count.
void test_windows_of_many_cells(const Options &) {
    const std::vector<std::pair<Type, i64>> windows = {{Type::I8, 256},    {Type::U8, 257},     {Type::F16, 65536},
                                                       {Type::I16, 65537}, {Type::BF16, 70001}, {Type::F32, 70001}};
    for (const auto &[type, cells] : windows) {
        Case c{7, Shape(2), {"max", "first"}, type, type, ndpool::is_float(type) ? type : Type::F64, 4, "tied"};
        c.shape[0].length = 2;
        c.shape[1].side = Side::GLOBAL;
        c.shape[1].length = cells;
        c.flavour = "one winner, the last cell";
        try {
            check_case(c);
        } catch (const std::exception &error) {
            throw Failure(text(c.description(), "\n    ", error.what()));
        }
    }
}

void test_random_pools(const Options &options) {
    struct Restore {
        std::string level = ndpool::level_in_use();
        ~Restore() { ndpool::use_level(level); }
    } restore;
    for (int i = 0; i < options.cases; ++i) {
        const bool large = i < options.large_cases;
        const Case c = random_case(options.seed + static_cast<std::uint64_t>(i), large);
        try {
            check_case(c);
        } catch (const std::exception &error) {
            throw Failure(text(c.description(), "\n    ", error.what()));
        }
    }
}

}  // namespace ndpool_tests
