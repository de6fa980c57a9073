// A pool on arguments from Python: buffers and tensors become addresses, and the GIL is let go meanwhile.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "kinds/engine.h"

namespace ndpool {

namespace nb = nanobind;

// --- arguments ----------------------------------------------------------------------------------

enum class Access { READ, WRITE };

// The memory of an argument, for as long as the call lasts: of anything with a buffer; of a tensor, which has none but
// says its address and its bytes; or of a tuple (tensor, lengths, steps), which is a tensor that does not lie dense.
// That another tensor is dense in the right order is for the caller to know. None is no array. The sizes are checked by
// whoever takes it.
class Argument {
  public:
    Argument(nb::handle array, i64 element_bytes, Access access) {
        if (array.is_none()) return;
        if (PyTuple_Check(array.ptr()))
            ask_view(array, element_bytes);
        else if (PyObject_CheckBuffer(array.ptr()) || !ask_tensor(array, element_bytes))
            ask_buffer(array, access);
        memory.data = view.buf, memory.bytes = view.len, memory.element_bytes = view.itemsize;
    }
    ~Argument() { PyBuffer_Release(&view); }
    Argument(const Argument &) = delete;
    Argument &operator=(const Argument &) = delete;
    operator const Array &() const { return memory; }

  private:
    Py_buffer view{};  // with no owner where it is a tensor's: there is nothing to release
    Array memory;
    std::vector<i64> lengths, steps;  // of a view

    void ask_buffer(nb::handle array, Access access) {
        const int flags = access == Access::WRITE ? PyBUF_STRIDES | PyBUF_WRITABLE : PyBUF_STRIDES;
        if (PyObject_GetBuffer(array.ptr(), &view, flags) != 0) throw nb::python_error();
        if (PyBuffer_IsContiguous(&view, 'C')) return;
        lengths.assign(view.shape, view.shape + view.ndim);
        for (int d = 0; d < view.ndim; ++d) {
            if (view.strides[d] % view.itemsize != 0)
                throw std::invalid_argument("an array has strides that are not whole elements");
            steps.push_back(view.strides[d] / view.itemsize);
        }
        set_view();
    }

    // A tensor's elements are believed to be of the expected size; its bytes are compared.
    bool ask_tensor(nb::handle array, i64 element_bytes) {
        static PyObject *const data_ptr = PyUnicode_InternFromString("data_ptr");
        static PyObject *const nbytes = PyUnicode_InternFromString("nbytes");
        nb::object address = nb::steal(PyObject_CallMethodNoArgs(array.ptr(), data_ptr));
        if (!address.is_valid() && PyErr_ExceptionMatches(PyExc_AttributeError)) {
            PyErr_Clear();
            return false;
        }
        nb::object bytes = nb::steal(address.is_valid() ? PyObject_GetAttr(array.ptr(), nbytes) : nullptr);
        if (bytes.is_valid()) {
            view.buf = PyLong_AsVoidPtr(address.ptr());
            view.len = PyLong_AsSsize_t(bytes.ptr());
            view.itemsize = element_bytes;
        }
        if (PyErr_Occurred()) throw nb::python_error();
        return true;
    }

    void ask_view(nb::handle given, i64 element_bytes) {
        const auto parts = nb::cast<nb::tuple>(given);
        if (parts.size() != 3) throw std::invalid_argument("a view is a tensor, its lengths and its steps");
        lengths = nb::cast<std::vector<i64>>(parts[1]), steps = nb::cast<std::vector<i64>>(parts[2]);
        if (lengths.size() != steps.size() || !ask_tensor(parts[0], element_bytes))
            throw std::invalid_argument("a view is a tensor, its lengths and as many steps");
        set_view();
    }

