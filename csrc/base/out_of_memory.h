// The error of memory that cannot be had, which says how much it was and what it was for.
#pragma once
#include <cstddef>
#include <cstdio>
#include <new>

namespace ndpool {

class OutOfMemory : public std::bad_alloc {
  public:
    OutOfMemory(std::size_t bytes, const char *purpose) noexcept {
        std::snprintf(text, sizeof text, "there is no memory for %zu bytes (%s)", bytes, purpose);
    }
    const char *what() const noexcept override { return text; }

  private:
    char text[160];  // no string: that would need memory
};

}  // namespace ndpool
