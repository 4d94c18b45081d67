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

/// Never released: a function stays valid as long as the process, and Python's end comes before that of C++ statics.
runtime::HostFunction keptFunction(HostCall made) {
  const auto *call = new HostCall(std::move(made));
  return [call](const runtime::CustomArguments &arguments) {
    if (const std::string message = withGil([&] { call->run(arguments); }); !message.empty())
      throw std::runtime_error(message);
  };
}

} // namespace

std::vector<Layout> layouts(PyObject *list) {
  std::vector<Layout> made;
  for (const Ref &layout : items(list))
    made.push_back(Layout::of(layout.get()));
  return made;
}

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
  return addHostOp(keptFunction({std::move(function), std::move(operands), std::move(results)}));
}

void addPythonProvider(const std::string &name, std::string version, Ref resolve) {
  const auto *kept = new Ref(std::move(resolve)); // never released, as the functions
  addHostProvider(name,
                  {std::move(version), [kept](const std::string &symbol) -> runtime::Expected<runtime::HostFunction> {
                     runtime::HostFunction found;
                     const std::string message = withGil([&] {
                       const Ref asked = text(symbol);
                       const std::vector<Ref> parts =
                           items(Ref::made(PyObject_CallFunctionObjArgs(kept->get(), asked.get(), nullptr)).get());
                       if (parts.size() != 3)
                         raise(PyExc_TypeError, "a provider gives (function, operands, results)");
                       found = keptFunction({parts[0], layouts(parts[1].get()), layouts(parts[2].get())});
                     });
                     if (!message.empty())
                       return runtime::Error(message);
                     return found;
                   }});
}

} // namespace tcc::python
