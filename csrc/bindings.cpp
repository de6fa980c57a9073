// What Python sees of the engine. Nothing is computed here: sizes are checked, the GIL is released, a level is chosen.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine.h"
#include "tensors.h"
#include "threads.h"

namespace nb = nanobind;
using namespace ndpool;

namespace {

// --- levels -------------------------------------------------------------------------------------

using Run = void (*)(const Plan &, const Call &);

std::vector<std::string> levels_here() {
    std::vector<std::string> levels{"baseline"};
#if defined(NDPOOL_X86_LEVELS)
    // Every extension that a level is compiled with (CMakeLists.txt), as each includes the one before.
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2")) return levels;
    levels.push_back("avx2");
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq"))
        levels.push_back("avx512");
#endif
    return levels;
}

Run run_at(const std::string &level) {
    auto here = levels_here();
    if (std::find(here.begin(), here.end(), level) == here.end())
        throw std::invalid_argument("instruction level '" + level + "' is not one of this processor's");
#if defined(NDPOOL_X86_LEVELS)
    if (level == "avx512") return avx512::run;
    if (level == "avx2") return avx2::run;
#endif
    return baseline::run;
}

std::string level = levels_here().back();
Run run = run_at(level);

void set_level(const std::string &name) {
    run = run_at(name);
    level = name;
}

// --- types --------------------------------------------------------------------------------------

Type type_of(const std::string &name) {
    static const char *names[] = {"int8",  "uint8",  "int16",   "uint16",   "int32",   "uint32",
                                  "int64", "uint64", "float16", "bfloat16", "float32", "float64"};
    for (int i = 0; i < 12; ++i)
        if (name == names[i]) return static_cast<Type>(i);
    throw std::invalid_argument("the engine has no type '" + name + "'");
}

// --- arrays -------------------------------------------------------------------------------------

// The memory of a C-contiguous array with just so many elements of such a size: of anything with a buffer, or of a tensor,
// which has none but says its address and its bytes. That a tensor is dense in the right order is for the caller to know.
class Memory {
  public:
    Memory(nb::handle array, const char *name, i64 elements, i64 size, bool writable) {
        if (PyObject_CheckBuffer(array.ptr()) || !ask_tensor(array, size)) {
            if (PyObject_GetBuffer(array.ptr(), &view, writable ? PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE : PyBUF_C_CONTIGUOUS) != 0)
                throw nb::python_error();
        }
        bool aligned = view.len == 0 || reinterpret_cast<std::uintptr_t>(view.buf) % static_cast<std::uintptr_t>(size) == 0;
        bool there = view.len == 0 || view.buf != nullptr;
        if (view.itemsize != size || view.len != elements * size || !aligned || !there) {
            std::string message = std::string(name) + " has " + std::to_string(view.len) + " bytes in elements of " +
                                  std::to_string(view.itemsize) + (there ? "" : " and no memory") + "; expected " +
                                  std::to_string(elements) + " elements of " + std::to_string(size) +
                                  (aligned ? "" : ", aligned to their size");
            PyBuffer_Release(&view);
            throw std::invalid_argument(message);
        }
    }
    ~Memory() { PyBuffer_Release(&view); }
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;
    void *data() const { return view.buf; }

  private:
    Py_buffer view{};  // with no owner where it is a tensor's: there is nothing to release

    bool ask_tensor(nb::handle array, i64 size) {
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
            view.itemsize = size;
        }
        if (PyErr_Occurred()) throw nb::python_error();
        return true;
    }
};

// --- plans --------------------------------------------------------------------------------------

i64 product(i64 a, i64 b) {
    i64 result;
    if (__builtin_mul_overflow(a, b, &result)) throw std::overflow_error("the array has more than 2**63 elements");
    return result;
}

