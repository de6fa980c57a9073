#include "base/scratch.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) (static_cast<void>(address), static_cast<void>(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) (static_cast<void>(address), static_cast<void>(size))
#endif

namespace ndpool {
namespace scratch_blocks {

// What a thread keeps of each block between calls.
constexpr std::size_t KEPT = std::size_t(4) << 20;

struct Block {
    char *memory = nullptr;
    std::size_t size = 0;
    bool held = false;

    ~Block() { free(); }

    void free() {
        if (memory) ASAN_UNPOISON_MEMORY_REGION(memory, size);
        std::free(memory);
        memory = nullptr;
        size = 0;
    }

    // Makes room for so many bytes, and a quarter more: the next one who asks may want a little more.
    void grow(std::size_t bytes, const char *purpose) {
        free();
        std::size_t rounded = 0;
        if (__builtin_add_overflow(bytes, bytes / 4 + 4095, &rounded)) throw OutOfMemory(bytes, purpose);
        rounded = std::max<std::size_t>(rounded / 4096 * 4096, 4096);
        memory = static_cast<char *>(std::aligned_alloc(64, rounded));
        if (!memory) throw OutOfMemory(bytes, purpose);
        size = rounded;
    }
};

namespace {

struct Blocks {
    Block blocks[MOST];
    int used = 0;  // blocks that were ever taken: the first ones

    Blocks() = default;
    ~Blocks();

    // A free block that is large enough or, if there is none, a free one that can grow; -1 if all are held.
    int find(std::size_t bytes) {
        int smaller = -1;
        for (int i = 0; i < used; ++i) {
            if (blocks[i].held) continue;
            if (blocks[i].memory && blocks[i].size >= bytes) return i;
            if (smaller < 0) smaller = i;
        }
        if (smaller >= 0) return smaller;
        return used < MOST ? used++ : -1;
    }
};

thread_local Blocks *ready = nullptr;

Blocks::~Blocks() { ready = nullptr; }

// The thread's own. What has to be destroyed takes longer to find than a pointer.
Blocks &own() {
    if (!ready) {
        static thread_local Blocks blocks;
        ready = &blocks;
    }
    return *ready;
}

}  // namespace

void *take(std::size_t bytes, const char *purpose, Block **taken) {
    Blocks &mine = own();
    const int found = mine.find(bytes);
    if (found < 0)
        throw std::logic_error(std::string("a thread holds too many blocks of scratch memory to take one more (") +
                               purpose + ")");
    Block &block = mine.blocks[found];
    if (!block.memory || block.size < bytes) block.grow(bytes, purpose);
    block.held = true;
    ASAN_UNPOISON_MEMORY_REGION(block.memory, bytes);
    ASAN_POISON_MEMORY_REGION(block.memory + bytes, block.size - bytes);
    *taken = &block;
    return block.memory;
}

void give_back(Block *block) {
    block->held = false;
    ASAN_POISON_MEMORY_REGION(block->memory, block->size);
}

void trim() {
    if (!ready) return;
    for (int i = 0; i < ready->used; ++i)
        if (Block &block = ready->blocks[i]; !block.held && block.size > KEPT) block.free();
}

int held() {
    int count = 0;
    for (const Block &block : own().blocks) count += block.held;
    return count;
}

std::size_t total_bytes() {
    std::size_t sum = 0;
    for (const Block &block : own().blocks) sum += block.size;
    return sum;
}

}  // namespace scratch_blocks

}  // namespace ndpool
