// Memory to work in, which each thread keeps from one call to the next.
//
// A Scratch holds one of its thread's blocks from its construction to its destruction. No other Scratch gets that block
// meanwhile, so two users cannot write over each other, however deep the calls are nested:
//
//     Scratch<double> sums(plan.out_row + 64, "sums of a row");
//     double *sum = sums.data();
//
// A freed block goes to the next one who asks, which is what makes taking one cheap: no call to malloc, no fresh pages.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/out_of_memory.h"

namespace ndpool {

// One thread's blocks. The functions are for Scratch and for the threads.
namespace scratch_blocks {

constexpr int MOST = 64;  // held at once by one thread

struct Block;

// Takes a free block of at least so many bytes, aligned to 64, and says which. Throws OutOfMemory, and std::logic_error
// where MOST are held already. The purpose is for the message.
void *take(std::size_t bytes, const char *purpose, Block **block);
void give_back(Block *block);

// Frees large blocks that nobody holds: a thread keeps little between calls.
void trim();

// How many blocks are held, and the bytes of all blocks, held or free.
int held();
std::size_t total_bytes();

}  // namespace scratch_blocks

// Room for `count` elements, aligned to 64 bytes. The contents are whatever was there before. A Scratch must be
// destroyed on the thread that made it.
template <class T>
class Scratch {
  public:
    Scratch() = default;  // holds nothing yet
    explicit Scratch(std::int64_t count, const char *purpose)
        : elements(static_cast<T *>(scratch_blocks::take(bytes_of(count, purpose), purpose, &block))), room(count) {}
    ~Scratch() {
        if (elements) scratch_blocks::give_back(block);
    }
    Scratch(Scratch &&other) noexcept : block(other.block), elements(other.elements), room(other.room) {
        other.elements = nullptr, other.room = 0;
    }
    Scratch &operator=(Scratch &&other) noexcept {
        if (this == &other) return *this;
        if (elements) scratch_blocks::give_back(block);
        block = other.block, elements = other.elements, room = other.room;
        other.elements = nullptr, other.room = 0;
        return *this;
    }
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;

    // Makes room for at least `count` elements. What was there is lost where there was not enough.
    void grow(std::int64_t count, const char *purpose) {
        if (elements && room >= count) return;
        *this = Scratch();  // given back first, so that it may be the one that is taken
        *this = Scratch(count, purpose);
    }

    T *data() const { return elements; }
    T &operator[](std::int64_t i) const { return elements[i]; }

  private:
    scratch_blocks::Block *block = nullptr;
    T *elements = nullptr;
    std::int64_t room = 0;

    static std::size_t bytes_of(std::int64_t count, const char *purpose) {
        constexpr std::size_t most = std::numeric_limits<std::ptrdiff_t>::max();
        if (count < 0 || static_cast<std::size_t>(count) > most / sizeof(T)) throw OutOfMemory(most, purpose);
        return static_cast<std::size_t>(count) * sizeof(T);
    }
};

}  // namespace ndpool
