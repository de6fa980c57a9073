#include "kinds/levels.h"

#include <atomic>
#include <stdexcept>

#include "kinds/processor.h"

namespace ndpool {
namespace {

struct Level {
    const char *name;
    void (*run)(const Plan &, const Call &);
    Decision (*decide)(const Plan &, const Call &);
};

const Level LEVELS[] = {
#define NDPOOL_BUILT(LEVEL) {#LEVEL, LEVEL::run, LEVEL::decide},
#include <built_levels.def>  // CMakeLists.txt writes it
#undef NDPOOL_BUILT
};

std::vector<const Level *> found_here() {
    std::vector<const Level *> found;
    for (const Level &level : LEVELS)
        if (processor_has(level.name)) found.push_back(&level);
    return found;
}

const Level *best() {
    const std::vector<const Level *> found = found_here();
    if (!found.empty()) return found.back();
    std::string built;
    for (const Level &level : LEVELS) built += (built.empty() ? "" : ", ") + std::string(level.name);
    throw std::runtime_error("this engine was built for processors with " + built +
                             " alone, and this one lacks it; build it here again, or with NDPOOL_LEVELS=all");
}

std::atomic<const Level *> &chosen() {
    static std::atomic<const Level *> level{best()};
    return level;
}

}  // namespace

std::vector<std::string> levels_here() {
    std::vector<std::string> names;
    for (const Level *level : found_here()) names.emplace_back(level->name);
    return names;
}

std::string level_in_use() { return chosen().load()->name; }

int number_of_level() { return static_cast<int>(chosen().load(std::memory_order_relaxed) - LEVELS); }

void use_level(const std::string &name) {
    for (const Level *level : found_here())
        if (name == level->name) {
            chosen() = level;
            return;
        }
    throw std::invalid_argument("instruction level '" + name + "' is not one of this processor's, or was not built");
}

void run(const Plan &plan, const Call &call) { chosen().load(std::memory_order_relaxed)->run(plan, call); }

Decision decide(const Plan &plan, const Call &call) {
    return chosen().load(std::memory_order_relaxed)->decide(plan, call);
}

}  // namespace ndpool
