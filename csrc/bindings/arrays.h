// NumPy's arrays: read where they lie, and made, without asking for a buffer, which takes longer than a small pool
// does.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <vector>

#include "bindings/views.h"

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
        const std::vector<int> back = check_order(order, lengths.size());
        as_it_lies = nanobind::tuple(nanobind::cast(order)), as_it_is = nanobind::tuple(nanobind::cast(back));
    }

    i64 elements() const { return bytes / element_bytes; }
    i64 bytes_of_element() const { return element_bytes; }

    // The memory of such an array; without data where it is of another type, shape or dtype, or does not lie as it may.
    // A dtype is known by its identity, so that one of another byte order is another. What is not dense is read as a
    // view, with its axes as they are expected in memory.
    Array memory_of(const NumpyType &of, nanobind::handle object) const {
        return memory_of(of, object, 0, Lies::DENSE, nullptr);
    }
    Array memory_of(const NumpyType &of, nanobind::handle object, Lies lies, ViewAxes *axes) const {
        return memory_of(of, object, 0, lies, axes);
    }

    // The same of an array to write to, which must not lie over those that are read.
    Array memory_to_write(const NumpyType &of, nanobind::handle object, std::initializer_list<Array> read) const {
        const Array found = memory_of(of, object, numpy::WRITEABLE, Lies::DENSE, nullptr);
        const auto [start, end] = reach_of(found);
        for (const Array &other : read) {
            const auto [first, last] = reach_of(other);
            if (other.data && start < last && first < end) return {};
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

    Array memory_of(const NumpyType &of, nanobind::handle object, int flags, Lies lies, ViewAxes *axes) const {
        if (Py_TYPE(object.ptr()) != reinterpret_cast<PyTypeObject *>(of.type.ptr())) return {};
        const auto *array = reinterpret_cast<const numpy::Fields *>(object.ptr());
        flags |= numpy::ALIGNED;
        if (array->descr != dtype.ptr() || (array->flags & flags) != flags) return {};
        if (array->nd != static_cast<int>(lengths.size())) return {};
        bool dense = !order.empty() || (array->flags & numpy::C_CONTIGUOUS);
        i64 step = element_bytes;
        for (std::size_t d = lengths.size(); d-- > 0; step *= lengths[d]) {
            const std::size_t axis = axis_at(d);
            if (array->dimensions[axis] != lengths[d]) return {};
            // The stride of an axis with one cell says nothing.
            if (!order.empty() && lengths[d] != 1) dense &= array->strides[axis] == step;
        }
        if (dense) return {array->data, bytes, element_bytes};
        if (lies == Lies::DENSE) return {};
        for (int d = 0; d < array->nd; ++d) {
            const i64 stride = array->strides[axis_at(static_cast<std::size_t>(d))];
            if (stride % element_bytes) return {};
            axes->set(d, lengths[static_cast<std::size_t>(d)], stride / element_bytes);
        }
        if (lies == Lies::IN_ORDER && !axes->are_in_order(array->nd)) return {};
        return axes->view_of(array->data, bytes, element_bytes, array->nd);
    }

    std::size_t axis_at(std::size_t place) const {
        return order.empty() ? place : static_cast<std::size_t>(order[place]);
    }
};

}  // namespace ndpool
