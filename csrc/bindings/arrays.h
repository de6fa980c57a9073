// NumPy's arrays: read where they lie, and made, without asking for a buffer, which takes longer than a small pool
// does.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
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

// NumPy's type of arrays, and its function that makes one: a part of its ABI, too, in the table that NumPy gives.
struct NumpyType {
    // PyArray_NewFromDescr, which takes the dtype over.
    using Make = PyObject *(*)(PyTypeObject *, PyObject *dtype, int nd, const Py_ssize_t *dimensions,
                               const Py_ssize_t *strides, void *data, int flags, PyObject *like);
    nanobind::object type;
    Make make;

    explicit NumpyType(nanobind::object of) : type(std::move(of)), make(reinterpret_cast<Make>(table()[94])) {}

  private:
    static void **table() {
        static void **const functions = [] {
            nanobind::object module = nanobind::steal(PyImport_ImportModule("numpy._core._multiarray_umath"));
            if (!module.is_valid()) {  // where it was before NumPy 2
                PyErr_Clear();
                module = nanobind::module_::import_("numpy.core._multiarray_umath");
            }
            void *found = PyCapsule_GetPointer(module.attr("_ARRAY_API").ptr(), nullptr);
            if (!found) throw nanobind::python_error();
            return static_cast<void **>(found);
        }();
        return functions;
    }
};

// Dense arrays of one shape, dtype and order of axes in memory.
class ArrayLayout {
  public:
    // The lengths are those in memory. `order` has the axes as they lie there, and is empty where that is the usual
    // order. An array that has the strides `known`, in bytes, lies in order.
    ArrayLayout(const nanobind::tuple &shape, nanobind::object dtype, const std::vector<int> &order = {},
                const std::vector<Py_ssize_t> &known = {})
        : dtype(std::move(dtype)), order(order), known(known) {
        bytes = element_bytes = nanobind::cast<i64>(nanobind::getattr(this->dtype, "itemsize"));
        for (nanobind::handle length : shape) {
            lengths.push_back(nanobind::cast<i64>(length));
            if (lengths.back() < 0 || __builtin_mul_overflow(bytes, lengths.back(), &bytes))
                throw std::overflow_error("the array is too large");
        }
        if (!order.empty()) {
            check_order(order, lengths.size());
            as_it_lies = nanobind::tuple(nanobind::cast(order));
        }
        dimensions.resize(lengths.size()), strides.resize(lengths.size());
        i64 step = element_bytes;
        for (std::size_t d = lengths.size(); d-- > 0;) {
            dimensions[axis_at(d)] = lengths[d], strides[axis_at(d)] = step;
            step *= lengths[d] ? lengths[d] : 1;
        }
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
    Array memory_to_write(const NumpyType &of, nanobind::handle object, Lies lies, ViewAxes *axes,
                          std::initializer_list<Array> read) const {
        const Array found = memory_of(of, object, numpy::WRITEABLE, lies, axes);
        const auto [start, end] = reach_of(found);
        for (const Array &other : read) {
            const auto [first, last] = reach_of(other);
            if (other.data && start < last && first < end) return {};
        }
        return found;
    }

    // A new array, which nothing was written to; in this memory, if there is some.
    nanobind::object made(const NumpyType &of, void *memory = nullptr) const {
        auto *type = reinterpret_cast<PyTypeObject *>(of.type.ptr());
        PyObject *array =
            of.make(type, nanobind::object(dtype).release().ptr(), static_cast<int>(dimensions.size()),
                    dimensions.data(), order.empty() ? nullptr : strides.data(), memory,
                    memory ? numpy::C_CONTIGUOUS | numpy::ALIGNED | numpy::WRITEABLE : 0, nullptr);
        if (!array) throw nanobind::python_error();
        return nanobind::steal(array);
    }

    // Such an array with its axes as they lie in memory.
    nanobind::object laid(nanobind::handle array) const {
        return order.empty() ? nanobind::borrow(array) : array.attr("transpose")(as_it_lies);
    }

  private:
    nanobind::object dtype, as_it_lies;
    std::vector<int> order;
    std::vector<i64> lengths;                     // in the order of memory
    std::vector<Py_ssize_t> dimensions, strides;  // in that of the axes, the latter in bytes
    std::vector<Py_ssize_t> known;
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
        if (lies == Lies::IN_ORDER && !axes->are_in_order(array->nd) && !has_known_strides(array)) return {};
        return axes->view_of(array->data, bytes, element_bytes, array->nd);
    }

    bool has_known_strides(const numpy::Fields *array) const {
        return !known.empty() && std::equal(known.begin(), known.end(), array->strides, array->strides + array->nd);
    }

    std::size_t axis_at(std::size_t place) const {
        return order.empty() ? place : static_cast<std::size_t>(order[place]);
    }
};

}  // namespace ndpool
