// A pool of threads that share out numbered pieces of work.
#pragma once
#include <cstdint>

#include "base/scratch.h"
#include "base/types.h"

namespace ndpool {

// Calls work(context, begin, end) over pieces of 0..count-1, on several threads if `worth_it`. Which thread does
// which piece varies from run to run: results must not depend on it. If a piece throws, the others may be left out, and
// one of the exceptions is thrown here. If no thread can be started, the calling one does all the work.
void share_out(std::int64_t count, bool worth_it,
               void (*work)(const void *context, std::int64_t begin, std::int64_t end), const void *context);

// Below this many elements, waking a thread costs more than it saves.
NDPOOL_INLINE bool worth_threads(std::int64_t elements) { return elements >= (1 << 15); }

template <class Work>
void parallel(std::int64_t count, bool worth_it, const Work &work) {
    share_out(
        count, worth_it,
        [](const void *w, std::int64_t begin, std::int64_t end) { (*static_cast<const Work *>(w))(begin, end); },
        &work);
}

constexpr int MOST_THREADS = 1024;

// How many threads a call may use: for the whole process, from the environment (NDPOOL_NUM_THREADS) or all processors
// until it is set.
int get_num_threads();
void set_num_threads(int n);

// While one lives, calls of this thread may use so many threads; 0 leaves the number of the process. Throws
// std::invalid_argument for a number that is not from 0 to MOST_THREADS.
class ThreadsOfCall {
  public:
    explicit ThreadsOfCall(int n);
    ~ThreadsOfCall();
    ThreadsOfCall(const ThreadsOfCall &) = delete;
    ThreadsOfCall &operator=(const ThreadsOfCall &) = delete;

  private:
    int given, before = 0;
};

}  // namespace ndpool
