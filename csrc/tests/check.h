// What the tests of the core have in common: failures with a message, expected errors, and the list of tests.
#pragma once
#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>

namespace ndpool_tests {

struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Joins whatever can be printed.
template <class... Parts>
std::string text(const Parts &...parts) {
    std::ostringstream out;
    out.precision(21);
    (out << ... << parts);
    return out.str();
}

template <class... Parts>
void expect(bool is_so, const Parts &...parts) {
    if (!is_so) throw Failure(text(parts...));
}

// Runs f, which must throw an Error whose message has `part` in it.
template <class Error, class F>
void expect_error(const std::string &part, const F &f) {
    try {
        f();
    } catch (const Error &error) {
        expect(std::string(error.what()).find(part) != std::string::npos, "the error says '", error.what(),
               "', and not '", part, "'");
        return;
    } catch (const std::exception &error) {
        throw Failure(text("another error than expected: ", error.what()));
    }
    throw Failure(text("no error; expected one that says '", part, "'"));
}

struct Options {
    int cases = 2500;        // random pools
    int large_cases = 40;    // of those, so large that several threads work on them
    std::uint64_t seed = 1;  // of the first case; the others follow
    bool fork = true;        // QEMU does not survive threads in a child of fork()
};

// Each throws a Failure.
void test_random_pools(const Options &options);
void test_windows_of_many_cells(const Options &options);
void test_pools_without_elements(const Options &options);
void test_arrays_are_checked(const Options &options);
void test_requests_are_checked(const Options &options);
void test_geometry_is_checked(const Options &options);
void test_huge_windows(const Options &options);
void test_levels(const Options &options);
void test_scratch(const Options &options);
void test_scratch_that_cannot_be_had(const Options &options);
void test_threads_share_the_work(const Options &options);
void test_threads_of_one_call(const Options &options);
void test_threads_of_a_child(const Options &options);
void test_threads_that_cannot_be_started(const Options &options);
void test_errors_of_threads(const Options &options);

}  // namespace ndpool_tests