Axis axis_of(const std::vector<i64> &numbers) {
    // So that no sum or product of a few of them, or of their bytes, overflows.
    for (i64 number : numbers)
        if (number > i64(1) << 40) throw std::overflow_error("a number of the window is above 2**40");
    Axis axis{numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6], numbers[7] != 0};
    bool sound = axis.length >= 1 && axis.output >= 1 && axis.kernel >= 1 && axis.stride >= 1 && axis.dilation >= 1 &&
                 axis.pad_lo >= 0 && axis.pad_hi >= 0 && (!axis.adaptive || (axis.pad_lo == 0 && axis.pad_hi == 0));
    if (sound && axis.adaptive) {
        product(axis.length, axis.output + 1);
        sound = axis.kernel >= std::min(axis.length, axis.length / axis.output + 2);
    } else if (sound) {
        // The last window starts no later than the padded end.
        sound = product(axis.output - 1, axis.stride) <= axis.length + axis.pad_lo + axis.pad_hi;
    }
    if (product(axis.dilation, axis.kernel) > i64(1) << 40) throw std::overflow_error("a window reaches over more than 2**40 cells");
    if (!sound) throw std::invalid_argument("the numbers of an axis do not make a window");
    return axis;
}

bool same_for_all(const Axis &axis, bool real) {
    if (axis.adaptive) return false;
    // Only the windows at the two ends can differ from the kernel.
    auto count = [&](i64 o) { return real ? axis.taps(o).count : axis.counted(o); };
    return count(0) == axis.kernel && count(axis.output - 1) == axis.kernel;
}

bool has_padding(const Axis &axis) {
    if (axis.adaptive) return false;
    auto padded = [&](i64 o) { return axis.counted(o) != axis.taps(o).count; };
    return padded(0) || padded(axis.output - 1) || axis.pad_lo > 0 || axis.pad_hi > 0;
}

// Pooled neighbours that have one window each, over all their cells, are one dimension: the cells lie side by side, and a
// place in one window is the same place in the other.
std::vector<std::vector<i64>> joined(const std::vector<std::vector<i64>> &dims) {
    auto is_one_window = [](const std::vector<i64> &dim) {
        if (dim.size() != 8) return false;
        const Axis axis = axis_of(dim);
        return axis.output == 1 && axis.kernel == axis.length && axis.dilation == 1 && axis.pad_lo == 0 && axis.pad_hi == 0;
    };
    std::vector<std::vector<i64>> out;
    for (const auto &dim : dims) {
        if (out.empty() || !is_one_window(out.back()) || !is_one_window(dim)) {
            out.push_back(dim);
            continue;
        }
        const i64 cells = product(out.back()[0], dim[0]);
        out.back() = {cells, 1, cells, cells, 1, 0, 0, 0};
    }
    return out;
}

