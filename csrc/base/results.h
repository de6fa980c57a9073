// Memory for results, of which some is kept when they are gone.
//
// A loop makes the same results over and over. The C library cuts small ones out of the memory that a large one leaves,
// finds other memory for the next large one, and may hand pages back to the system meanwhile. So a result is hardly
// ever where the last one was, which the caches still hold. Here the next result of a size is where the last one was.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <mutex>

namespace ndpool {

class ResultMemory {
  public:
    // What is kept at most: blocks, the bytes of all, and of one. All are a 64th of the machine's memory, but not less
    // than the C library of Linux keeps by itself.
    static constexpr int MOST = 16;
    const std::size_t all = most_bytes(), largest = all / 2;
    // The C library is good at less, which it has at hand if it need not be aligned.
    static constexpr std::size_t SMALLEST = 16 << 10;

    static ResultMemory &of_process() {
        static auto *const memory = new ResultMemory;  // which results may outlive
        return *memory;
    }

    // A block of so many bytes, a multiple of 64; null where there is no memory.
    void *take(std::size_t bytes) {
        if (is_kept(bytes)) {
            const std::unique_lock lock(mutex, std::try_to_lock);  // in a child of fork(), it may be locked for ever
            for (int i = lock.owns_lock() ? count - 1 : -1; i >= 0; --i)
                if (kept[i].bytes == bytes) return remove(i);
        }
        return allocated(bytes);
    }

    void give_back(void *block, std::size_t bytes) {
        if (is_kept(bytes)) {
            const std::unique_lock lock(mutex, std::try_to_lock);
            if (lock.owns_lock()) {
                while (count == MOST || total + bytes > all)
                    std::free(remove(0));  // the one that nobody took for longest
                kept[count++] = {block, bytes};
                total += bytes;
                return;
            }
        }
        std::free(block);
    }

  private:
    struct Block {
        void *memory;
        std::size_t bytes;
    };
    std::mutex mutex;
    Block kept[MOST];  // the last one is the newest
    int count = 0;
    std::size_t total = 0;

    bool is_kept(std::size_t bytes) const { return bytes >= SMALLEST && bytes <= largest; }

    static std::size_t most_bytes() {
        constexpr std::size_t LEAST = std::size_t(64) << 20, MOST_BYTES = std::size_t(512) << 20;
        const long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
        if (pages <= 0 || bytes <= 0) return LEAST;
        const std::size_t part = static_cast<std::size_t>(pages) / 64 * static_cast<std::size_t>(bytes);
        return part < LEAST ? LEAST : part > MOST_BYTES ? MOST_BYTES : part;
    }

    void *remove(int i) {
        const Block block = kept[i];
        for (--count; i < count; ++i) kept[i] = kept[i + 1];
        total -= block.bytes;
        return block.memory;
    }

    // The system clears memory a page at a time, when it is first written to: large ones are fewer, and quicker to find
    // afterwards.
    static void *allocated(std::size_t bytes) {
#ifdef MADV_HUGEPAGE
        constexpr std::size_t PAGE = 2 << 20;
        if (bytes >= 2 * PAGE) {
            void *block = std::aligned_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE);
            if (block) madvise(block, bytes / PAGE * PAGE, MADV_HUGEPAGE);
            return block;
        }
#endif
        return bytes < SMALLEST ? std::malloc(bytes) : std::aligned_alloc(64, bytes);
    }
};

}  // namespace ndpool
