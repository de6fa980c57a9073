// Threads: all pieces are done once, by as many threads as there may be; and what happens when none can be started.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <new>
#include <set>
#include <thread>
#include <vector>

#include "base/threads.h"
#include "tests/check.h"

namespace {

std::atomic<bool> threads_can_start{true};
thread_local bool new_has_memory = true;

}  // namespace

// In place of the library's, so that starting a thread can find no memory for what it is to do.
void *operator new(std::size_t bytes) {
    void *memory = new_has_memory ? std::malloc(bytes ? bytes : 1) : nullptr;
    if (!memory) throw std::bad_alloc();
    return memory;
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }

// Stands in front of the system's, so that starting a thread can be made to fail.
extern "C" __attribute__((visibility("default"))) int pthread_create(pthread_t *thread,
                                                                     const pthread_attr_t *attributes,
                                                                     void *(*start)(void *), void *argument) {
    if (!threads_can_start) return EAGAIN;
    static const auto real = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
    return real(thread, attributes, start, argument);
}

namespace ndpool_tests {
namespace {

using ndpool::parallel;
using ndpool::ThreadsOfCall;

// How many threads come to a job of 64 pieces. A piece waits until `wanted` threads have come, or for as long as that
// may take, so that no thread can do the work of the others.
int threads_that_come(int wanted, std::chrono::milliseconds patience = std::chrono::seconds(10)) {
    std::mutex mutex;
    std::set<std::thread::id> seen;
    std::atomic<int> come{0};
    const auto until = std::chrono::steady_clock::now() + patience;
    parallel(64, true, [&](std::int64_t, std::int64_t) {
        {
            std::lock_guard<std::mutex> lock(mutex);
            seen.insert(std::this_thread::get_id());
            come = static_cast<int>(seen.size());
        }
        while (come < wanted && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    });
    return come;
}

// Whether no more than so many threads come, where one more is given a while to do so.
bool no_more_come_than(int threads) {
    return threads_that_come(threads + 1, std::chrono::milliseconds(300)) <= threads;
}

void expect_each_piece_once(std::int64_t count) {
    std::vector<std::atomic<int>> done(static_cast<std::size_t>(count));
    parallel(count, true, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) ++done[static_cast<std::size_t>(i)];
    });
    for (std::int64_t i = 0; i < count; ++i)
        expect(done[static_cast<std::size_t>(i)] == 1, "piece ", i, " of ", count, " was done ",
               done[static_cast<std::size_t>(i)], " times");
}

struct RestoreThreads {
    int before = ndpool::get_num_threads();
    ~RestoreThreads() {
        threads_can_start = true;
        ndpool::set_num_threads(before);
    }
};

// While one lives, `new` fails on this thread.
struct NoMemory {
    NoMemory() { new_has_memory = false; }
    ~NoMemory() { new_has_memory = true; }
};

// Runs f in a child of fork(), and passes on how it ended.
template <class F>
void in_a_child(const F &f) {
    const pid_t child = fork();
    if (child == 0) {
        int status = 1;
        try {
            f();
            status = 0;
        } catch (const std::exception &error) {
            fprintf(stderr, "    in a child: %s\n", error.what());
        }
        _exit(status);
    }
    int status = 0;
    waitpid(child, &status, 0);
    expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child of fork() failed with status ", status);
}

}  // namespace

void test_threads_share_the_work(const Options &) {
    RestoreThreads restore;
    for (int threads : {1, 2, 5}) {
        ndpool::set_num_threads(threads);
        expect(threads_that_come(threads) == threads, "not ", threads, " threads came");
        for (std::int64_t count : {1, 2, 3, 7, 64, 1000, 4097}) expect_each_piece_once(count);
    }
    ndpool::set_num_threads(4);
    std::atomic<int> pieces{0};
    parallel(0, true, [&](std::int64_t, std::int64_t) { ++pieces; });
    parallel(-3, true, [&](std::int64_t, std::int64_t) { ++pieces; });
    expect(pieces == 0, "there was nothing to do");
    parallel(100, false, [&](std::int64_t begin, std::int64_t end) { pieces += begin == 0 && end == 100; });
    expect(pieces == 1, "work that is not worth threads is done in one piece");
    // A job within a job is done by the thread that has it.
    parallel(8, true,
             [&](std::int64_t, std::int64_t) { expect(no_more_come_than(1), "a job within a job has threads"); });
    expect(threads_that_come(4) == 4, "threads do not come after a job within a job");
}