// One number for a dimension that is carried along, the eight of an Axis for one that is pooled.
Plan make_plan(const std::vector<std::vector<i64>> &given) {
    Plan plan{};
    const auto dims = joined(given);
    if (dims.size() > MAX_DIMS) throw std::invalid_argument("too many dimensions");
    int last = -1;
    for (int d = 0; d < static_cast<int>(dims.size()); ++d) {
        if (dims[d].size() == 8) last = d;
        else if (dims[d].size() != 1 || dims[d][0] < 0) throw std::invalid_argument("a dimension is one number or eight");
    }
    if (last < 0) throw std::invalid_argument("no dimension is pooled");
    plan.outer = plan.inner = plan.in_rows = plan.out_rows = plan.cells = plan.outer_cells = 1;
    for (std::size_t d = last + 1; d < dims.size(); ++d) plan.inner = product(plan.inner, dims[d][0]);
    plan.same_count = plan.same_real = true;
    for (int d = 0; d <= last; ++d) {
        if (dims[d].size() == 1 && plan.axis_count == 0) {
            plan.outer = product(plan.outer, dims[d][0]);
            continue;
        }
        Dim dim{-1, 0, 0, 0};
        if (dims[d].size() == 8) {
            Axis axis = axis_of(dims[d]);
            plan.same_count &= same_for_all(axis, false);
            plan.same_real &= same_for_all(axis, true);
            plan.padded |= has_padding(axis);
            if (d < last) plan.outer_cells = product(plan.outer_cells, axis.kernel);
            plan.cells = product(plan.cells, axis.kernel);
            dim = {plan.axis_count, axis.length, axis.output, 0};
            plan.axes[plan.axis_count++] = axis;
        } else {
            dim.in_count = dim.out_count = dims[d][0];
        }
        if (d == last) break;
        plan.in_rows = product(plan.in_rows, dim.in_count);
        plan.out_rows = product(plan.out_rows, dim.out_count);
        plan.dims[plan.dim_count++] = dim;
    }
    plan.in_row = product(plan.last().length, plan.inner);
    plan.out_row = product(plan.last().output, plan.inner);
    plan.in_slab = product(plan.in_rows, plan.in_row);
    plan.out_slab = product(plan.out_rows, plan.out_row);
    i64 stride = plan.in_row;
    for (int d = plan.dim_count - 1; d >= 0; --d) {
        plan.dims[d].in_stride = stride;
        stride *= plan.dims[d].in_count;
    }
    product(product(plan.outer, plan.in_slab), 16);
    product(product(plan.outer, plan.out_slab), 16);
    if (plan.outer_cells > i64(1) << 40) throw std::overflow_error("a window has more than 2**40 rows");
    return plan;
}

// Runs f without the GIL. Where the interpreter has ended meanwhile, taking the GIL back ends this thread by unwinding its
// stack, which must not pass through destructors that forbid it: the thread waits for the process to end instead.
template <class F>
void without_gil(const F &f) {
    PyThreadState *state = PyEval_SaveThread();
    f();
    try {
        PyEval_RestoreThread(state);
    } catch (...) {
        for (;;) pause();
    }
}

// A kind over a window over a shape, for one dtype.
class EnginePlan {
  public:
    EnginePlan(const std::vector<std::vector<i64>> &dims, const std::string &kind, const std::string &type,
               const std::string &derivative, double parameter, const std::string &option)
        : plan(make_plan(dims)) {
        call.type = type_of(type);
        call.derivative = type_of(derivative);
        if (call.derivative != (call.type < Type::F16 ? Type::F64 : call.type))
            throw std::invalid_argument("derivatives of floats are of their own type, those of integers float64");
        result = call.type;
        auto one_of = [&](std::initializer_list<const char *> options) {
            if (std::find(options.begin(), options.end(), option) == options.end())
                throw std::invalid_argument("'" + kind + "' has no option '" + option + "'");
        };
        if (kind == "max" || kind == "min") {
            one_of({"first", "split", "all"});
            family = Family::EXTREME;
            call.minimum = kind == "min";
            call.ties = option == "first" ? Ties::FIRST : option == "split" ? Ties::SPLIT : Ties::ALL;
        } else if (kind == "sum" || kind == "avg") {
            if (kind == "sum")
                one_of({""});
            else
                one_of({"counted", "real", "fixed"});
            if (option == "fixed" && !(parameter >= 1)) throw std::invalid_argument("the divisor must be at least 1");
            family = Family::SUM;
            call.count = kind == "sum"        ? Count::NONE
                         : option == "real"    ? Count::REAL
                         : option == "counted" ? Count::COUNTED
                                               : Count::FIXED;
            call.divisor = parameter;
            if (call.type < Type::F16) result = kind == "avg" ? Type::F64 : Type::I64;
        } else if (kind == "smooth_max" || kind == "lp") {
            if (kind == "lp")
                one_of({""});
            else
                one_of({"counted", "real"});
            family = Family::SMOOTH;
            call.lp = kind == "lp";
            if (call.type < Type::F16) throw std::invalid_argument("'" + kind + "' is computed in floats; convert integers to float64");
            if (call.lp ? !(parameter >= 1) : parameter == 0 || !(parameter - parameter == 0))
                throw std::invalid_argument(call.lp ? "p must be at least 1" : "beta must be finite and not 0");
            call.parameter = parameter;
            call.count_pad = option == "counted";
            result = call.derivative;
        } else {
            throw std::invalid_argument("the engine has no kind '" + kind + "'");
        }
        call.winner_bytes = plan.cells <= 256 ? 1 : plan.cells <= 65536 ? 2 : 4;
        inputs = plan.outer * plan.in_slab;
        outputs = plan.outer * plan.out_slab;
    }

