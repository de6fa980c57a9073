#include "threads.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace ndpool {
namespace {

using i64 = std::int64_t;

constexpr int MAX_THREADS = 1024;

struct Job {
    i64 count, grain;
    void (*work)(const void *, i64, i64);
    const void *context;
    std::atomic<i64> next{0};
    std::atomic<bool> out_of_memory{false};

    void run() {
        try {
            for (;;) {
                i64 begin = next.fetch_add(grain);
                if (begin >= count) return;
                work(context, begin, std::min(count, begin + grain));
            }
        } catch (const std::bad_alloc &) {
            out_of_memory = true;
            next = count;
        }
    }
};

struct Scratch {
    void *memory[SLOT_COUNT] = {};
    std::size_t size[SLOT_COUNT] = {};

    void release(std::size_t above) {
        for (int slot = 0; slot < SLOT_COUNT; ++slot)
            if (size[slot] > above) {
                std::free(memory[slot]);
                memory[slot] = nullptr;
                size[slot] = 0;
            }
    }
    ~Scratch() { release(0); }
};

thread_local Scratch scratch_of_thread;
thread_local bool inside_job = false;
thread_local int depth = 0;  // of calls within calls

// What a thread keeps between calls, for each slot.
constexpr std::size_t KEPT = std::size_t(4) << 20;

// Waits until something is so, or some ten microseconds: to sleep and be woken takes longer.
template <class F>
void look_for(const F &is_so) {
    for (int i = 0; i < 1000 && !is_so(); ++i) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
}

// Workers wait here for the next job. The pool is never destroyed: at exit a worker may still be waiting.
struct Workers {
    std::mutex busy;  // held by the caller whose job runs; another caller does its own work alone
    std::mutex mutex;
    std::condition_variable wake, done;
    Job *job = nullptr;
    // Written under the mutex; also looked at without it for a short while, as the next job is often not far.
    std::atomic<std::uint64_t> round{0};
    std::atomic<int> running{0};
    int count = 0, wanted = 0;
    pid_t owner = 0;

    void loop(int number) {
        std::uint64_t seen = 0;
        inside_job = true;
        for (;;) {
            Job *mine;
            look_for([&] { return round != seen; });
            {
                std::unique_lock<std::mutex> lock(mutex);
                wake.wait(lock, [&] { return round != seen; });
                seen = round;
                if (number >= wanted || !job) continue;
                mine = job;
                ++running;
            }
            mine->run();
            scratch_of_thread.release(KEPT);
            {
                std::lock_guard<std::mutex> lock(mutex);
                if (--running == 0) done.notify_all();
            }
        }
    }

    void run(Job &next, int helpers) {
        {
            std::lock_guard<std::mutex> lock(mutex);
            while (count < helpers) {
                try {
                    std::thread(&Workers::loop, this, count).detach();
                } catch (const std::system_error &) {
                    break;  // no more threads to be had: the work is done by those there are
                }
                ++count;
            }
            job = &next;
            wanted = helpers;
            ++round;
        }
        wake.notify_all();
        next.run();
        std::unique_lock<std::mutex> lock(mutex);
        job = nullptr;  // a worker that wakes only now has nothing to do
        if (running) {
            lock.unlock();
            look_for([&] { return running == 0; });
            lock.lock();
        }
        done.wait(lock, [&] { return running == 0; });
    }
};

// A child of fork() has none of its parent's threads, so it gets a pool of its own.
Workers &workers() {
    static std::atomic<Workers *> pool{nullptr};
    Workers *current = pool.load();
    if (!current || current->owner != getpid()) {
        auto *fresh = new Workers;
        fresh->owner = getpid();
        if (pool.compare_exchange_strong(current, fresh))
            current = fresh;
        else
            delete fresh;
    }
    return *current;
}

int threads_from_environment() {
    const char *text = std::getenv("NDPOOL_NUM_THREADS");
    int n = text ? std::atoi(text) : 0;
    if (n < 1) n = static_cast<int>(std::thread::hardware_concurrency());
    return std::max(1, std::min(n, MAX_THREADS));
}

std::atomic<int> thread_count{0};

}  // namespace

int get_num_threads() {
    if (thread_count == 0) {
        int none = 0;
        thread_count.compare_exchange_strong(none, threads_from_environment());
    }
    return thread_count;
}

void set_num_threads(int n) { thread_count = std::max(1, std::min(n, MAX_THREADS)); }

void share_out(i64 count, bool worth_it, void (*work)(const void *, i64, i64), const void *context) {
    if (count <= 0) return;
    struct Depth {
        Depth() { ++depth; }
        ~Depth() {
            if (--depth == 0 && !inside_job) scratch_of_thread.release(KEPT);
        }
    } entered;
    i64 threads = worth_it && !inside_job ? std::min<i64>(get_num_threads(), count) : 1;
    std::unique_lock<std::mutex> busy;
    if (threads > 1) busy = std::unique_lock<std::mutex>(workers().busy, std::try_to_lock);
    if (!busy.owns_lock()) return work(context, 0, count);
    Job job;
    job.count = count;
    job.grain = std::max<i64>(1, count / (threads * 8));
    job.work = work;
    job.context = context;
    struct Inside {  // until the job is done or a thread could not be started
        Inside() { inside_job = true; }
        ~Inside() { inside_job = false; }
    };
    {
        Inside job_of_this_thread;
        workers().run(job, static_cast<int>(threads) - 1);
    }
    if (job.out_of_memory) throw std::bad_alloc();
}

void *scratch(Slot slot, std::size_t bytes) {
    Scratch &own = scratch_of_thread;
    if (own.size[slot] < bytes) {
        std::free(own.memory[slot]);
        own.memory[slot] = nullptr;
        own.size[slot] = 0;
        std::size_t rounded = (bytes + bytes / 4 + 4095) / 4096 * 4096;
        own.memory[slot] = std::aligned_alloc(64, rounded);
        if (!own.memory[slot]) throw std::bad_alloc();
        own.size[slot] = rounded;
    }
    return own.memory[slot];
}

}  // namespace ndpool
