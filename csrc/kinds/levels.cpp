#include "kinds/levels.h"

#include <atomic>
#include <cstring>
#include <stdexcept>

namespace ndpool {
namespace {

struct Level {
    const char *name;
    void (*run)(const Plan &, const Call &);
};

const Level LEVELS[] = {
    {"baseline", baseline::run},
#if defined(NDPOOL_X86_LEVELS)
    {"avx2", avx2::run},
    {"avx512", avx512::run},
#endif
};

// Whether the processor has every extension that the level has beyond the one before.
bool has_extensions_of([[maybe_unused]] const char *level) {
    bool all = true;
#if defined(NDPOOL_X86_LEVELS)
    __builtin_cpu_init();  // as this may run before main does
#define NDPOOL_EXTENSION(of, name) \
    if (std::strcmp(level, #of) == 0) all = all && __builtin_cpu_supports(name);
#include "kinds/extensions.def"
#undef NDPOOL_EXTENSION
#endif
    return all;
}

std::vector<const Level *> found_here() {
    std::vector<const Level *> found;
    for (const Level &level : LEVELS) {
        if (!has_extensions_of(level.name)) break;
        found.push_back(&level);
    }
    return found;
}

std::atomic<const Level *> &chosen() {
    static std::atomic<const Level *> level{found_here().back()};
    return level;
}

}  // namespace

std::vector<std::string> levels_here() {
    std::vector<std::string> names;
    for (const Level *level : found_here()) names.emplace_back(level->name);
    return names;
}

std::string level_in_use() { return chosen().load()->name; }

void use_level(const std::string &name) {
    for (const Level *level : found_here())
        if (name == level->name) {
            chosen() = level;
            return;
        }
    throw std::invalid_argument("instruction level '" + name + "' is not one of this processor's");
}

void run(const Plan &plan, const Call &call) { chosen().load(std::memory_order_relaxed)->run(plan, call); }

}  // namespace ndpool
