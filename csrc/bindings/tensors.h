// Tensors of a framework that shares them in C, by the table of functions that DLPack defines: read where they lie, and
// made, without a word of Python. On a small tensor that takes less time than the framework's own way to make one.
#pragma once
#include <nanobind/nanobind.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/results.h"
#include "bindings/views.h"
#include "kinds/engine.h"

namespace ndpool {

// --- DLPack 1, as far as it is used here ----------------------------------------------------------

namespace dlpack {

struct Version {
    std::uint32_t major, minor;
};
struct Device {
    std::int32_t type, id;
};
struct DataType {
    std::uint8_t code, bits;
    std::uint16_t lanes;
};
struct Tensor {
    void *data;
    Device device;
    std::int32_t ndim;
    DataType dtype;
    std::int64_t *shape, *strides;
    std::uint64_t byte_offset;
};
struct Managed {
    Version version;
    void *context;
    void (*deleter)(Managed *);
    std::uint64_t flags;
    Tensor tensor;
};
struct Table {
    Version version;
    const Table *older;
    void *allocate, *from_object_owning;
    int (*to_object)(Managed *, void **object);
    int (*from_object)(void *object, Tensor *);
    void *stream;
};
constexpr std::int32_t CPU = 1, CUDA = 2;

}  // namespace dlpack

// --- tensors of one layout ------------------------------------------------------------------------

// The type of a framework's tensors, and its table.
struct TensorType {
    nanobind::object type;
    const dlpack::Table *table = nullptr;

    explicit TensorType(nanobind::object of) : type(std::move(of)) {
        nanobind::object capsule = nanobind::getattr(type, "__dlpack_c_exchange_api__", nanobind::none());
        if (capsule.is_none()) return;
        table = static_cast<const dlpack::Table *>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
        if (!table) throw nanobind::python_error();
        while (table && table->version.major > 1) table = table->older;
        if (table && (table->version.major < 1 || !table->from_object || !table->to_object)) table = nullptr;
    }
};

// Dense tensors of one shape, order in memory and dtype.
class TensorLayout {
  public:
    // `order` has the axes as they lie in memory; it is empty where that is the usual order.
    TensorLayout(std::vector<std::int64_t> shape, std::vector<std::int64_t> strides, const std::string &dtype,
                 std::int32_t device = dlpack::CPU, const std::vector<int> &order = {})
        : shape(std::move(shape)),
          strides(std::move(strides)),
          order(whole_order(order, this->shape.size())),
          dtype(type_of(dtype)),
          device(device),
          bytes(this->dtype.bits / 8) {
        if (this->shape.size() != this->strides.size()) throw std::invalid_argument("a stride for each axis");
        for (std::int64_t length : this->shape)
            if (length < 0 || __builtin_mul_overflow(bytes, length, &bytes))
                throw std::overflow_error("the tensor is too large");
    }

    std::int64_t element_bytes() const { return dtype.bits / 8; }
    std::int64_t elements() const { return bytes / element_bytes(); }

    // The memory of such a tensor; without data where it is another type, shape, dtype or device, does not lie as it
    // may, or has no memory. What is not dense is read as a view, with its axes as they are expected in memory.
    Array memory_of(const TensorType &of, nanobind::handle object) const {
        return memory_of(of, object, Lies::DENSE, nullptr);
    }
    Array memory_of(const TensorType &of, nanobind::handle object, Lies lies, ViewAxes *axes) const {
        dlpack::Tensor tensor;
        if (Py_TYPE(object.ptr()) != reinterpret_cast<PyTypeObject *>(of.type.ptr())) return {};
        if (of.table->from_object(object.ptr(), &tensor) != 0) {
            PyErr_Clear();
            return {};
        }
        if (tensor.device.type != device || tensor.ndim != static_cast<int>(shape.size()) ||
            std::memcmp(&tensor.dtype, &dtype, sizeof dtype) != 0)
            return {};
        bool dense = true;
        for (std::size_t d = 0; d < shape.size(); d++) {
            if (tensor.shape[d] != shape[d]) return {};
            dense &= shape[d] == 1 || tensor.strides[d] == strides[d];  // that of an axis with one cell says nothing
        }
        if (!dense && lies == Lies::DENSE) return {};
        auto address = reinterpret_cast<std::uintptr_t>(tensor.data) + tensor.byte_offset;
        if (!tensor.data || address % element_bytes() != 0) return {};
        void *const data = reinterpret_cast<void *>(address);
        if (dense) return {data, bytes, element_bytes()};
        for (int d = 0; d < tensor.ndim; ++d) axes->set(d, shape[order[d]], tensor.strides[order[d]]);
        if (lies == Lies::IN_ORDER && !axes->are_in_order(tensor.ndim)) return {};
        return axes->view_of(data, bytes, element_bytes(), tensor.ndim);
    }

