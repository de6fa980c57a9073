// What Python sees of the engine: the module, its functions and its classes.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "base/threads.h"
#include "bindings/array_plan.h"
#include "bindings/boxes.h"
#include "bindings/cuda.h"
#include "bindings/large_arrays.h"
#include "bindings/pools.h"
#include "bindings/quick_calls.h"
#include "bindings/tensor_plan.h"
#include "bindings/xla.h"
#include "kinds/levels.h"

namespace nb = nanobind;
using namespace ndpool;

namespace {

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
    level_in_use();                // an import fails where this processor has none of the levels
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
        .def(nb::init<nb::object, nb::object, nb::tuple, nb::tuple, std::vector<int>, nb::object, nb::object, nb::object,
                      nb::object, std::vector<Py_ssize_t>>(),
             nb::arg("plan"), nb::arg("array"), nb::arg("shape"), nb::arg("y_shape"),
             nb::arg("order"), nb::arg("dtype"), nb::arg("result"), nb::arg("derivative"), nb::arg("place"),
             nb::arg("strides") = std::vector<Py_ssize_t>())
        .def("forward", &ArrayPlan::forward, nb::arg("x").none(), nb::arg("out").none())
        .def("linearize", &ArrayPlan::linearize, nb::arg("x").none())
        .def("pull", &ArrayPlan::pull, nb::arg("x").none(), nb::arg("y").none(), nb::arg("winners").none(),
             nb::arg("g").none(), nb::arg("out").none());
    m.def("large_array", &large_array, nb::arg("shape"), nb::arg("dtype"),
          "A new array at a whole line of the cache, in memory that is kept for the next one of its size.");
    m.attr("QuickPool") = quick_pool_type();
    m.def(
        "call_quickly",
        [](nb::object type) {
            QuickClass::begin(type);
            return type;
        },
        nb::arg("of"), "Make calls of the class quick: one alone, whose base is QuickPool.");
    m.def("answer_quickly", &QuickClass::answer, nb::arg("pool"), "Let the engine answer calls of this pool.");
    nb::class_<TensorPlan>(m, "TensorPlan",
                           "A plan for tensors of one size and order in memory, which makes those that it returns.")
        .def(nb::init<nb::object, nb::object, std::vector<i64>, std::vector<i64>, std::vector<i64>, std::vector<i64>,
                      const std::string &, const std::string &, std::vector<int>>(),
             nb::arg("plan"), nb::arg("tensor"), nb::arg("size"), nb::arg("strides"), nb::arg("y_size"),
             nb::arg("y_strides"), nb::arg("dtype"), nb::arg("result"), nb::arg("order"))
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
    nb::class_<BoundBoxes>(
        m, "BoxWindows", "The windows of a pool over matrices of (rows, cells), one a lane of the engine's registers.")
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
