// Which instruction levels the processor has. Building asks this as well, so it needs nothing of the engine.
#pragma once
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace ndpool {

#if defined(__x86_64__)
// Whether the processor has an extension. The compilers' own question for that is not enough: not all know F16C.
inline bool has_extension(const char *extension) {
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
// Whether the system keeps the registers of AVX2 and AVX-512 when it turns to another program.
inline bool keeps_registers_of(const char *level) {
    __builtin_cpu_init();  // as this may run before main does
    if (std::strcmp(level, "avx2") == 0) return __builtin_cpu_supports("avx2");
    return __builtin_cpu_supports("avx512f");
}
#endif

// Whether the processor has a level: every extension that it and the levels before it are compiled with.
inline bool processor_has(const char *level) {
    if (std::strcmp(level, "baseline") == 0) return true;
#if defined(__x86_64__)
    if (std::strcmp(level, "avx512") == 0 && !processor_has("avx2")) return false;
    bool all = keeps_registers_of(level);
#define NDPOOL_EXTENSION(of, name) \
    if (std::strcmp(level, #of) == 0) all = all && has_extension(name);
#include "kinds/extensions.def"
#undef NDPOOL_EXTENSION
    return all;
#else
    return false;
#endif
}

}  // namespace ndpool