    int winner_bytes() const { return call.winner_bytes; }

    void forward(nb::handle x, nb::handle y, int forced) const {
        Memory from(x, "x", inputs, size_of(call.type), false), to(y, "y", outputs, size_of(result), true);
        forward_at(from.data(), to.data(), forced);
    }

    void forward_with_winners(nb::handle x, nb::handle y, nb::handle winners, int forced) const {
        check_winners();
        Memory from(x, "x", inputs, size_of(call.type), false), to(y, "y", outputs, size_of(result), true),
            places(winners, "winners", outputs, call.winner_bytes, true);
        forward_with_winners_at(from.data(), to.data(), places.data(), forced);
    }

    void indices(nb::handle winners, nb::handle out) const {
        check_winners();
        Memory places(winners, "winners", outputs, call.winner_bytes, false), to(out, "indices", outputs, 8, true);
        Call c = call;
        c.op = Op::EXPAND, c.winners_in = places.data(), c.indices = static_cast<i64 *>(to.data());
        execute(c);
    }

    void jvp(nb::handle x, nb::handle t, nb::handle y, nb::handle dy, int forced) const {
        i64 size = size_of(call.derivative);
        Memory from(x, "x", inputs, size_of(call.type), false), tangent(t, "t", inputs, size, false),
            to(y, "y", outputs, size_of(result), true), change(dy, "dy", outputs, size, true);
        Call c = call;
        c.x = from.data(), c.t = tangent.data(), c.y = to.data(), c.dy = change.data(), c.forced = forced;
        if (family == Family::SMOOTH) {
            c.op = Op::SMOOTH;
            execute(c);
        } else if (family == Family::EXTREME && call.ties == Ties::FIRST && places_fit()) {
            c.op = Op::WINNERS;
            execute(c);
        } else if (family == Family::EXTREME) {
            c.t = nullptr, c.op = Op::VALUE;
            execute(c);
            c.t = tangent.data(), c.y_in = to.data(), c.op = Op::TIES_JVP;
            execute(c);
        } else {
            c.op = Op::SUM;
            execute(c);
            c.x = tangent.data(), c.y = change.data(), c.type = call.derivative;
            execute(c);
        }
    }

    // What of x, y and the winners is needed depends on the kind; the rest is None.
    void vjp(nb::handle x, nb::handle y, nb::handle winners, nb::handle g, nb::handle gx, int forced) const {
        i64 size = size_of(call.derivative);
        Memory cotangent(g, "g", outputs, size, false), to(gx, "gx", inputs, size, true);
        std::optional<Memory> from, value, places;
        if (vjp_reads_winners()) check_winners(), places.emplace(winners, "winners", outputs, call.winner_bytes, false);
        if (vjp_reads_x()) from.emplace(x, "x", inputs, size_of(call.type), false);
        if (vjp_reads_y()) value.emplace(y, "y", outputs, size_of(result), false);
        auto data = [](const std::optional<Memory> &memory) { return memory ? memory->data() : nullptr; };
        vjp_at(data(from), data(value), data(places), cotangent.data(), to.data(), forced);
    }

    // --- the same on memory that is known to be right ---

