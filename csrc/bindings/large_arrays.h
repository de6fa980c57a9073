// Large arrays of NumPy, in memory that is kept for the next ones: the system clears every page that it hands out,
// which takes longer than to pool what is written there.
#pragma once
#include <nanobind/nanobind.h>

#include <cstdint>

#include "base/results.h"
#include "bindings/arrays.h"

namespace ndpool {

// The memory of one array, or null: NumPy then says itself that there is none.
class ArrayMemory {
  public:
    explicit ArrayMemory(std::size_t bytes)
        : size((bytes + 63) / 64 * 64), block(ResultMemory::of_process().take(size)) {}
    ~ArrayMemory() {
        if (block) ResultMemory::of_process().give_back(block, size);
    }
    ArrayMemory(const ArrayMemory &) = delete;
    void *data() const { return block; }

  private:
    const std::size_t size;
    void *const block;
};

// A new array, which nothing was written to. It starts at a whole line of the cache.
inline nanobind::object large_array(const nanobind::tuple &shape, const nanobind::object &dtype) {
    static auto *const numpy = new NumpyType(nanobind::module_::import_("numpy").attr("ndarray"));
    const ArrayLayout layout(shape, dtype);
    auto *memory = new ArrayMemory(static_cast<std::size_t>(layout.elements() * layout.bytes_of_element()));
    nanobind::capsule owner(memory, [](void *p) noexcept { delete static_cast<ArrayMemory *>(p); });
    nanobind::object array = layout.made(*numpy, memory->data());
    if (memory->data()) reinterpret_cast<numpy::Fields *>(array.ptr())->base = owner.release().ptr();
    return array;
}

}  // namespace ndpool
