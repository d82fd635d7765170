#include "module.h"

#include "fedgrab/core/error.h"
#include "fedgrab/core/interrupt.h"

namespace py = pybind11;

namespace {

/// Created once and never released: modules of the interpreter outlive this code.
PyObject* new_exception(py::module_& module, const char* name, const char* doc, PyObject* bases) {
  PyObject* type = PyErr_NewExceptionWithDoc((std::string("fedgrab.") + name).c_str(), doc, bases, nullptr);
  module.attr(name) = py::handle(type);
  return type;
}

PyObject *error = nullptr, *usage_error = nullptr;

}  // namespace

PYBIND11_MODULE(_core, module) {
  module.doc() = "The compiled part of fedgrab.";
  error =
      new_exception(module, "Error", "What went wrong, why, and what to do about it, in one line.", PyExc_RuntimeError);
  usage_error = new_exception(module, "UsageError", "A parameter, its value or a file of parameters is at fault.",
                              py::make_tuple(py::handle(error), py::handle(PyExc_ValueError)).ptr());
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const fedgrab::Error& failure) {
      PyErr_SetString(failure.fault() == fedgrab::Fault::usage ? usage_error : error, failure.what());
    } catch (const fedgrab::Interrupted&) {
      PyErr_SetNone(PyExc_KeyboardInterrupt);
    } catch (const c10::Error& failure) {
      PyErr_SetString(error, failure.what_without_backtrace());
    }
  });
  fedgrab::python::bind_balancer(module);
  fedgrab::python::bind_data(module);
  fedgrab::python::bind_run(module);
  fedgrab::python::bind_client(module);
  fedgrab::python::bind_server(module);
  fedgrab::python::bind_privacy(module);
}