    // A new tensor that `fill` has written, given its memory; None where there is none. The memory, which starts with a
    // line of the cache, and all that describes it are one block.
    template <class Fill>
    nanobind::object made(const TensorType &of, const Fill &fill) const {
        std::size_t numbers = shape.size() * sizeof(std::int64_t);
        std::size_t head = (sizeof(Block) + 2 * numbers + 63) / 64 * 64;
        std::size_t size = head + (static_cast<std::size_t>(bytes) + 63) / 64 * 64 + 64;
        auto *block = static_cast<char *>(ResultMemory::of_process().take(size));
        if (!block) return nanobind::none();
        char *const cells = block + head + (64 - reinterpret_cast<std::uintptr_t>(block) % 64) % 64;
        try {
            fill(Array{cells, bytes, element_bytes()});
        } catch (...) {
            ResultMemory::of_process().give_back(block, size);
            throw;
        }
        auto *sides = reinterpret_cast<std::int64_t *>(block + sizeof(Block)), *steps = sides + shape.size();
        std::memcpy(sides, shape.data(), numbers);
        std::memcpy(steps, strides.data(), numbers);
        dlpack::Tensor tensor{cells, {dlpack::CPU, 0}, static_cast<std::int32_t>(shape.size()), dtype, sides, steps, 0};
        return handed_over(of, new (block) Block{{{1, 0}, nullptr, release, 0, tensor}, size});
    }

  private:
    // What a block begins with.
    struct Block : dlpack::Managed {
        std::size_t size;
    };

    std::vector<std::int64_t> shape, strides;
    std::vector<int> order;
    dlpack::DataType dtype;
    std::int32_t device;
    std::int64_t bytes;

    // The framework's tensor for a block.
    //
    // DLPack (dlpack.h, DLPackManagedTensorToPyObjectNoSync) says that "the ownership of the tensor is stolen", and of
    // a failure only that it is -1 with an exception set. Some frameworks release the block before they fail and some
    // do not, and neither a block that is lost nor one that is freed twice will do. So the deleter says whether it has
    // run: where it has not by the time the failure is known, there is no tensor that could still run it, and the block
    // is freed here.
    static nanobind::object handed_over(const TensorType &of, dlpack::Managed *managed) {
        bool released = false;
        managed->context = &released;
        void *object = nullptr;
        const bool failed = of.table->to_object(managed, &object) != 0 || !object;
        if (!released) managed->context = nullptr;
        if (!failed) return nanobind::steal(static_cast<PyObject *>(object));
        if (!released) release(managed);
        if (PyErr_Occurred()) throw nanobind::python_error();
        throw std::runtime_error("the framework made no tensor of the result, and did not say why");
    }

    // Frees a block, and says so to whoever still asks.
    static void release(dlpack::Managed *managed) {
        if (managed->context) *static_cast<bool *>(managed->context) = true;
        ResultMemory::of_process().give_back(managed, static_cast<Block *>(managed)->size);
    }

    static dlpack::DataType type_of(const std::string &name) {
        static const struct {
            const char *family;
            std::uint8_t code;
        } families[] = {{"int", 0}, {"uint", 1}, {"float", 2}, {"bfloat", 4}};
        if (name == "bool") return {6, 8, 1};
        for (auto &[family, code] : families)
            for (int bits : {8, 16, 32, 64})
                if (name == family + std::to_string(bits)) return {code, static_cast<std::uint8_t>(bits), 1};
        throw std::invalid_argument("tensors have no type '" + name + "'");
    }
};

}  // namespace ndpool
