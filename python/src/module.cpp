// The module tcc._native: compile() makes a Step of a graph's text, Call runs it over tensors. Written for CPython's
// limited API of 3.11, so that one file serves all later versions.
#include "frontend/compile_graph.h"
#include "python/src/host_call.h"
#include "python/src/result_memory.h"
#include "python/src/step.h"
#include "runtime/threads.h"
#include <new>

namespace tcc::python {
namespace {

PyObject *errorType = nullptr;
PyTypeObject *stepType = nullptr;
std::shared_ptr<runtime::Device> *sharedDevice = nullptr; // the CPU: all steps share its arena; it is never closed

/// The GPU of this number. All steps on it share its arena. It stays open until the process ends. Throws Error.
std::shared_ptr<runtime::Device> gpu(int ordinal) {
  static auto *opened = new std::map<int, std::shared_ptr<runtime::Device>>;
  std::shared_ptr<runtime::Device> &device = (*opened)[ordinal];
  if (!device || device->isClosed())
    device = openGraphDevice("cuda", ordinal);
  return device;
}

/// Calls `fn`, and makes an error of Python of what it throws.
template <typename Fn>
auto guarded(Fn &&fn) noexcept -> decltype(fn()) {
  constexpr auto failed = [] {
    if constexpr (std::is_pointer_v<decltype(fn())>)
      return nullptr;
    else
      return -1;
  };
  try {
    return fn();
  } catch (const PythonError &) {
  } catch (const Error &error) {
    PyErr_SetString(errorType, error.what());
  } catch (const std::bad_alloc &) {
    PyErr_NoMemory();
  } catch (const std::exception &error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return failed();
}

struct StepObject {
  PyObject_HEAD;
  std::shared_ptr<Step> step;
};
struct CallObject {
  PyObject_HEAD;
  std::unique_ptr<Call> call;
};

template <typename Object>
Object *allocated(PyTypeObject *type) {
  auto *allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  auto *object = reinterpret_cast<Object *>(allocate(type, 0));
  check(object);
  return object;
}

template <typename Object, auto member>
void release(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  std::destroy_at(&(reinterpret_cast<Object *>(self)->*member));
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(reinterpret_cast<PyObject *>(type));
}

Step &stepOf(PyObject *self) {
  return *reinterpret_cast<StepObject *>(self)->step;
}

void set(const Ref &dict, const char *key, const Ref &value) {
  check(PyDict_SetItemString(dict.get(), key, value.get()) == 0);
}

Ref describe(const std::vector<runtime::TensorSpec> &specs) {
  Ref list = Ref::made(PyList_New(0));
  for (const runtime::TensorSpec &spec : specs) {
    const Ref sizes = Ref::made(PyList_New(0));
    for (int64_t size : spec.shape)
      check(PyList_Append(sizes.get(), integer(size).get()) == 0);
    const Ref entry =
        Ref::made(Py_BuildValue("(OOO)", text(spec.name).get(), text(runtime::name(spec.dtype)).get(), sizes.get()));
    check(PyList_Append(list.get(), entry.get()) == 0);
  }
  return list;
}

// Step

PyObject *stepInputs(PyObject *self, void *) {
  return guarded([&] { return describe(stepOf(self).graph.executable->plan().inputs).release(); });
}
PyObject *stepOutputs(PyObject *self, void *) {
  return guarded([&] { return describe(stepOf(self).graph.executable->plan().outputs).release(); });
}
PyObject *stepStates(PyObject *self, void *) {
  return guarded([&] { return describe(stepOf(self).graph.executable->plan().states).release(); });
}
PyObject *stepRemarks(PyObject *self, void *) {
  return guarded([&] { return text(stepOf(self).graph.remarks).release(); });
}
PyObject *stepSummary(PyObject *self, void *) {
  return guarded([&] {
    const CompileSummary &summary = stepOf(self).graph.summary;
    Ref dict = Ref::made(PyDict_New());
    set(dict, "ops", integer(summary.capturedOps));
    set(dict, "kernels", integer(summary.kernels));
    set(dict, "matmuls", integer(summary.matmuls));
    set(dict, "arena_bytes", integer(summary.arenaBytes));
    set(dict, "planned_bytes", integer(summary.plannedBytes));
    set(dict, "cache", text(summary.cache));
    set(dict, "pipeline_ms", Ref::made(PyFloat_FromDouble(summary.pipelineMs)));
    set(dict, "code_ms", Ref::made(PyFloat_FromDouble(summary.codegenMs)));
    set(dict, "total_ms", Ref::made(PyFloat_FromDouble(summary.totalMs)));
    return dict.release();
  });
}
PyObject *stepPlan(PyObject *self, PyObject *) {
  return guarded([&] { return text(runtime::planToJson(stepOf(self).graph.executable->plan())).release(); });
}

PyMethodDef stepMethods[] = {{"plan", stepPlan, METH_NOARGS, "The plan as JSON."}, {}};
PyGetSetDef stepValues[] = {{"inputs", stepInputs, nullptr, "(name, dtype, sizes) of each.", nullptr},
                            {"outputs", stepOutputs, nullptr, "(name, dtype, sizes) of each.", nullptr},
                            {"states", stepStates, nullptr, "(name, dtype, sizes) of each.", nullptr},
                            {"summary", stepSummary, nullptr, "What compiling did, as a dict.", nullptr},
                            {"remarks", stepRemarks, nullptr, "What the flags asked the compiler to say.", nullptr},
                            {}};
PyType_Slot stepSlots[] = {{Py_tp_dealloc, reinterpret_cast<void *>(release<StepObject, &StepObject::step>)},
                           {Py_tp_methods, stepMethods},
                           {Py_tp_getset, stepValues},
                           {Py_tp_doc, const_cast<char *>("A compiled graph; compile() makes it.")},
                           {0, nullptr}};
PyType_Spec stepSpec = {"tcc._native.Step", sizeof(StepObject), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE, stepSlots};

// Call

PyObject *makeCall(PyTypeObject *type, PyObject *values, PyObject *) {
  return guarded([&] {
    PyObject *step = nullptr, *arguments = nullptr, *results = nullptr;
    PyObject *allocate = nullptr, *copy = nullptr, *view = nullptr;
    int takes = 0;
    check(PyArg_ParseTuple(values, "O!OO!OOO|p", stepType, &step, &arguments, &PyList_Type, &results, &allocate, &copy,
                           &view, &takes));
    auto call = std::make_unique<Call>(reinterpret_cast<StepObject *>(step)->step, arguments, results,
                                       Ref::shared(allocate), Ref::shared(copy), Ref::shared(view), takes != 0);
    auto *made = allocated<CallObject>(type);
    std::construct_at(&made->call, std::move(call));
    return reinterpret_cast<PyObject *>(made);
  });
}
PyObject *runCall(PyObject *self, PyObject *values, PyObject *) {
  return guarded([&] {
    PyObject *list = nullptr;
    check(PyArg_ParseTuple(values, "O!", &PyList_Type, &list));
    return reinterpret_cast<CallObject *>(self)->call->run(list).release();
  });
}
PyObject *callCopies(PyObject *self, void *) {
  return PyLong_FromLongLong(reinterpret_cast<CallObject *>(self)->call->copies());
}

PyGetSetDef callValues[] = {
    {"copies", callCopies, nullptr, "How many arguments were copied since the call was made.", nullptr}, {}};
PyType_Slot callSlots[] = {
    {Py_tp_new, reinterpret_cast<void *>(makeCall)},
    {Py_tp_call, reinterpret_cast<void *>(runCall)},
    {Py_tp_dealloc, reinterpret_cast<void *>(release<CallObject, &CallObject::call>)},
    {Py_tp_getset, callValues},
    {Py_tp_doc, const_cast<char *>("Call(step, arguments, results, allocate, copy, view, takes=False): runs "
                                   "a step over a list of tensors and gives a list of tensors.")},
    {0, nullptr}};
PyType_Spec callSpec = {"tcc._native.Call", sizeof(CallObject), 0, Py_TPFLAGS_DEFAULT, callSlots};

// Functions of the module

PyObject *openLibrary(PyObject *, PyObject *capsule) {
  return guarded([&] {
    Exchange::open(capsule);
    return Ref::shared(Py_None).release();
  });
}

PyObject *compileText(PyObject *, PyObject *values) {
  return guarded([&] {
    PyObject *graph = nullptr, *name = nullptr, *flags = nullptr;
    int hostCode = 0, ordinal = -1;
    check(PyArg_ParseTuple(values, "UUOp|i", &graph, &name, &flags, &hostCode, &ordinal));
    GraphOptions options;
    for (const Ref &flag : items(flags)) {
      const std::string given = toText(flag.get());
      std::string error;
      if (given == "-fverify-each")
        options.verifyEach = true;
      else if (!takeCompilerFlag(given, nullptr, options, error))
        error = "unknown flag '" + given + "'";
      if (!error.empty())
        raise(PyExc_ValueError, error);
    }
    options.hostCode = hostCode;
    options.device = ordinal < 0 ? *sharedDevice : gpu(ordinal);
    auto step = std::make_shared<Step>();
    if (ordinal >= 0)
      step->device = {kDLCUDA, ordinal};
    step->name = toText(name);
    const std::string source = toText(graph);
    {
      const WithoutGil free;
      const TurnScope scope;
      step->graph = compileGraph(source, step->name, options);
    }
    auto *made = allocated<StepObject>(stepType);
    std::construct_at(&made->step, std::move(step));
    return reinterpret_cast<PyObject *>(made);
  });
}

PyObject *hostFunction(PyObject *, PyObject *values) {
  return guarded([&] {
    PyObject *function = nullptr, *operands = nullptr, *results = nullptr;
    check(PyArg_ParseTuple(values, "OOO", &function, &operands, &results));
    const HostOp made = addPythonFunction(Ref::shared(function), layouts(operands), layouts(results));
    return Py_BuildValue("(LL)", static_cast<long long>(made.function), static_cast<long long>(made.reference));
  });
}

PyObject *provider(PyObject *, PyObject *values) {
  return guarded([&] {
    PyObject *name = nullptr, *version = nullptr, *resolve = nullptr;
    check(PyArg_ParseTuple(values, "UUO", &name, &version, &resolve));
    addPythonProvider(toText(name), toText(version), Ref::shared(resolve));
    return Ref::shared(Py_None).release();
  });
}

PyObject *resultMemory(PyObject *, PyObject *) {
  return guarded([] {
    const ResultMemory::Usage usage = ResultMemory::ofProcess().usage();
    return Py_BuildValue("(nn)", static_cast<Py_ssize_t>(usage.taken), static_cast<Py_ssize_t>(usage.most));
  });
}

PyObject *trimResultMemory(PyObject *, PyObject *) {
  return guarded([] {
    ResultMemory::ofProcess().trim();
    return Ref::shared(Py_None).release();
  });
}

PyMethodDef functions[] = {
    {"open", openLibrary, METH_O, "open(capsule): tensors are those of the library with these exchange functions."},
    {"compile", compileText, METH_VARARGS,
     "compile(text, name, flags, host_code, gpu=-1): a Step of a graph's text, for the CPU or for the GPU of this "
     "number. flags: as on the command line of tcc."},
    {"host_function", hostFunction, METH_VARARGS,
     "host_function(function, operands, results): numbers for host_function and host_reference "
     "of tcc.custom. Operands and results are layouts (code, bits, sizes, strides)."},
    {"provider", provider, METH_VARARGS,
     "provider(name, version, resolve): ops of the library '<name>' are what resolve(symbol) gives: (function, "
     "operands, "
     "results), as for host_function."},
    {"result_memory", resultMemory, METH_NOARGS,
     "(taken, most): bytes of large results that exist, and the most since the last trim."},
    {"trim_result_memory", trimResultMemory, METH_NOARGS, "Gives what results do not use back to the system."},
    {}};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "tcc._native", "The compiler, over tensors of PyTorch.", -1, functions, {}, {}, {}, {}};

Ref makeModule() {
  Ref module = Ref::made(PyModule_Create(&definition));
  errorType =
      PyErr_NewExceptionWithDoc("tcc.Error", "What cannot be compiled or run, and why.", PyExc_RuntimeError, nullptr);
  check(errorType && PyModule_AddObjectRef(module.get(), "Error", errorType) == 0);
  stepType = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&stepSpec));
  check(stepType && PyModule_AddObjectRef(module.get(), "Step", reinterpret_cast<PyObject *>(stepType)) == 0);
  const Ref callType = Ref::made(PyType_FromSpec(&callSpec));
  check(PyModule_AddObjectRef(module.get(), "Call", callType.get()) == 0);
  check(PyModule_AddStringConstant(module.get(), "version", TCC_VERSION) == 0);
  sharedDevice = new std::shared_ptr<runtime::Device>(runtime::makeCpuDevice());
  return module;
}

} // namespace
} // namespace tcc::python

PyMODINIT_FUNC PyInit__native() {
  return tcc::python::guarded([] { return tcc::python::makeModule().release(); });
}
