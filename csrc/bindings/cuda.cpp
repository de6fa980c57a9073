#include "bindings/cuda.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/tensors.h"

namespace nb = nanobind;

namespace ndpool {
namespace {

// What the driver's cuLaunchKernelEx takes, as its header lays it out.
struct Attribute {
    int id;
    char padding[4];
    union {
        char size[64];
        int on;
    } value;
};

struct Configuration {
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared;
    void *stream;
    Attribute *attributes;
    unsigned count;
};

// The attribute of a kernel that is brought to the card while the one before it in the stream is still at work.
constexpr int FOLLOWS_AT_ONCE = 6;

// The address of the function is found by whoever has loaded the driver, so that nothing is linked here.
using Launcher = int (*)(const Configuration *configuration, void *function, void **parameters, void **extra);

// A compiled kernel, its grid, and all of its arguments but the addresses of its tensors, which come first.
//
// A kernel takes pointers to its arguments. Compilers append some of their own, for memory that these kernels do not
// ask for: `SPARE` of them are null, and a kernel with fewer arguments does not look at the rest.
class KernelLaunch {
  public:
    KernelLaunch(std::uintptr_t launcher, std::uintptr_t function, std::tuple<unsigned, unsigned, unsigned> grid,
                 unsigned threads, unsigned shared, std::vector<std::size_t> tensors,
                 std::vector<std::pair<std::int64_t, int>> given, bool follows)
        : launcher(reinterpret_cast<Launcher>(launcher)),
          function(reinterpret_cast<void *>(function)),
          grid(grid),
          threads(threads),
          shared(shared),
          follows(follows),
          tensors(std::move(tensors)) {
        if (!launcher || !function) throw std::invalid_argument("the address of the launcher or of the kernel is 0");
        if (this->tensors.size() + given.size() + SPARE > MOST) throw std::invalid_argument("too many arguments");
        for (const auto &[number, bytes] : given) {
            if (bytes != 4 && bytes != 8) throw std::invalid_argument("a number has 4 or 8 bytes");
            numbers.push_back(number);  // little-endian: the lower half stands first
        }
    }

    // Launches the kernel on a stream, given the addresses of all tensors, of which it takes its own. The answer is
    // the driver's, 0 for success, or NOT_TAKEN: the kernel was compiled for tensors that start at whole vectors.
    int run(std::uintptr_t stream, nb::list addresses) const {
        std::array<std::uint64_t, MOST> pointers;
        std::array<void *, MOST> parameters;
        std::size_t count = 0;
        for (const std::size_t place : tensors) {
            if (place >= addresses.size()) throw std::invalid_argument("there is no such tensor");
            const std::uint64_t address = nb::cast<std::uint64_t>(addresses[place]);
            if (!address || address % VECTOR) return NOT_TAKEN;
            pointers[count] = address;
            parameters[count] = &pointers[count];
            ++count;
        }
        for (const std::int64_t &number : numbers)
            parameters[count++] = const_cast<std::int64_t *>(&number);  // which the driver copies
        std::uint64_t none = 0;
        for (std::size_t i = 0; i < SPARE; ++i) parameters[count++] = &none;
        Attribute attribute = {FOLLOWS_AT_ONCE, {}, {}};
        attribute.value.on = 1;
        const auto [x, y, z] = grid;
        const Configuration configuration = {x,          y, z, threads, 1, 1, shared, reinterpret_cast<void *>(stream),
                                             &attribute, follows ? 1u : 0u};
        return launcher(&configuration, function, parameters.data(), nullptr);
    }

  private:
    static constexpr std::size_t MOST = 64, SPARE = 4;
    static constexpr std::uint64_t VECTOR = 16;
    static constexpr int NOT_TAKEN = -1;

    Launcher launcher;
    void *function;
    std::tuple<unsigned, unsigned, unsigned> grid;
    unsigned threads, shared;
    bool follows;
    std::vector<std::size_t> tensors;
    std::vector<std::int64_t> numbers;
};

// Dense tensors of one layout on CUDA, whose addresses the kernels take.
class CudaTensors {
  public:
    CudaTensors(nb::object type, const std::vector<std::int64_t> &shape, const std::vector<std::int64_t> &strides,
                const std::string &dtype)
        : type(std::move(type)), layout(shape, strides, dtype, dlpack::CUDA) {
        if (!this->type.table) throw std::invalid_argument("the type shares no tensors in C");
    }

    // 0 where the tensor is not such a one.
    std::uintptr_t address(nb::handle tensor) const {
        return reinterpret_cast<std::uintptr_t>(layout.memory_of(type, tensor).data);
    }

  private:
    TensorType type;
    TensorLayout layout;
};

}  // namespace

void bind_cuda(nb::module_ &m) {
    nb::class_<CudaTensors>(m, "CudaTensors", "Dense tensors of one layout on CUDA.")
        .def(nb::init<nb::object, std::vector<std::int64_t>, std::vector<std::int64_t>, const std::string &>(), nb::arg("tensor"),
             nb::arg("size"), nb::arg("strides"), nb::arg("dtype"))
        .def("address", &CudaTensors::address, nb::arg("x").none());
    nb::class_<KernelLaunch>(m, "KernelLaunch", "A compiled kernel of a GPU with all of its arguments but addresses.")
        .def(nb::init<std::uintptr_t, std::uintptr_t, std::tuple<unsigned, unsigned, unsigned>, unsigned, unsigned,
                      std::vector<std::size_t>, std::vector<std::pair<std::int64_t, int>>, bool>(),
             nb::arg("launcher"), nb::arg("function"), nb::arg("grid"), nb::arg("threads"), nb::arg("shared"),
             nb::arg("tensors"), nb::arg("numbers"), nb::arg("follows") = false)
        .def("run", &KernelLaunch::run, nb::arg("stream"), nb::arg("addresses"));
}

}  // namespace ndpool
