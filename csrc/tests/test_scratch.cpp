// Scratch memory: no block is given to two, and a block that is given back is used again.
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "base/threads.h"
#include "tests/check.h"

namespace ndpool_tests {
namespace {

using ndpool::OutOfMemory;
using ndpool::Scratch;
namespace blocks = ndpool::scratch_blocks;

// Every level of the recursion holds a block of its own, and finds it as it left it.
void nest(int depth) {
    if (depth == 0) return;
    const int size = 100 * depth;
    Scratch<int> own(size, "a level of the test");
    for (int i = 0; i < size; ++i) own[i] = depth;
    nest(depth - 1);
    Scratch<int> after(depth, "a later user");
    for (int i = 0; i < depth; ++i) after[i] = -1;
    for (int i = 0; i < size; ++i) expect(own[i] == depth, "level ", depth, " found ", own[i], " at ", i);
}

Scratch<double> made(int count) { return Scratch<double>(count, "returned"); }

}  // namespace

void test_scratch(const Options &) {
    expect(blocks::held() == 0, "no block is held before the test");
    void *first;
    {
        Scratch<char> a(1000, "a"), b(1000, "b"), nothing(0, "nothing");
        first = a.data();
        expect(nothing.data() && reinterpret_cast<std::uintptr_t>(a.data()) % 64 == 0, "blocks are there and aligned");
        expect(a.data() + 1000 <= b.data() || b.data() + 1000 <= a.data(), "two blocks overlap");
        expect(blocks::held() == 3, "three blocks are held");
    }
    expect(blocks::held() == 0, "all blocks are given back");
    expect(Scratch<char>(500, "again").data() == first, "a block that is free is used again");
    nest(12);
    {
        Scratch<double> kept = made(10);
        kept[9] = 7;
        Scratch<double> moved = std::move(kept);
        expect(moved[9] == 7 && blocks::held() == 1, "a block moves with its contents, and stays one");
        Scratch<double> other(20, "other");
        other = std::move(moved);
        expect(other[9] == 7 && blocks::held() == 1, "the block of before is given back");
        Scratch<double> *self = &other;
        other = std::move(*self);
        expect(other[9] == 7 && blocks::held() == 1, "a block that is moved to itself stays");
    }
    try {
        Scratch<char> a(10, "thrown over");
        throw 1;
    } catch (int) {
    }
    expect(blocks::held() == 0, "an exception gives the block back");
    // Blocks that are given back in another order than they were taken.
    auto a = std::make_unique<Scratch<char>>(10, "a"), b = std::make_unique<Scratch<char>>(10, "b");
    char *second = b->data();
    a.reset();
    Scratch<char> c(10, "c");
    expect(c.data() != second, "a block that is held was given away");
    b.reset();
    // A thread keeps little between calls.
    {
        Scratch<char> large(64 << 20, "large");
    }
    expect(blocks::total_bytes() > (64u << 20), "a large block is kept for the next user");
    blocks::trim();
    expect(blocks::total_bytes() < (16u << 20) && blocks::held() == 1, "a large block is kept between calls");
    // Other threads have blocks of their own.
    char *theirs = nullptr;
    int held_by_them = 0;
    std::thread([&] {
        Scratch<char> own(10, "of another thread");
        theirs = own.data();
        held_by_them = blocks::held();
    }).join();
    expect(theirs && theirs != c.data() && held_by_them == 1, "two threads share their blocks");
}

void test_scratch_that_cannot_be_had(const Options &) {
    expect_error<OutOfMemory>("bytes (an enormous row)",
                              [] { Scratch<double>(std::int64_t(1) << 58, "an enormous row"); });
    expect_error<OutOfMemory>("bytes (overflow)", [] { Scratch<double>(std::int64_t(1) << 62, "overflow"); });
    expect_error<OutOfMemory>("bytes (less than none)", [] { Scratch<double>(-1, "less than none"); });
    expect_error<std::bad_alloc>("there is no memory for 4611686018427387904 bytes",
                                 [] { Scratch<char>(std::int64_t(1) << 62, "much"); });
    expect(blocks::held() == 0, "a block that could not be had is held");
    std::vector<Scratch<char>> many;
    for (int i = 0; i < blocks::MOST; ++i) many.emplace_back(10, "one of many");
    expect_error<std::logic_error>("too many blocks of scratch memory to take one more (the last straw)",
                                   [] { Scratch<char>(10, "the last straw"); });
    many.clear();
    expect(blocks::held() == 0, "blocks are held after all were given back");
    Scratch<char>(10, "afterwards")[9] = 1;
}

}  // namespace ndpool_tests
