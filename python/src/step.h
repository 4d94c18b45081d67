// Step: a compiled graph as Python sees it. Call: one that takes and gives tensors of a Python library.
#pragma once
#include "frontend/compile_graph.h"
#include "python/src/tensors.h"
#include "runtime/executable.h"
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace tcc::python {

/// Releases the GIL for a scope. Whatever may wait for a device's turn stands in one: the step that has the turn needs
/// the GIL where it calls Python.
class WithoutGil {
public:
  WithoutGil() : state(PyEval_SaveThread()) {}
  ~WithoutGil() { PyEval_RestoreThread(state); }
  WithoutGil(const WithoutGil &) = delete;
  WithoutGil &operator=(const WithoutGil &) = delete;

private:
  PyThreadState *state;
};

/// A scope in which this thread may have a device's turn. Python may run in it, and with it its garbage collector: a
/// compiled graph that ends meanwhile, whose end would wait for the same turn, is kept until the scope ends.
class TurnScope {
public:
  TurnScope();
  ~TurnScope();
  TurnScope(const TurnScope &) = delete;
  TurnScope &operator=(const TurnScope &) = delete;

  /// Ends a graph, now or when this thread's scopes have ended.
  static void end(CompiledGraph graph);
};

/// A compiled graph that several calls may share. One run at a time; others wait.
struct Step {
  Step() = default;
  Step(const Step &) = delete;
  Step &operator=(const Step &) = delete;
  ~Step();

  CompiledGraph graph;
  std::string name;
  DLDevice device = {kDLCPU, 0}; ///< on which its tensors are
  std::mutex turn;

  /// The addresses of its tensors must be multiples of this number.
  uintptr_t alignment() const {
    return device.device_type == kDLCPU ? runtime::arenaAlignment
                                        : static_cast<uintptr_t>(graph.executable->plan().alignment);
  }
};

/// Which argument of a Python call stands for which tensor of a step, and what the call gives. Python describes it:
///
///     Call(step, arguments, results, allocate, copy, view, takes)
///
/// `arguments` has one entry for each item of the list that the call takes: None where the step does not read it, or
/// ("input" | "state", number, layout). `results` has one for each item that the call gives:
///     ("new", number, layout, how)        output `number` of the step, in the tensor that allocate(*how) gives
///     ("argument", n)                     argument n itself
///     ("view", n, sizes, strides, offset) argument n seen otherwise
///     ("hidden", number, layout, how)     the same, and only parts of it are given
///     ("part", n, sizes, strides, offset) result n, a new or hidden one, seen otherwise
///     ("object", x)                       x
/// `copy(tensor, sizes, strides)` gives a tensor of this layout with the argument's elements, or, after a run, puts
/// those of `tensor` back with copy(tensor, None, argument); `view(tensor, sizes, strides, offset)` gives a view.
/// With `takes`, the list's tensors are the call's: on the CPU each is let go, and None stands in its place, as soon as
/// the step has read it for the last time, and results are allocated when the step comes to them.
class Call {
public:
  Call(std::shared_ptr<Step> step, PyObject *arguments, PyObject *results, Ref allocate, Ref copy, Ref view,
       bool takes);

  /// Runs the step once and gives its results as a list. The GIL is released meanwhile. On a GPU the run is started, in
  /// the order of the library's current stream. Throws PythonError.
  Ref run(PyObject *arguments);
  /// How many arguments were copied since the call was made, because their memory was not dense, aligned or of the
  /// layout that the step was compiled for.
  int64_t copies() const { return copied; }
  const std::shared_ptr<Step> &of() const { return step; }

private:
  struct Argument {
    enum class Place : uint8_t { none, input, state } place = Place::none;
    size_t number = 0;
    Layout layout;
  };
  struct Result {
    enum class Kind : uint8_t { fresh, hidden, argument, view, part, object } kind = Kind::object;
    size_t number = 0;
    Layout layout;
    Ref sizes, strides, offset, object; // object: what is given, or how memory is allocated
  };
  /// A part of a step: the arguments that nothing reads from its beginning on, and the results that are needed in it.
  struct Stage {
    size_t begin = 0; // an instruction
    std::vector<size_t> gone, made;
  };
  struct Running; // one run's tensors
  static bool isMade(const Result &result);
  Result resultOf(PyObject *entry, size_t count) const;

  void cutIntoStages();
  void fillArguments(Running &running);
  void enter(const Stage &stage, Running &running) const;
  runtime::Error execute(Running &running) const;
  Ref give(Running &running) const;

  std::shared_ptr<Step> step;
  std::vector<Argument> arguments;
  std::vector<Result> results;
  std::vector<Stage> stages;
  Ref allocate, copy, view;
  int64_t copied = 0;
};

} // namespace tcc::python
