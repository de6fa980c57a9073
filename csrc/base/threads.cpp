#include "base/threads.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

namespace ndpool {
namespace {

using i64 = std::int64_t;

struct Job {
    i64 count, grain;
    void (*work)(const void *, i64, i64);
    const void *context;
    std::atomic<i64> next{0};
    std::atomic<bool> failed{false};
    std::exception_ptr error;  // of the first piece that threw

    void run() {
        try {
            for (;;) {
                i64 begin = next.fetch_add(grain);
                if (begin >= count) return;
                work(context, begin, std::min(count, begin + grain));
            }
        } catch (...) {
            next = count;
            if (!failed.exchange(true)) error = std::current_exception();
        }
    }
};

// What a thread knows of its calls. It is looked up once for each, which takes time.
struct Own {
    bool inside_job = false;  // then this thread's calls do their work alone
    int depth = 0;            // of calls within calls
    int threads_of_call = 0;
};
thread_local Own own;

// Sets a variable for as long as it lives, however the scope is left.
template <class T>
struct Temporarily {
    T &variable;
    T before;
    Temporarily(T &variable, T value) : variable(variable), before(variable) { variable = value; }
    ~Temporarily() { variable = before; }
};

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
        own.inside_job = true;
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
            scratch_blocks::trim();
            {
                std::lock_guard<std::mutex> lock(mutex);
                if (--running == 0) done.notify_all();
            }
        }
    }

    // Starts workers until there are so many, or until no more can be had: the work is then done by those there are.
    void start(int helpers) {
        while (count < helpers) {
            try {
                std::thread(&Workers::loop, this, count).detach();
            } catch (const std::system_error &) {
                return;
            } catch (const std::bad_alloc &) {
                return;
            }
            ++count;
        }
    }

    void run(Job &next, int helpers) {
        {
            std::lock_guard<std::mutex> lock(mutex);
            start(helpers);
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
    return std::max(1, std::min(n, MOST_THREADS));
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

void set_num_threads(int n) { thread_count = std::max(1, std::min(n, MOST_THREADS)); }

ThreadsOfCall::ThreadsOfCall(int n) : given(n) {
    if (n == 0) return;
    if (n < 0 || n > MOST_THREADS)
        throw std::invalid_argument("threads=" + std::to_string(n) + " is not a number of threads; give 1 to " +
                                    std::to_string(MOST_THREADS) + ", or 0 for the number of the process");
    before = own.threads_of_call;
    own.threads_of_call = n;
}

ThreadsOfCall::~ThreadsOfCall() {
    if (given) own.threads_of_call = before;
}

void share_out(i64 count, bool worth_it, void (*work)(const void *, i64, i64), const void *context) {
    if (count <= 0) return;
    struct Entered {
        Own &mine;
        explicit Entered(Own &mine) : mine(mine) { ++mine.depth; }
        ~Entered() {
            if (--mine.depth == 0 && !mine.inside_job) scratch_blocks::trim();
        }
    } entered(own);
    Own &mine = entered.mine;
    const int most = !worth_it || mine.inside_job ? 1 : mine.threads_of_call ? mine.threads_of_call : get_num_threads();
    const i64 threads = std::min<i64>(most, count);
    std::unique_lock<std::mutex> busy;
    if (threads > 1) busy = std::unique_lock<std::mutex>(workers().busy, std::try_to_lock);
    if (!busy.owns_lock()) return work(context, 0, count);
    Job job;
    job.count = count;
    job.grain = std::max<i64>(1, count / (threads * 8));
    job.work = work;
    job.context = context;
    {
        Temporarily<bool> inside(mine.inside_job, true);
        workers().run(job, static_cast<int>(threads) - 1);
    }
    if (job.error) std::rethrow_exception(job.error);
}

}  // namespace ndpool