    bool vjp_reads_winners() const { return family == Family::EXTREME && call.ties == Ties::FIRST; }
    bool vjp_reads_x() const { return family != Family::SUM && !vjp_reads_winners(); }
    bool vjp_reads_y() const { return family == Family::EXTREME && call.ties != Ties::FIRST; }

    bool has_sizes(i64 x, i64 y) const { return x == inputs && y == outputs; }
    bool has_types(i64 x, i64 y) const { return x == size_of(call.type) && y == size_of(result); }

    void forward_at(const void *x, void *y, int forced = -1) const {
        Call c = call;
        c.op = family == Family::EXTREME ? Op::VALUE : family == Family::SUM ? Op::SUM : Op::SMOOTH;
        c.x = x, c.y = y, c.forced = forced;
        execute(c);
    }

    void forward_with_winners_at(const void *x, void *y, void *winners, int forced = -1) const {
        Call c = call;
        c.op = places_fit() ? Op::WINNERS : Op::VALUE, c.x = x, c.y = y, c.winners = winners, c.forced = forced;
        execute(c);
        if (places_fit()) return;
        c.op = Op::FIND_WINNERS, c.y_in = y;
        execute(c);
    }

    void vjp_at(const void *x, const void *y, const void *winners, const void *g, void *gx, int forced = -1) const {
        Call c = call;
        c.op = family == Family::SUM      ? Op::SUM_VJP
               : family == Family::SMOOTH ? Op::SMOOTH_VJP
               : vjp_reads_winners()      ? Op::WINNERS_VJP
                                          : Op::TIES_VJP;
        c.x = x, c.y_in = y, c.winners_in = winners, c.g = g, c.gx = gx, c.forced = forced;
        execute(c);
    }

    void check_winners() const {
        if (family != Family::EXTREME) throw std::invalid_argument("only Max and Min have winners");
        if (plan.cells > (i64(1) << 32)) throw std::invalid_argument("a window of more than 2**32 cells has no winners");
    }

  private:
    enum class Family { EXTREME, SUM, SMOOTH };
    Plan plan;
    Call call;
    Type result;
    Family family;
    i64 inputs, outputs;

    // Whether a lane as wide as a cell can hold any place in the window.
    bool places_fit() const { return size_of(call.type) >= 4 || plan.cells <= i64(1) << (8 * size_of(call.type)); }

    void execute(const Call &c) const {
        if (inputs == 0 || outputs == 0) return;
        std::exception_ptr error;
        Run chosen = run;
        without_gil([&] {
            try {
                chosen(plan, c);
            } catch (...) {
                error = std::current_exception();
            }
        });
        if (error) std::rethrow_exception(error);
    }
};

// A plan for tensors of one layout, which makes the tensors that it returns. Where a tensor is not what it was made for, the
// answer is None, and the caller finds another way.
class TensorPlan {
  public:
    TensorPlan(nb::object plan, nb::object type, std::vector<i64> shape, std::vector<i64> strides, std::vector<i64> y_shape,
               std::vector<i64> y_strides, const std::string &dtype, const std::string &result)
        : owner(std::move(plan)), plan(nb::cast<const EnginePlan &>(owner)), type(std::move(type)), x(shape, strides, dtype),
          y(y_shape, y_strides, result), g(y_shape, y_strides, dtype),
          winners(y_shape, y_strides, "uint" + std::to_string(8 * this->plan.winner_bytes())) {
        if (!this->type.table) throw std::invalid_argument("the type shares no tensors in C");
        if (!this->plan.has_sizes(x.elements(), y.elements())) throw std::invalid_argument("the shapes are not the plan's");
        if (!this->plan.has_types(x.element_bytes(), y.element_bytes())) throw std::invalid_argument("the types are not the plan's");
    }

    nb::object forward(nb::handle tensor) const {
        const void *from = x.memory_of(type, tensor);
        if (!from) return nb::none();
        return y.made(type, [&](void *to) { plan.forward_at(from, to); });
    }

