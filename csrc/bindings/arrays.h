// NumPy's arrays: read where they lie, and made, without asking for a buffer, which takes longer than a small pool
// does.
#pragma once
#include <nanobind/nanobind.h>

#include <cstdint>
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
constexpr int C_CONTIGUOUS = 0x1, ALIGNED = 0x100;

}  // namespace numpy

// NumPy's type of arrays, and its function that makes one.
struct NumpyType {
    nanobind::object type, empty;
};

// C-contiguous arrays of one shape and dtype.
class ArrayLayout {
  public:
    ArrayLayout(nanobind::tuple shape, nanobind::object dtype) : shape(std::move(shape)), dtype(std::move(dtype)) {
        bytes = element_bytes = nanobind::cast<i64>(nanobind::getattr(this->dtype, "itemsize"));
        for (nanobind::handle length : this->shape) {
            lengths.push_back(nanobind::cast<i64>(length));
            if (lengths.back() < 0 || __builtin_mul_overflow(bytes, lengths.back(), &bytes))
                throw std::overflow_error("the array is too large");
        }
    }

    i64 elements() const { return bytes / element_bytes; }
    i64 bytes_of_element() const { return element_bytes; }

    // The memory of such an array; without data where it is of another type, shape, order or dtype. A dtype is known by
    // its identity, so that one of another byte order is another.
    Array memory_of(const NumpyType &of, nanobind::handle object) const {
        if (Py_TYPE(object.ptr()) != reinterpret_cast<PyTypeObject *>(of.type.ptr())) return {};
        const auto *array = reinterpret_cast<const numpy::Fields *>(object.ptr());
        constexpr int PLAIN = numpy::C_CONTIGUOUS | numpy::ALIGNED;
        if (array->descr != dtype.ptr() || (array->flags & PLAIN) != PLAIN) return {};
        if (array->nd != static_cast<int>(lengths.size())) return {};
        for (std::size_t d = 0; d < lengths.size(); ++d)
            if (array->dimensions[d] != lengths[d]) return {};
        return {array->data, bytes, element_bytes};
    }

    // A new array, which nothing was written to.
    nanobind::object made(const NumpyType &of) const {
        PyObject *arguments[] = {shape.ptr(), dtype.ptr()};
        nanobind::object array = nanobind::steal(PyObject_Vectorcall(of.empty.ptr(), arguments, 2, nullptr));
        if (!array.is_valid()) throw nanobind::python_error();
        return array;
    }

  private:
    nanobind::tuple shape;
    nanobind::object dtype;
    std::vector<i64> lengths;
    i64 bytes, element_bytes;
};

}  // namespace ndpool