void test_threads_of_a_child(const Options &options) {
    if (!options.fork) return;
    RestoreThreads restore;
    ndpool::set_num_threads(4);
    expect(threads_that_come(4) == 4, "threads do not come before a fork");
    in_a_child([] {
        expect(threads_that_come(4) == 4, "threads do not come in a child");
        expect_each_piece_once(1000);
    });
    expect(threads_that_come(4) == 4, "threads do not come after a fork");
}

void test_threads_of_one_call(const Options &) {
    RestoreThreads restore;
    ndpool::set_num_threads(2);
    {
        ThreadsOfCall call(4);
        expect(threads_that_come(4) == 4 && ndpool::get_num_threads() == 2,
               "a call has threads of its own, and changes no others");
        {
            ThreadsOfCall inner(1);
            expect(no_more_come_than(1), "a call within has its own");
        }
        {
            ThreadsOfCall inner(0);
            expect(threads_that_come(4) == 4, "0 leaves what was set");
        }
        expect(threads_that_come(4) == 4, "the number is back after a call within");
        bool as_the_process = false;
        std::thread([&] { as_the_process = no_more_come_than(2); }).join();
        expect(as_the_process, "another thread's calls do not have the number of the process");
    }
    expect(no_more_come_than(2) && threads_that_come(2) == 2, "the number of the process does not hold after the call");
    for (int n : {-1, 1025, 1 << 20})
        expect_error<std::invalid_argument>(text("threads=", n), [&] { ThreadsOfCall call(n); });
    ndpool::set_num_threads(0);
    expect(ndpool::get_num_threads() == 1, "there is at least one thread");
    ndpool::set_num_threads(1 << 20);
    expect(ndpool::get_num_threads() == ndpool::MOST_THREADS, "there are no more threads than the most");
}

void test_threads_that_cannot_be_started(const Options &) {
    RestoreThreads restore;
    ndpool::set_num_threads(3);
    expect(threads_that_come(3) == 3, "threads do not come");
    // Two helpers are there now, or more from other tests. Of the forty-one that are wanted, the others cannot be
    // started.
    threads_can_start = false;
    {
        ThreadsOfCall call(42);
        expect_each_piece_once(1000);
        expect(threads_that_come(3) >= 3, "the threads that there are do not come");
        expect(no_more_come_than(20), "threads came that could not be started");
    }
    expect_each_piece_once(1000);
    threads_can_start = true;
    {
        ThreadsOfCall call(42);
        std::atomic<int> done{0};
        {
            NoMemory none;
            parallel(1000, true, [&](std::int64_t begin, std::int64_t end) { done += static_cast<int>(end - begin); });
        }
        expect(done == 1000, "without memory to start a thread, ", done, " of 1000 pieces were done");
    }
    expect(threads_that_come(3) == 3, "the calling thread works alone for ever after a thread could not be started");
    ThreadsOfCall call(42);
    expect(threads_that_come(42) == 42, "more threads do not come later");
    expect_each_piece_once(1000);
}

void test_errors_of_threads(const Options &) {
    RestoreThreads restore;
    for (int threads : {1, 4}) {
        ndpool::set_num_threads(threads);
        for (int again = 0; again < 3; ++again) {
            expect_error<std::invalid_argument>("piece 37", [] {
                parallel(100, true, [](std::int64_t begin, std::int64_t end) {
                    if (begin <= 37 && 37 < end) throw std::invalid_argument("piece 37");
                });
            });
            expect_error<ndpool::OutOfMemory>("5 bytes (of a piece)", [] {
                parallel(100, true, [](std::int64_t, std::int64_t) { throw ndpool::OutOfMemory(5, "of a piece"); });
            });
            expect_each_piece_once(1000);
        }
        expect(threads_that_come(threads) == threads, "threads do not come after an error");
    }
}

}  // namespace ndpool_tests
