// NumPy's arrays: read where they lie, and made, without asking for a buffer, which takes longer than a small pool
// does.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <vector>

#include "kinds/engine.h"

namespace ndpool {

namespace numpy {

// The head of an ndarray, as numpy/ndarraytypes.h declares it (PyArrayObject_fields): it is part of NumPy's ABI.
struct Fields {
    PyObject_HEAD;
    char *data;
    int nd;
    Py_ssize_t *dimensions, *strides;
    PyObject *base, *descr;
    int flags;
};
constexpr int C_CONTIGUOUS = 0x1, ALIGNED = 0x100, WRITEABLE = 0x400;

}  // namespace numpy

// NumPy's type of arrays, and its function that makes one.
struct NumpyType {
    nanobind::object type, empty;
};

// Dense arrays of one shape, dtype and order of axes in memory.
class ArrayLayout {
  public:
    // The lengths are those in memory. `order` has the axes as they lie there, and is empty where that is the usual
    // order.
    ArrayLayout(nanobind::tuple shape, nanobind::object dtype, const std::vector<int> &order = {})
        : shape(std::move(shape)), dtype(std::move(dtype)), order(order) {
        bytes = element_bytes = nanobind::cast<i64>(nanobind::getattr(this->dtype, "itemsize"));
        for (nanobind::handle length : this->shape) {
            lengths.push_back(nanobind::cast<i64>(length));
            if (lengths.back() < 0 || __builtin_mul_overflow(bytes, lengths.back(), &bytes))
                throw std::overflow_error("the array is too large");
        }
        if (order.empty()) return;
        std::vector<int> back(lengths.size(), -1);
        for (std::size_t d = 0; d < order.size(); ++d)
            if (order.size() == back.size() && order[d] >= 0 && order[d] < static_cast<int>(back.size()))
                back[order[d]] = static_cast<int>(d);
        for (int place : back)
            if (place < 0) throw std::invalid_argument("the order does not have each axis once");
        as_it_lies = nanobind::tuple(nanobind::cast(order)), as_it_is = nanobind::tuple(nanobind::cast(back));
    }

    i64 elements() const { return bytes / element_bytes; }
    i64 bytes_of_element() const { return element_bytes; }

    // The memory of such an array; without data where it is of another type, shape, order or dtype. A dtype is known by
    // its identity, so that one of another byte order is another.
    Array memory_of(const NumpyType &of, nanobind::handle object) const { return memory_of(of, object, 0); }

    // The same of an array to write to, which must not lie over those that are read.
    Array memory_to_write(const NumpyType &of, nanobind::handle object, std::initializer_list<Array> read) const {
        const Array found = memory_of(of, object, numpy::WRITEABLE);
        const auto start = reinterpret_cast<std::uintptr_t>(found.data);
        for (const Array &other : read) {
            const auto from = reinterpret_cast<std::uintptr_t>(other.data);
            if (other.data && start < from + other.bytes && from < start + found.bytes) return {};
        }
        return found;
    }

    // A new array, which nothing was written to.
    nanobind::object made(const NumpyType &of) const {
        PyObject *arguments[] = {shape.ptr(), dtype.ptr()};
        nanobind::object array = nanobind::steal(PyObject_Vectorcall(of.empty.ptr(), arguments, 2, nullptr));
        if (!array.is_valid()) throw nanobind::python_error();
        return order.empty() ? array : array.attr("transpose")(as_it_is);
    }

    // Such an array with its axes as they lie in memory.
    nanobind::object laid(nanobind::handle array) const {
        return order.empty() ? nanobind::borrow(array) : array.attr("transpose")(as_it_lies);
    }

  private:
    nanobind::tuple shape;
    nanobind::object dtype, as_it_lies, as_it_is;
    std::vector<int> order;
    std::vector<i64> lengths;
    i64 bytes, element_bytes;

    Array memory_of(const NumpyType &of, nanobind::handle object, int flags) const {
        if (Py_TYPE(object.ptr()) != reinterpret_cast<PyTypeObject *>(of.type.ptr())) return {};
        const auto *array = reinterpret_cast<const numpy::Fields *>(object.ptr());
        flags |= numpy::ALIGNED | (order.empty() ? numpy::C_CONTIGUOUS : 0);
        if (array->descr != dtype.ptr() || (array->flags & flags) != flags) return {};
        if (array->nd != static_cast<int>(lengths.size())) return {};
        i64 step = element_bytes;
        for (std::size_t d = lengths.size(); d-- > 0; step *= lengths[d]) {
            const auto axis = order.empty() ? d : static_cast<std::size_t>(order[d]);
            if (array->dimensions[axis] != lengths[d]) return {};
            // The stride of an axis with one cell says nothing.
            if (!order.empty() && lengths[d] != 1 && array->strides[axis] != step) return {};
        }
        return {array->data, bytes, element_bytes};
    }
};

}  // namespace ndpool
