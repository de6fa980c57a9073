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
#include "bindings/cuda.h"
#include "bindings/tensors.h"
#include "bindings/xla.h"
#include "kinds/boxes.h"
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

// A pool for small arrays of NumPy that are dense in one order of axes. It makes the arrays that it returns, unless it is
// given one to write to. Where an array is not what it was made for, the answer is None.
class ArrayPlan {
  public:
    // The shapes are those in memory, where the axes lie in this order; it is empty where that is the usual one.
    ArrayPlan(nb::object plan, nb::object type, nb::object empty, nb::tuple shape, nb::tuple y_shape,
              const std::vector<int> &order, nb::object dtype, nb::object result, nb::object derivative,
              nb::object place)
        : owner(std::move(plan)),
          pool(nb::cast<const BoundPool &>(owner).pool),
          numpy{std::move(type), std::move(empty)},
          x(shape, dtype, order),
          gx(shape, derivative, order),
          y(y_shape, result, order),
          g(y_shape, derivative, order),
          kept_x(shape, dtype),
          kept_y(y_shape, result),
          winners(y_shape, place) {
        if (x.elements() != pool.inputs() || y.elements() != pool.outputs())
            throw std::invalid_argument("the shapes are not the plan's");
    }

    nb::object forward(nb::handle array, nb::handle out) const {
        const Array from = x.memory_of(numpy, array);
        if (!from.data) return nb::none();
        const Result to(y, numpy, out, {from});
        if (to.memory.data) run([&] { pool.forward(from, to.memory, {}); });
        return to.array;
    }

    // y, and what the derivative keeps, as it lies in memory: x, a copy of y, the winners, with None for those that it
    // does not.
    nb::object linearize(nb::handle array) const {
        const Array from = x.memory_of(numpy, array);
        if (!from.data) return nb::none();
        const Residual &kept = pool.residual();
        nb::object to = y.made(numpy), value = kept.y ? kept_y.made(numpy) : nb::none(),
                   won = kept.winners ? winners.made(numpy) : nb::none();
        const Array made = y.memory_of(numpy, to);
        run([&] { pool.linearize(from, made, winners.memory_of(numpy, won), {}); });
        if (kept.y) std::memcpy(kept_y.memory_of(numpy, value).data, made.data, static_cast<std::size_t>(made.bytes));
        return nb::make_tuple(to, nb::make_tuple(kept.x ? x.laid(array) : nb::none(), value, won));
    }

    nb::object pull(nb::handle input, nb::handle output, nb::handle places, nb::handle cotangent,
                    nb::handle out) const {
        const Residual &kept = pool.residual();
        const Array given = g.memory_of(numpy, cotangent), from = kept_x.memory_of(numpy, input),
                    value = kept_y.memory_of(numpy, output), won = winners.memory_of(numpy, places);
        if (!given.data || (kept.x && !from.data) || (kept.y && !value.data) || (kept.winners && !won.data))
            return nb::none();
        const Result to(gx, numpy, out, {given, from, value, won});
        if (to.memory.data) run([&] { pool.pull(from, value, won, given, to.memory, {}); });
        return to.array;
    }

  private:
    nb::object owner;  // of the pool
    const PlannedPool &pool;
    NumpyType numpy;
    ArrayLayout x, gx, y, g, kept_x, kept_y, winners;

    // An array that is made, or the one that is given; None without memory where that is not fit to be written to.
    struct Result {
        nb::object array;
        Array memory;

        Result(const ArrayLayout &layout, const NumpyType &numpy, nb::handle given, std::initializer_list<Array> read)
            : array(given.is_none() ? layout.made(numpy) : nb::borrow(given)),
              memory(given.is_none() ? layout.memory_of(numpy, array) : layout.memory_to_write(numpy, given, read)) {
            if (!memory.data) array = nb::none();
        }
    };

    // To let go of the GIL and take it back would take as long as a very small pool does.
    template <class F>
    void run(const F &f) const {
        if (pool.inputs() + pool.outputs() < 256) return f();
        without_gil(f);
    }
};

// --- boxes ----------------------------------------------------------------------------------------

// The ends of a pool's interval.
class BoundBoxedPool {
  public:
    BoundBoxedPool(Dims dims, std::string kind, std::string option, double parameter, std::string dtype,
                   std::string result, std::string derivative, int winner_bytes, const SkipNumbers &skip,
                   std::vector<i64> pooled)
        : x_bytes(size_of(type_named(dtype))),
          y_bytes(size_of(type_named(result))),
          pool({std::move(dims), std::move(kind), std::move(option), parameter, std::move(dtype), std::move(result),
                std::move(derivative), winner_bytes, skip_of(skip), std::move(pooled)}) {}

