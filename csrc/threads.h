// A pool of threads that share out numbered pieces of work, and memory to work in.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ndpool {

// Calls work(context, begin, end) over pieces of 0..count-1, on several threads if `worth_it`. Which thread does
// which piece varies from run to run: results must not depend on it. Throws std::bad_alloc if a piece did.
void share_out(std::int64_t count, bool worth_it, void (*work)(const void *context, std::int64_t begin, std::int64_t end),
               const void *context);

template <class Work>
void parallel(std::int64_t count, bool worth_it, const Work &work) {
    share_out(
        count, worth_it,
        [](const void *w, std::int64_t begin, std::int64_t end) { (*static_cast<const Work *>(w))(begin, end); }, &work);
}

int get_num_threads();
void set_num_threads(int n);

// Memory of the calling thread, at least `bytes` long and aligned to 64; contents are kept until the same slot is
// asked for more.
enum Slot { ROW, PHASES, ROWS, SEEN, PLANES_SEEN, FRONT, PLANE, PLANE2, PLANE3, PLANE4, EXTRA, BLOCK, BETWEEN, BORDER, BORDER2, MADE, MADE2, SLOT_COUNT };
void *scratch(Slot slot, std::size_t bytes);

}  // namespace ndpool
