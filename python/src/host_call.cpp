#include "python/src/host_call.h"
#include <memory>
#include <stdexcept>

namespace tcc::python {
namespace {

struct HostCall {
  Ref function;
  std::vector<Layout> operands, results;

  void run(const runtime::CustomArguments &arguments) const {
    const Ref list = Ref::made(PyTuple_New(static_cast<Py_ssize_t>(operands.size() + results.size())));
    Py_ssize_t next = 0;
    for (size_t i = 0; i < operands.size(); ++i)
      check(PyTuple_SetItem(list.get(), next++,
                            tensorOver(operands[i], const_cast<void *>(arguments.inputData(i))).release()) == 0);
    for (size_t i = 0; i < results.size(); ++i)
      check(PyTuple_SetItem(list.get(), next++, tensorOver(results[i], arguments.outputData(i)).release()) == 0);
    Ref::made(PyObject_CallObject(function.get(), list.get()));
  }
};

} // namespace

std::string takeError() {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  const Ref kind = Ref::shared(type), what = Ref::shared(value);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  std::string message = "Python error";
  if (PyObject *said = what ? PyObject_Str(what.get()) : nullptr) {
    const Ref words = Ref::made(said);
    if (const char *utf8 = PyUnicode_AsUTF8AndSize(said, nullptr))
      message = utf8;
  }
  PyErr_Clear();
  return message;
}

HostOp addPythonFunction(Ref function, std::vector<Layout> operands, std::vector<Layout> results) {
  // Never released: a number stays valid as long as the process, and Python's end comes before that of C++ statics.
  const auto *call = new HostCall{std::move(function), std::move(operands), std::move(results)};
  return addHostOp([call](const runtime::CustomArguments &arguments) {
    const PyGILState_STATE gil = PyGILState_Ensure();
    std::string message;
    try {
      call->run(arguments);
    } catch (const PythonError &) {
      message = takeError();
    }
    PyGILState_Release(gil);
    if (!message.empty())
      throw std::runtime_error(message);
  });
}

} // namespace tcc::python
