// What Python sees of the engine: buffers and tensors become addresses, names become arguments, errors become
// exceptions.
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

#include "base/threads.h"
#include "bindings/arrays.h"
#include "bindings/tensors.h"
#include "bindings/xla.h"
#include "kinds/engine.h"
#include "kinds/levels.h"

namespace nb = nanobind;
using namespace ndpool;

namespace {

// --- arrays -------------------------------------------------------------------------------------

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

// The value of a skipped cell in x and in y, and how many cells an output needs.
using SkipNumbers = std::optional<std::tuple<std::uint64_t, std::uint64_t, i64>>;

Skip skip_of(const SkipNumbers &given) {
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

// --- tensors that the engine makes ---------------------------------------------------------------

// A pool for tensors of one layout, which makes the tensors that it returns. Where a tensor is not what it was made
// for, or there is no memory for a result, the answer is None, and the caller finds another way or the words.
class TensorPlan {
  public:
    TensorPlan(nb::object plan, nb::object type, const std::vector<i64> &shape, const std::vector<i64> &strides,
               const std::vector<i64> &y_shape, const std::vector<i64> &y_strides, const std::string &dtype,
               const std::string &result)
        : owner(std::move(plan)),
          pool(nb::cast<const BoundPool &>(owner).pool),
          type(std::move(type)),
          x(shape, strides, dtype),
          y(y_shape, y_strides, result),
          g(y_shape, y_strides, dtype),
          winners(y_shape, y_strides, winner_type()),
          is_usual(x.is_usual(shape.size()) && y.is_usual(shape.size())) {
        if (!this->type.table) throw std::invalid_argument("the type shares no tensors in C");
        if (x.elements() != pool.inputs() || y.elements() != pool.outputs())
            throw std::invalid_argument("the shapes are not the plan's");
        if (x.element_bytes() != size_of(pool.input_type()) || y.element_bytes() != size_of(pool.result_type()))
            throw std::invalid_argument("the types are not the plan's");
    }

    // Whether a tensor is what the plan was made for.
    bool takes(nb::handle tensor) const { return x.memory_of(type, tensor).data != nullptr; }

    nb::object forward(nb::handle tensor, int threads) const {
        const Manner manner{threads, ""};
        const Array from = x.memory_of(type, tensor);
        if (!from.data) return nb::none();
        return y.made(type, [&](const Array &to) { without_gil([&] { pool.forward(from, to, manner); }); });
    }

    // y and the winners, which are None where the pool keeps none.
    nb::object linearize(nb::handle tensor, int threads) const {
        const Manner manner{threads, ""};
        const Array from = x.memory_of(type, tensor);
        if (!from.data) return nb::none();
        if (!pool.winner_bytes()) return nb::make_tuple(forward(tensor, threads), nb::none());
        nb::object won;
        nb::object value = y.made(type, [&](const Array &to) {
            won = winners.made(
                type, [&](const Array &places) { without_gil([&] { pool.linearize(from, to, places, manner); }); });
        });
        if (value.is_none() || won.is_none()) return nb::none();
        return nb::make_tuple(value, won);
    }

    nb::object pull(nb::handle input, nb::handle output, nb::handle places, nb::handle cotangent, int threads) const {
        const Manner manner{threads, ""};
        const Residual &kept = pool.residual();
        // A cotangent is often one number, repeated.
        const Array given = g.memory_of(type, cotangent, is_usual);
        const Array from = kept.x ? x.memory_of(type, input) : Array{},
                    value = kept.y ? y.memory_of(type, output) : Array{},
                    won = kept.winners ? winners.memory_of(type, places) : Array{};
        if (!given.data || (kept.x && !from.data) || (kept.y && !value.data) || (kept.winners && !won.data))
            return nb::none();
        return x.made(type,
                      [&](const Array &to) { without_gil([&] { pool.pull(from, value, won, given, to, manner); }); });
    }

  private:
    nb::object owner;  // of the pool
    const PlannedPool &pool;
    TensorType type;
    TensorLayout x, y, g, winners;  // gx is as x
    bool is_usual;                  // whether the axes lie in memory as they are counted

    // Where no winners are kept, no tensor of theirs is ever asked for or made.
    std::string winner_type() const {
        return "uint" + std::to_string(8 * (pool.winner_bytes() ? pool.winner_bytes() : 1));
    }
};

// --- arrays that the engine makes -----------------------------------------------------------------

// A pool for small arrays of NumPy in the usual order, which makes the arrays that it returns. Where an array is not
// what it was made for, the answer is None.
class ArrayPlan {
  public:
    ArrayPlan(nb::object plan, nb::object type, nb::object empty, nb::tuple shape, nb::tuple y_shape, nb::object dtype,
              nb::object result, nb::object derivative, nb::object place)
        : owner(std::move(plan)),
          pool(nb::cast<const BoundPool &>(owner).pool),
          numpy{std::move(type), std::move(empty)},
          x(shape, dtype),
          gx(shape, derivative),
          y(y_shape, result),
          g(y_shape, derivative),
          winners(y_shape, place) {
        if (x.elements() != pool.inputs() || y.elements() != pool.outputs())
            throw std::invalid_argument("the shapes are not the plan's");
    }

    nb::object forward(nb::handle array) const {
        const Array from = x.memory_of(numpy, array);
        if (!from.data) return nb::none();
        nb::object to = y.made(numpy);
        run([&] { pool.forward(from, y.memory_of(numpy, to), {}); });
        return to;
    }

    // y, and what the derivative keeps: x, a copy of y, the winners, with None for those that it does not.
    nb::object linearize(nb::handle array) const {
        const Array from = x.memory_of(numpy, array);
        if (!from.data) return nb::none();
        const Residual &kept = pool.residual();
        nb::object to = y.made(numpy), value = kept.y ? y.made(numpy) : nb::none(),
                   won = kept.winners ? winners.made(numpy) : nb::none();
        const Array made = y.memory_of(numpy, to);
        run([&] { pool.linearize(from, made, winners.memory_of(numpy, won), {}); });
        if (kept.y) std::memcpy(y.memory_of(numpy, value).data, made.data, static_cast<std::size_t>(made.bytes));
        return nb::make_tuple(to, nb::make_tuple(kept.x ? nb::borrow(array) : nb::none(), value, won));
    }

    nb::object pull(nb::handle input, nb::handle output, nb::handle places, nb::handle cotangent) const {
        const Residual &kept = pool.residual();
        const Array given = g.memory_of(numpy, cotangent), from = x.memory_of(numpy, input),
                    value = y.memory_of(numpy, output), won = winners.memory_of(numpy, places);
        if (!given.data || (kept.x && !from.data) || (kept.y && !value.data) || (kept.winners && !won.data))
            return nb::none();
        nb::object to = gx.made(numpy);
        run([&] { pool.pull(from, value, won, given, gx.memory_of(numpy, to), {}); });
        return to;
    }

  private:
    nb::object owner;  // of the pool
    const PlannedPool &pool;
    NumpyType numpy;
    ArrayLayout x, gx, y, g, winners;

    // To let go of the GIL and take it back would take as long as a very small pool does.
    template <class F>
    void run(const F &f) const {
        if (pool.inputs() + pool.outputs() < 256) return f();
        without_gil(f);
    }
};

// --- tuples ---------------------------------------------------------------------------------------

bool are_same(nb::tuple a, nb::tuple b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
        if (PyTuple_GET_ITEM(a.ptr(), static_cast<Py_ssize_t>(i)) !=
            PyTuple_GET_ITEM(b.ptr(), static_cast<Py_ssize_t>(i)))
            return false;
    return true;
}

}  // namespace

NB_MODULE(_engine, m) {
    nb::set_leak_warnings(false);  // pools that live to the end of the program are no leak
    m.def("are_same", &are_same, nb::arg("a"), nb::arg("b"), "Whether two tuples have the same objects in them.");
    m.def("levels", &levels_here, "The instruction levels of this processor, the best one last.");
    m.def("level", &level_in_use, "The instruction level in use.");
    m.def("set_level", &use_level, nb::arg("name"), "Use another instruction level.");
    m.def("get_num_threads", &get_num_threads, "How many threads a call may use.");
    m.def("set_num_threads", &set_num_threads, nb::arg("n"), "Let a call use n threads.");
    auto keywords = nb::kw_only();
    auto threads = nb::arg("threads") = 0;
    auto path = nb::arg("path") = "";
    nb::class_<BoundPool>(m, "Plan", "A kind over a window over a shape, for one dtype.")
        .def(nb::init<Dims, std::string, std::string, double, std::string, std::string, std::string, int,
                      const SkipNumbers &, std::vector<i64>>(),
             nb::arg("dims"), nb::arg("kind"), nb::arg("option"), nb::arg("parameter"), nb::arg("dtype"),
             nb::arg("result"), nb::arg("derivative"), nb::arg("winner_bytes"), nb::arg("skip") = nb::none(),
             nb::arg("pooled") = std::vector<i64>())
        .def("forward", &BoundPool::forward, nb::arg("x"), nb::arg("y"), keywords, threads, path, "Write y.")
        .def("linearize", &BoundPool::linearize, nb::arg("x"), nb::arg("y"), nb::arg("winners").none(), keywords,
             threads, path, "Write y and, where the derivative keeps them, the winners; else `winners` is None.")
        .def("push", &BoundPool::apply<&PlannedPool::push>, nb::arg("x").none(), nb::arg("y").none(),
             nb::arg("winners").none(), nb::arg("t"), nb::arg("dy"), keywords, threads, path,
             "Write dy = J t, from the arrays that the derivative keeps; the others may be None and are not looked at.")
        .def("pull", &BoundPool::apply<&PlannedPool::pull>, nb::arg("x").none(), nb::arg("y").none(),
             nb::arg("winners").none(), nb::arg("g"), nb::arg("gx"), keywords, threads, path,
             "Write gx = J^T g, likewise.")
        .def("jvp", &BoundPool::jvp, nb::arg("x"), nb::arg("t"), nb::arg("y"), nb::arg("dy"), keywords, threads, path,
             "Write y and dy = J t, in one go.")
        .def("indices", &BoundPool::indices, nb::arg("winners"), nb::arg("indices"), keywords, threads,
             "Write each winner's flat row-major index over the pooled axes.")
        .def("path", &BoundPool::path, nb::arg("operation"),
             "The way that 'forward', 'linearize', 'push', 'pull' or 'jvp' goes, by its name.")
        .def("paths", &BoundPool::paths, nb::arg("operation"), "All ways that it can go, the engine's choice first.");
    nb::class_<ArrayPlan>(m, "ArrayPlan", "A plan for small arrays of NumPy, which makes those that it returns.")
        .def(nb::init<nb::object, nb::object, nb::object, nb::tuple, nb::tuple, nb::object, nb::object, nb::object,
                      nb::object>(),
             nb::arg("plan"), nb::arg("array"), nb::arg("empty"), nb::arg("shape"), nb::arg("y_shape"),
             nb::arg("dtype"), nb::arg("result"), nb::arg("derivative"), nb::arg("place"))
        .def("forward", &ArrayPlan::forward, nb::arg("x").none())
        .def("linearize", &ArrayPlan::linearize, nb::arg("x").none())
        .def("pull", &ArrayPlan::pull, nb::arg("x").none(), nb::arg("y").none(), nb::arg("winners").none(),
             nb::arg("g").none());
    nb::class_<TensorPlan>(m, "TensorPlan", "A plan for tensors of one layout, which makes those that it returns.")
        .def(nb::init<nb::object, nb::object, std::vector<i64>, std::vector<i64>, std::vector<i64>, std::vector<i64>,
                      const std::string &, const std::string &>(),
             nb::arg("plan"), nb::arg("tensor"), nb::arg("size"), nb::arg("strides"), nb::arg("y_size"),
             nb::arg("y_strides"), nb::arg("dtype"), nb::arg("result"))
        .def("takes", &TensorPlan::takes, nb::arg("x").none())
        .def("forward", &TensorPlan::forward, nb::arg("x"), threads)
        .def("linearize", &TensorPlan::linearize, nb::arg("x"), threads)
        .def("pull", &TensorPlan::pull, nb::arg("x").none(), nb::arg("y").none(), nb::arg("winners").none(),
             nb::arg("g"), threads);
    bind_xla(m);
}