    nb::object forward_with_winners(nb::handle tensor) const {
        plan.check_winners();
        const void *from = x.memory_of(type, tensor);
        if (!from) return nb::none();
        nb::object places;
        nb::object value = y.made(type, [&](void *to) {
            places = winners.made(type, [&](void *found) { plan.forward_with_winners_at(from, to, found); });
        });
        return nb::make_tuple(value, places);
    }

    nb::object vjp(nb::handle input, nb::handle output, nb::handle places, nb::handle cotangent) const {
        const void *from = nullptr, *value = nullptr, *found = nullptr, *given = g.memory_of(type, cotangent);
        if (plan.vjp_reads_x() && !(from = x.memory_of(type, input))) return nb::none();
        if (plan.vjp_reads_y() && !(value = y.memory_of(type, output))) return nb::none();
        if (plan.vjp_reads_winners() && !(found = winners.memory_of(type, places))) return nb::none();
        if (!given) return nb::none();
        return x.made(type, [&](void *to) { plan.vjp_at(from, value, found, given, to); });
    }

  private:
    nb::object owner;  // of the plan
    const EnginePlan &plan;
    TensorType type;
    TensorLayout x, y, g, winners;  // gx is as x
};

}  // namespace

NB_MODULE(_engine, m) {
    nb::set_leak_warnings(false);  // pools that live to the end of the program are no leak
    m.def("levels", &levels_here, "The instruction levels of this processor, the best one last.");
    m.def("level", [] { return level; }, "The instruction level in use.");
    m.def("set_level", &set_level, nb::arg("name"), "Use another instruction level.");
    m.def("get_num_threads", &get_num_threads, "How many threads a call may use.");
    m.def("set_num_threads", &set_num_threads, nb::arg("n"), "Let a call use n threads.");
    nb::class_<EnginePlan>(m, "Plan", "A kind over a window over a shape, for one dtype.")
        .def(nb::init<const std::vector<std::vector<i64>> &, const std::string &, const std::string &, const std::string &,
                      double, const std::string &>(),
             nb::arg("dims"), nb::arg("kind"), nb::arg("dtype"), nb::arg("derivative"), nb::arg("parameter"), nb::arg("option"))
        .def_prop_ro("winner_bytes", &EnginePlan::winner_bytes)
        .def("forward", &EnginePlan::forward, nb::arg("x"), nb::arg("y"), nb::arg("forced") = -1)
        .def("forward_with_winners", &EnginePlan::forward_with_winners, nb::arg("x"), nb::arg("y"), nb::arg("winners"),
             nb::arg("forced") = -1)
        .def("indices", &EnginePlan::indices, nb::arg("winners"), nb::arg("indices"))
        .def("jvp", &EnginePlan::jvp, nb::arg("x"), nb::arg("t"), nb::arg("y"), nb::arg("dy"), nb::arg("forced") = -1)
        .def("vjp", &EnginePlan::vjp, nb::arg("x").none(), nb::arg("y").none(), nb::arg("winners").none(), nb::arg("g"),
             nb::arg("gx"), nb::arg("forced") = -1);
    nb::class_<TensorPlan>(m, "TensorPlan", "A plan for small tensors of one layout, which makes those that it returns.")
        .def(nb::init<nb::object, nb::object, std::vector<i64>, std::vector<i64>, std::vector<i64>, std::vector<i64>,
                      const std::string &, const std::string &>(),
             nb::arg("plan"), nb::arg("tensor"), nb::arg("size"), nb::arg("strides"), nb::arg("y_size"), nb::arg("y_strides"),
             nb::arg("dtype"), nb::arg("result"))
        .def("forward", &TensorPlan::forward, nb::arg("x"))
        .def("forward_with_winners", &TensorPlan::forward_with_winners, nb::arg("x"))
        .def("vjp", &TensorPlan::vjp, nb::arg("x").none(), nb::arg("y").none(), nb::arg("winners").none(), nb::arg("g"));
}