    // None where the box is not in order, and else the pieces that are odd.
    nb::object bounds(nb::handle lo, nb::handle hi, nb::handle ylo, nb::handle yhi,
                      const std::optional<std::tuple<std::string, double, double, double, double, double>> &given,
                      int threads) const {
        EndsError error;
        if (given) {
            std::string size;
            std::tie(size, error.relative, error.per_size, error.floor, error.counted, error.least) = *given;
            error.any = true;
            error.size = size == "piece"    ? EndsError::Size::OF_PIECE
                         : size == "window" ? EndsError::Size::OF_WINDOW
                                            : EndsError::Size::NONE;
        }
        const Argument a(lo, x_bytes, Access::READ), b(hi, x_bytes, Access::READ), least(ylo, y_bytes, Access::WRITE),
            greatest(yhi, y_bytes, Access::WRITE);
        std::vector<i64> odd;
        bool in_order = false;
        without_gil([&] { in_order = pool.bounds(a, b, least, greatest, error, threads, odd); });
        return in_order ? nb::cast(odd) : nb::none();
    }
    i64 slabs_of_piece() const { return pool.slabs_of_piece(); }

  private:
    const i64 x_bytes, y_bytes;
    const BoxedPool pool;
};

// Windows over matrices, in lanes.
class BoundBoxes {
  public:
    BoundBoxes(nb::handle places, nb::handle real, i64 windows, i64 rows, i64 cells, i64 line, int lanes)
        : boxes(made(places, real, windows, rows, cells, line, lanes)) {}

    bool select(nb::handle lo, nb::handle hi, const std::string &dtype, nb::handle below, nb::handle above,
                int place_bytes, nb::handle slope, nb::handle bias, bool minimum, bool by_lo, bool constant,
                int threads) const {
        const Type type = checked_type(dtype, boxes.lanes());
        const i64 bytes = size_of(type), in = boxes.inputs(), out = boxes.outputs();
        if (place_bytes != 1 && place_bytes != 2 && place_bytes != 4)
            throw std::invalid_argument("place_bytes is none of 1, 2 and 4");
        const Argument a(lo, bytes, Access::READ), b(hi, bytes, Access::READ), p(below, place_bytes, Access::WRITE),
            q(above, place_bytes, Access::WRITE), s(slope, bytes, Access::WRITE), o(bias, bytes, Access::WRITE);
        const SelectLines lines{memory(a, in, bytes),
                                memory(b, in, bytes),
                                memory(p, out, place_bytes),
                                memory(q, out, place_bytes),
                                place_bytes,
                                memory(s, out, bytes),
                                memory(o, out, bytes),
                                minimum,
                                by_lo,
                                constant};
        bool in_order = false;
        without_gil([&] { in_order = boxes.select(type, lines, threads); });
        return in_order;
    }

    // None where the box is not in order, and else whether some window has no line.
    nb::object relax(const std::string &kind, nb::handle lo, nb::handle hi, const std::string &dtype, double parameter,
                     nb::handle below_slopes, nb::handle below_bias, nb::handle above_slopes, nb::handle above_bias,
                     bool minimum, bool by_lo, nb::handle at, nb::handle weights, nb::handle zeros, bool check,
                     int threads) const {
        const Type type = checked_type(dtype, dtype == "float32" ? 16 : 8);
        if (boxes.lanes() != 8) throw std::invalid_argument("these kinds have 8 lanes");
        if (kind != "lp" && kind != "smooth_max" && kind != "max")
            throw std::invalid_argument("'" + kind + "' is none of 'max', 'smooth_max' and 'lp'");
        if (kind == "max" && !(parameter == 0 || parameter == 1 || parameter == 2))
            throw std::invalid_argument("a maximum is drawn from the hi of number 0, 1 or 2");
        const i64 bytes = size_of(type), in = boxes.inputs(), out = boxes.outputs();
        const Argument a(lo, bytes, Access::READ), b(hi, bytes, Access::READ), point(at, 8, Access::READ),
            mixed(weights, 8, Access::READ), padded(zeros, 8, Access::READ), below(below_slopes, bytes, Access::WRITE),
            below_at(below_bias, bytes, Access::WRITE), above(above_slopes, bytes, Access::WRITE),
            above_at(above_bias, bytes, Access::WRITE);
        auto doubles = [&](const Array &array, i64 count) {
            return array.is_given() ? static_cast<double *>(memory(array, count, 8)) : nullptr;
        };
        const i64 all = out * boxes.taps();
        const CellLines lines{memory(a, in, bytes),
                              memory(b, in, bytes),
                              minimum,
                              parameter,
                              by_lo,
                              doubles(point, in),
                              doubles(mixed, in),
                              doubles(padded, boxes.windows()),
                              memory(below, all, bytes),
                              memory(below_at, out, bytes),
                              memory(above, all, bytes),
                              memory(above_at, out, bytes)};
        bool in_order = false, is_odd = false;
        const Boxes::Kind which = kind == "lp"           ? Boxes::Kind::LP
                                  : kind == "smooth_max" ? Boxes::Kind::SMOOTH_MAX
                                                         : Boxes::Kind::MAX;
        without_gil([&] { in_order = boxes.relax(which, type, lines, check, threads, is_odd); });
        return in_order ? nb::cast(is_odd) : nb::none();
    }

