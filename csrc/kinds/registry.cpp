#include "kinds/registry.h"

#include <cmath>
#include <stdexcept>
#include <vector>

namespace ndpool {
namespace {

using std::string;

void check(bool is_so, const string &rule) {
    if (!is_so) throw std::invalid_argument(rule);
}

// --- what the numbers of a kind mean --------------------------------------------------------------

void selection(Call &call, const string &option, double) {
    call.ties = option == "first" ? Ties::FIRST : option == "split" ? Ties::SPLIT : Ties::ALL;
}

void maximum(Call &call, const string &option, double parameter) { selection(call, option, parameter); }

void minimum(Call &call, const string &option, double parameter) {
    selection(call, option, parameter);
    call.minimum = true;
}

void sum(Call &call, const string &, double) { call.count = Count::NONE; }

Rounding rounding_named(const string &name) {
    if (name == "half_even") return Rounding::HALF_EVEN;
    if (name == "half_up") return Rounding::HALF_UP;
    if (name == "half_away") return Rounding::HALF_AWAY;
    return name == "floor" ? Rounding::FLOOR : name == "truncate" ? Rounding::TRUNCATE : Rounding::NONE;
}

// The option says what counts and, after a space, how the mean of integers is rounded, if it is.
void average(Call &call, const string &option, double parameter) {
    const std::size_t space = option.find(' ');
    const string counts = option.substr(0, space);
    call.count = counts == "real" ? Count::REAL : counts == "counted" ? Count::COUNTED : Count::FIXED;
    if (space != string::npos) call.rounding = rounding_named(option.substr(space + 1));
    call.divisor = parameter;
    if (option == "fixed")
        check(std::isfinite(parameter) && parameter >= 1, "the divisor must be finite and at least 1");
}

void smooth_max(Call &call, const string &option, double parameter) {
    check(std::isfinite(parameter) && parameter != 0, "beta must be finite and not 0");
    call.parameter = parameter;
    call.count_pad = option == "counted";
}

void lp(Call &call, const string &, double parameter) {
    check(std::isfinite(parameter) && parameter >= 1, "p must be finite and at least 1");
    call.parameter = parameter;
    call.lp = true;
}

void mode(Call &call, const string &option, double) {
    call.order = option == "first"      ? Order::MODE_FIRST
                 : option == "smallest" ? Order::MODE_SMALLEST
                                        : Order::MODE_LARGEST;
}

void quantile(Call &call, const string &option, double parameter) {
    check(parameter >= 0 && parameter <= 1, "q must be from 0 to 1");
    call.parameter = parameter;
    call.order = option == "lower"      ? Order::LOWER
                 : option == "higher"   ? Order::HIGHER
                 : option == "nearest"  ? Order::NEAREST
                 : option == "midpoint" ? Order::MIDPOINT
                                        : Order::LINEAR;
}

// --- the list -------------------------------------------------------------------------------------

struct Entry {
    const char *name;
    Family family;
    std::vector<string> options;
    void (*set)(Call &, const string &option, double parameter);
};

std::vector<string> average_options() {
    std::vector<string> options{"counted", "real", "fixed"};
    for (const char *counts : {"counted ", "real "})
        for (const char *rounding : {"half_even", "half_up", "half_away", "floor", "truncate"})
            options.push_back(string(counts) + rounding);
    return options;
}

const std::vector<Entry> &entries() {
    static const std::vector<Entry> list = {
        {"max", Family::SELECTION, {"first", "split", "all"}, maximum},
        {"min", Family::SELECTION, {"first", "split", "all"}, minimum},
        {"sum", Family::LINEAR, {""}, sum},
        {"avg", Family::LINEAR, average_options(), average},
        {"smooth_max", Family::SMOOTH, {"counted", "real"}, smooth_max},
        {"lp", Family::SMOOTH, {""}, lp},
        {"mode", Family::ORDER, {"first", "smallest", "largest"}, mode},
        {"quantile", Family::ORDER, {"linear", "midpoint", "lower", "higher", "nearest"}, quantile},
        {"median", Family::ORDER, {"linear"}, quantile},
    };
    return list;
}

const char *const TYPE_NAMES[] = {"int8",  "uint8",  "int16",   "uint16",   "int32",   "uint32",
                                  "int64", "uint64", "float16", "bfloat16", "float32", "float64"};

bool is_unsigned(Type type) { return type == Type::U8 || type == Type::U16 || type == Type::U32 || type == Type::U64; }

// Whether a kind gives results of this type (rule "Integers").
bool gives(const Kind &kind, Type input, Type result) {
    const bool keeps = kind.family == Family::SELECTION || kind.call.rounding != Rounding::NONE;
    if (keeps || is_float(input)) return result == input;
    if (kind.family == Family::ORDER) return result == (is_between_cells(kind.call.order) ? Type::F64 : input);
    if (kind.call.count != Count::NONE || kind.family == Family::SMOOTH) return result == Type::F64;
    // Sums are modulo 2**64, so those of unsigned numbers have the same bits in both types.
    return result == Type::I64 || (result == Type::U64 && is_unsigned(input));
}

}  // namespace

Kind kind_named(const string &name, const string &option, double parameter) {
    for (const Entry &entry : entries()) {
        if (name != entry.name) continue;
        Kind kind{entry.family, Call{}};
        bool known = false;
        for (const string &each : entry.options) known |= option == each;
        check(known, "'" + name + "' has no option '" + option + "'");
        entry.set(kind.call, option, parameter);
        return kind;
    }
    throw std::invalid_argument("the engine has no kind '" + name + "'");
}

void check_types(const Kind &kind, const string &name, Type input, Type result, Type derivative) {
    check(kind.call.rounding == Rounding::NONE || !is_float(input),
          "'" + name + "' rounds means of integers, not of " + name_of(input));
    check(gives(kind, input, result), "'" + name + "' of " + name_of(input) + " does not give " + name_of(result));
    check(derivative == (is_float(input) ? input : Type::F64),
          "derivatives of floats are of their own type and those of integers float64, not " + name_of(derivative) +
              " for " + name_of(input));
}

Type type_named(const string &name) {
    if (name == "bool") return Type::U8;
    for (int i = 0; i < 12; ++i)
        if (name == TYPE_NAMES[i]) return static_cast<Type>(i);
    throw std::invalid_argument("the engine has no type '" + name + "'");
}

string name_of(Type type) { return TYPE_NAMES[static_cast<int>(type)]; }

}  // namespace ndpool
