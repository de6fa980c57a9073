// What Python sees of the native engine.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

// The widest instruction set that this processor has and that the engine has code for.
static const char *instruction_set() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        return "avx512";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return "avx2";
#endif
    return "baseline";
}

NB_MODULE(_engine, m) { m.def("instruction_set", &instruction_set); }
