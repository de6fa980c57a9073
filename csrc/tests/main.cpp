// The tests of the engine without Python.
//   ndpool_core_tests [--quick] [--no-fork] [--cases N] [--seed S] [NAME ...]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/check.h"

using namespace ndpool_tests;

// With AddressSanitizer, memory that cannot be had is to be an error of the engine's, as without. Threads never end,
// and keep what they have.
extern "C" const char *__asan_default_options() { return "allocator_may_return_null=1:detect_leaks=0"; }

namespace {

struct Test {
    const char *name;
    void (*run)(const Options &);
};

const Test TESTS[] = {
    {"geometry", test_geometry_is_checked},
    {"requests", test_requests_are_checked},
    {"arrays", test_arrays_are_checked},
    {"levels", test_levels},
    {"scratch", test_scratch},
    {"scratch-failing", test_scratch_that_cannot_be_had},
    {"threads", test_threads_share_the_work},
    {"threads-of-a-call", test_threads_of_one_call},
    {"threads-fork", test_threads_of_a_child},
    {"threads-failing", test_threads_that_cannot_be_started},
    {"threads-errors", test_errors_of_threads},
    {"huge", test_huge_windows},
    {"empty", test_pools_without_elements},
    {"many-cells", test_windows_of_many_cells},
    {"pools", test_random_pools},
};

// Whether the test passes; says so.
bool passes(const Test &test, const Options &options) {
    const auto start = std::chrono::steady_clock::now();
    std::string error;
    try {
        test.run(options);
    } catch (const std::exception &failure) {
        error = failure.what();
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf("%-20s %s  %.2f s\n", test.name, error.empty() ? "passed" : "FAILED", seconds);
    if (!error.empty()) std::printf("    %s\n", error.c_str());
    std::fflush(stdout);
    return error.empty();
}

}  // namespace

int main(int argc, char **argv) {
    Options options;
    std::vector<std::string> names;
    for (int i = 1; i < argc; ++i) {
        const std::string argument = argv[i];
        if (argument == "--quick")
            options.cases = 250, options.large_cases = 6;
        else if (argument == "--no-fork")
            options.fork = false;
        else if (argument == "--cases" && i + 1 < argc)
            options.cases = std::atoi(argv[++i]), options.large_cases = options.cases / 60;
        else if (argument == "--seed" && i + 1 < argc)
            options.seed = std::strtoull(argv[++i], nullptr, 10);
        else
            names.push_back(argument);
    }
    int failed = 0, run = 0;
    for (const Test &test : TESTS) {
        bool wanted = names.empty();
        for (const std::string &name : names) wanted |= name == test.name;
        if (!wanted) continue;
        ++run;
        failed += !passes(test, options);
    }
    if (run == 0) std::printf("no test has such a name\n");
    return failed || run == 0;
}
