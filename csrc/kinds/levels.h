// The kernels at each instruction level, and which of the levels is in use.
#pragma once
#include <string>
#include <vector>

#include "plan/call.h"

namespace ndpool {

namespace baseline {
void run(const Plan &plan, const Call &call);
}
#if defined(NDPOOL_X86_LEVELS)
namespace avx2 {
void run(const Plan &plan, const Call &call);
}
namespace avx512 {
void run(const Plan &plan, const Call &call);
}
#endif

// The levels of this processor, the best one last. Each includes the ones before it.
std::vector<std::string> levels_here();

// The level in use: the best one until another is set. Throws std::invalid_argument for one that is not this
// processor's.
std::string level_in_use();
void use_level(const std::string &name);

// Runs one operation at the level in use.
void run(const Plan &plan, const Call &call);

}  // namespace ndpool