    void set_view() {
        memory.dims = static_cast<int>(lengths.size()), memory.lengths = lengths.data(), memory.steps = steps.data();
    }
};

// --- calls --------------------------------------------------------------------------------------

// Runs f without the GIL. Where the interpreter has ended meanwhile, taking the GIL back ends this thread by unwinding
// its stack, which must not pass through destructors that forbid it: the thread waits for the process to end instead.
template <class F>
void without_gil(const F &f) {
    PyThreadState *state = PyEval_SaveThread();
    std::exception_ptr error;
    try {
        f();
    } catch (...) {
        error = std::current_exception();
    }
    try {
        PyEval_RestoreThread(state);
    } catch (...) {
        for (;;) pause();
    }
    if (error) std::rethrow_exception(error);
}

// The same for a pool. To let go of the GIL and take it back takes as long as a small pool does: some microseconds are
// not worth it.
template <class F>
void without_gil(const PlannedPool &pool, const F &f) {
    const i64 small = pool.adds_or_compares() ? 8192 : 1024;  // elements
    if (pool.inputs() + pool.outputs() < small) return f();
    without_gil(f);
}

// The value of a skipped cell in x and in y, and how many cells an output needs.
using SkipNumbers = std::optional<std::tuple<std::uint64_t, std::uint64_t, i64>>;

inline Skip skip_of(const SkipNumbers &given) {
    if (!given) return {};
    const auto [value, absent, min_count] = *given;
    return {true, value, absent, min_count};
}

// The operations of a pool on arguments from Python.
class BoundPool {
  public:
    BoundPool(Dims dims, std::string kind, std::string option, double parameter, std::string dtype, std::string result,
              std::string derivative, int winner_bytes, const SkipNumbers &skip, std::vector<i64> pooled)
        : pool({std::move(dims), std::move(kind), std::move(option), parameter, std::move(dtype), std::move(result),
                std::move(derivative), winner_bytes, skip_of(skip), std::move(pooled)}) {}

    void forward(nb::handle x, nb::handle y, int threads, const char *path) const {
        const Manner manner{threads, path};
        const Argument from = input(x), to(y, result(), Access::WRITE);
        without_gil([&] { pool.forward(from, to, manner); });
    }

    void linearize(nb::handle x, nb::handle y, nb::handle winners, int threads, const char *path) const {
        const Manner manner{threads, path};
        const Argument from = input(x), to(y, result(), Access::WRITE),
                       won(winners, pool.winner_bytes(), Access::WRITE);
        without_gil([&] { pool.linearize(from, to, won, manner); });
    }

    // push or pull: the derivative, or its transpose, of one array.
    template <auto OPERATION>
    void apply(nb::handle x, nb::handle y, nb::handle winners, nb::handle from, nb::handle to, int threads,
               const char *path) const {
        const Manner manner{threads, path};
        const Argument input = this->input(x), output = this->output(y), won = places(winners),
                       given = derivative(from), out(to, derivative(), Access::WRITE);
        without_gil([&] { (pool.*OPERATION)(input, output, won, given, out, manner); });
    }

    void jvp(nb::handle x, nb::handle t, nb::handle y, nb::handle dy, int threads, const char *path) const {
        const Manner manner{threads, path};
        const Argument from = input(x), tangent = derivative(t), to(y, result(), Access::WRITE),
                       change(dy, derivative(), Access::WRITE);
        without_gil([&] { pool.jvp(from, tangent, to, change, manner); });
    }

    void indices(nb::handle winners, nb::handle out, int threads) const {
        const Argument won = places(winners), to(out, 8, Access::WRITE);
        without_gil([&] { pool.indices(won, to, {threads, ""}); });
    }

    std::string path(const std::string &operation) const { return pool.path(operation); }
    std::vector<std::string> paths(const std::string &operation) const { return pool.paths(operation); }

    const PlannedPool pool;

  private:
    i64 result() const { return size_of(pool.result_type()); }
    i64 derivative() const { return size_of(pool.derivative_type()); }
    // Arguments that are read.
    Argument input(nb::handle x) const { return {x, size_of(pool.input_type()), Access::READ}; }
    Argument output(nb::handle y) const { return {y, result(), Access::READ}; }
    Argument places(nb::handle winners) const { return {winners, pool.winner_bytes(), Access::READ}; }
    Argument derivative(nb::handle t) const { return {t, derivative(), Access::READ}; }
};

}  // namespace ndpool
