// The kinds that the engine knows, by name.
#pragma once
#include <string>

#include "plan/call.h"

namespace ndpool {

// Kinds of one family have the same operations and keep the same for their derivative:
//   SELECTION  with ties "first" the winners, else x and y
//   LINEAR     nothing
//   SMOOTH     x
//   ORDER      the winners where the result is a cell, else x
enum class Family { SELECTION, LINEAR, SMOOTH, ORDER };

struct Kind {
    Family family;
    Call call;  // with the kind's numbers, and no types yet
};

// Throws std::invalid_argument for a kind or an option that does not exist, or a parameter that is out of range.
Kind kind_named(const std::string &name, const std::string &option, double parameter);

// Throws std::invalid_argument where the kind does not give such results, or such derivatives, for inputs of this type.
void check_types(const Kind &kind, const std::string &name, Type input, Type result, Type derivative);

// The type that Python calls so; bool is uint8.
Type type_named(const std::string &name);
std::string name_of(Type type);

}  // namespace ndpool