  private:
    const Boxes boxes;

    static Boxes made(nb::handle places, nb::handle real, i64 windows, i64 rows, i64 cells, i64 line, int lanes) {
        const Argument at(places, 8, Access::READ), is(real, 1, Access::READ);
        const Array &there = is;
        if (windows < 0 || (windows && there.bytes % windows)) throw std::invalid_argument("real has other windows");
        const i64 taps = windows ? there.bytes / windows : 1;
        return Boxes(static_cast<const i64 *>(memory(at, taps * windows, 8)),
                     static_cast<const bool *>(memory(is, taps * windows, 1)), taps, windows, rows, cells, line, lanes);
    }
    static void *memory(const Array &array, i64 elements, i64 bytes) {
        if (array.steps || array.element_bytes != bytes || array.bytes != elements * bytes)
            throw std::invalid_argument("an array has " + std::to_string(array.bytes) + " bytes; expected " +
                                        std::to_string(elements) + " dense elements of " + std::to_string(bytes));
        return array.data;
    }
    static Type checked_type(const std::string &dtype, int lanes) {
        if ((dtype != "float32" || lanes != 16) && (dtype != "float64" || lanes != 8))
            throw std::invalid_argument("boxes in lanes are of float32 in 16 or of float64 in 8");
        return type_named(dtype);
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
    level_in_use();  // an import fails where this processor has none of the levels
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
        .def(nb::init<nb::object, nb::object, nb::object, nb::tuple, nb::tuple, std::vector<int>, nb::object,
                      nb::object, nb::object, nb::object>(),
             nb::arg("plan"), nb::arg("array"), nb::arg("empty"), nb::arg("shape"), nb::arg("y_shape"),
             nb::arg("order"), nb::arg("dtype"), nb::arg("result"), nb::arg("derivative"), nb::arg("place"))
        .def("forward", &ArrayPlan::forward, nb::arg("x").none(), nb::arg("out").none())
        .def("linearize", &ArrayPlan::linearize, nb::arg("x").none())
        .def("pull", &ArrayPlan::pull, nb::arg("x").none(), nb::arg("y").none(), nb::arg("winners").none(),
             nb::arg("g").none(), nb::arg("out").none());
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
    nb::class_<BoundBoxedPool>(m, "BoxedPool", "A plan over boxes: its results at both ends, rounded outward.")
        .def(nb::init<Dims, std::string, std::string, double, std::string, std::string, std::string, int,
                      const SkipNumbers &, std::vector<i64>>(),
             nb::arg("dims"), nb::arg("kind"), nb::arg("option"), nb::arg("parameter"), nb::arg("dtype"),
             nb::arg("result"), nb::arg("derivative"), nb::arg("winner_bytes"), nb::arg("skip") = nb::none(),
             nb::arg("pooled") = std::vector<i64>())
        .def("bounds", &BoundBoxedPool::bounds, nb::arg("lo"), nb::arg("hi"), nb::arg("ylo"), nb::arg("yhi"),
             nb::arg("error").none(), keywords, threads)
        .def("slabs_of_piece", &BoundBoxedPool::slabs_of_piece,
             "How many slabs, along the dimensions before the pooled ones, are worked on at a time.");
    nb::class_<BoundBoxes>(m, "BoxWindows",
                           "The windows of a pool over matrices of (rows, cells), one a lane of the engine's registers.")
        .def(nb::init<nb::handle, nb::handle, i64, i64, i64, i64, int>(), nb::arg("places"), nb::arg("real"),
             nb::arg("windows"), nb::arg("rows"), nb::arg("cells"), nb::arg("line"), nb::arg("lanes"))
        .def("select", &BoundBoxes::select, nb::arg("lo"), nb::arg("hi"), nb::arg("dtype"), nb::arg("below"),
             nb::arg("above"), nb::arg("place_bytes"), nb::arg("slope"), nb::arg("bias"), keywords, nb::arg("minimum"),
             nb::arg("by_lo"), nb::arg("constant"), threads)
        .def("relax", &BoundBoxes::relax, nb::arg("kind"), nb::arg("lo"), nb::arg("hi"), nb::arg("dtype"),
             nb::arg("parameter"), nb::arg("below_slopes"), nb::arg("below_bias"), nb::arg("above_slopes"),
             nb::arg("above_bias"), keywords, nb::arg("minimum"), nb::arg("by_lo") = false, nb::arg("at") = nb::none(),
             nb::arg("weights") = nb::none(), nb::arg("zeros") = nb::none(), nb::arg("check"), threads);
    bind_cuda(m);
    bind_xla(m);
}
