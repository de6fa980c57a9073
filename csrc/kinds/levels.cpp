#include "kinds/levels.h"

#include <atomic>
#include <cstring>
#include <stdexcept>

#if defined(NDPOOL_X86_LEVELS)
#include <cpuid.h>
#endif

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

#if defined(NDPOOL_X86_LEVELS)
// Whether the processor has an extension. The compilers' own question for that is not enough: not all know F16C.
bool has(const char *extension) {
    unsigned a, b, c, d, leaf_1 = 0, leaf_7 = 0;
    if (__get_cpuid(1, &a, &b, &c, &d)) leaf_1 = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) leaf_7 = b;
    const struct {
        const char *name;
        unsigned has;
    } all[] = {{"fma", leaf_1 & bit_FMA},           {"f16c", leaf_1 & bit_F16C},
               {"avx2", leaf_7 & bit_AVX2},         {"bmi2", leaf_7 & bit_BMI2},
               {"avx512f", leaf_7 & bit_AVX512F},   {"avx512bw", leaf_7 & bit_AVX512BW},
               {"avx512vl", leaf_7 & bit_AVX512VL}, {"avx512dq", leaf_7 & bit_AVX512DQ}};
    for (const auto &one : all)
        if (std::strcmp(one.name, extension) == 0) return one.has;
    return false;
}
// Whether the system keeps the level's registers when it turns to another program.
bool keeps_registers_of(const char *level) {
    __builtin_cpu_init();  // as this may run before main does
    if (std::strcmp(level, "avx2") == 0) return __builtin_cpu_supports("avx2");
    if (std::strcmp(level, "avx512") == 0) return __builtin_cpu_supports("avx512f");
    return true;
}
#endif

// Whether the processor has every extension that the level has beyond the one before.
bool has_extensions_of([[maybe_unused]] const char *level) {
    bool all = true;
#if defined(NDPOOL_X86_LEVELS)
    all = keeps_registers_of(level);
#define NDPOOL_EXTENSION(of, name) \
    if (std::strcmp(level, #of) == 0) all = all && has(name);
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
