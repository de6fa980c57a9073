// The kernels at each instruction level, and which of the levels is in use.
#pragma once
#include <string>
#include <vector>

#include "plan/call.h"

namespace ndpool {

#define NDPOOL_BUILT(LEVEL) \
    namespace LEVEL { \
    void run(const Plan &plan, const Call &call); \
    Decision decide(const Plan &plan, const Call &call); \
    }
#include <built_levels.def>  // CMakeLists.txt writes it
#undef NDPOOL_BUILT

// The levels of this processor that were built, the best one last. Each includes the ones before it.
std::vector<std::string> levels_here();

// The level in use: the best one until another is set. Throws std::invalid_argument for one that is not this
// processor's, and std::runtime_error where none of them is.
std::string level_in_use();
int number_of_level();  // of the one in use
void use_level(const std::string &name);

// Runs one operation at the level in use.
void run(const Plan &plan, const Call &call);
// How it goes there on dense arrays.
Decision decide(const Plan &plan, const Call &call);

}  // namespace ndpool
