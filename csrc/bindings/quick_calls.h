// Calls of a pool on small arrays, without a frame of Python: that takes as long as the pooling itself.
#pragma once
#include <nanobind/nanobind.h>
#include <structmember.h>

#include <cstddef>
#include <exception>

#include "bindings/array_plan.h"

namespace ndpool {

// What a pool has in front of its own attributes: who answers its calls. That is nobody, and so the interpreter calls
// `__call__`, until a small array was seen.
struct QuickPool {
    PyObject_HEAD;
    vectorcallfunc call;
};

// The class of pools whose calls are quick, and the function of Python that says what a call means. All that is not
// quick goes there: other arrays, errors, and pools of a class that has another `__call__`.
class QuickClass {
  public:
    // Makes calls of the class quick; see the type of its base class.
    static void begin(nb::handle type) {
        auto *of = reinterpret_cast<PyTypeObject *>(type.ptr());
        if (!PyType_Check(type.ptr()) || of->tp_vectorcall_offset != offsetof(QuickPool, call) || !of->tp_call)
            throw nb::type_error("only a class with a __call__ whose base is QuickPool has quick calls");
        one().type = of;
        one().meaning = nb::getattr(type, "__call__").release();
        one().seen = 0;
        of->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
    }

    // From now on, calls of this pool are quick: `_latest` has the plans of the array before.
    static void answer(nb::handle pool) {
        if (!one().type || !PyType_IsSubtype(Py_TYPE(pool.ptr()), one().type))
            throw nb::type_error("only a pool answers quickly");
        reinterpret_cast<QuickPool *>(pool.ptr())->call = call;
    }

    static PyObject *call(PyObject *self, PyObject *const *given, std::size_t count, PyObject *names) {
        const Py_ssize_t plain = PyVectorcall_NARGS(count), named = names ? PyTuple_GET_SIZE(names) : 0;
        const bool are_x_and_out = plain >= 1 && plain + named <= 2 && (!named || is_out(PyTuple_GET_ITEM(names, 0)));
        if (are_x_and_out && one().has_its_meaning(Py_TYPE(self))) {
            PyObject *y = forward(self, given[0], plain + named == 2 ? given[1] : Py_None);
            if (y) return y;
        }
        return call_in_python(self, given, count, names);
    }

  private:
    PyTypeObject *type = nullptr;
    nb::handle meaning;
    unsigned seen = 0;  // the version of the class that was found to have this meaning

    static QuickClass &one() {
        static QuickClass of_pools;
        return of_pools;
    }

    static bool is_out(PyObject *name) {
        static PyObject *const out = PyUnicode_InternFromString("out");
        return name == out || PyUnicode_Compare(name, out) == 0;
    }

    // Somebody may have given the class, or one that is made of it, another `__call__` meanwhile.
    bool has_its_meaning(PyTypeObject *of) {
        if (of == type && seen && of->tp_version_tag == seen) return true;
        nb::object found = meaning_of(of);
        if (!found.is(meaning)) return PyErr_Clear(), false;
        if (of == type) seen = of->tp_version_tag;
        return true;
    }
    static nb::object meaning_of(PyTypeObject *of) {
        static PyObject *const name = PyUnicode_InternFromString("__call__");
        return nb::steal(PyObject_GetAttr(reinterpret_cast<PyObject *>(of), name));
    }

    // None of the array's business, and any error, is nothing: Python finds it again, and says what it is.
    static PyObject *forward(PyObject *pool, PyObject *x, PyObject *out) {
        static PyObject *const latest = PyUnicode_InternFromString("_latest"),
                               *const quick = PyUnicode_InternFromString("quick");
        static PyObject *const plans = nb::type<ArrayPlan>().ptr();
        nb::object known = nb::steal(PyObject_GetAttr(pool, latest));
        if (!known.is_valid()) return PyErr_Clear(), nullptr;
        if (known.is_none()) return nullptr;
        nb::object plan = nb::steal(PyObject_GetAttr(known.ptr(), quick));
        if (!plan.is_valid()) return PyErr_Clear(), nullptr;
        if (reinterpret_cast<PyObject *>(Py_TYPE(plan.ptr())) != plans) return nullptr;
        try {
            nb::object y = nb::inst_ptr<ArrayPlan>(plan)->forward(x, out);
            return y.is_none() ? nullptr : y.release().ptr();
        } catch (const std::exception &) {
            return nullptr;
        }
    }

    static PyObject *call_in_python(PyObject *self, PyObject *const *given, std::size_t count, PyObject *names) {
        nb::object found = meaning_of(Py_TYPE(self));
        if (!found.is_valid()) return nullptr;
        if (descrgetfunc bind = Py_TYPE(found.ptr())->tp_descr_get)
            found = nb::steal(bind(found.ptr(), self, reinterpret_cast<PyObject *>(Py_TYPE(self))));
        return found.is_valid() ? PyObject_Vectorcall(found.ptr(), given, count, names) : nullptr;
    }
};

// The base class of such a class, in the module of this name.
inline nb::object quick_pool_type() {
    static PyMemberDef members[] = {
        {"__vectorcalloffset__", T_PYSSIZET, offsetof(QuickPool, call), READONLY, nullptr},
        {nullptr, 0, 0, 0, nullptr},
    };
    auto slot = [](int number, auto *what) { return PyType_Slot{number, reinterpret_cast<void *>(what)}; };
    PyType_Slot slots[] = {
        slot(Py_tp_members, &members[0]),
        slot(Py_tp_doc, const_cast<char *>("The base of a class whose calls on small arrays take no word of Python.")),
        {0, nullptr},
    };
    PyType_Spec spec{"ndpool._engine.QuickPool", sizeof(QuickPool), 0,
                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
    nb::object type = nb::steal(PyType_FromSpec(&spec));
    if (!type.is_valid()) throw nb::python_error();
    return type;
}

}  // namespace ndpool
