#include "python/src/step.h"
#include <array>

namespace tcc::python {
namespace {

template <typename... Arguments>
Ref call(const Ref &function, const Arguments &...arguments) {
  return Ref::made(PyObject_CallFunctionObjArgs(function.get(), arguments..., nullptr));
}

std::string nameOf(DLDevice device) {
  return device.device_type == kDLCPU ? "the CPU" : "cuda:" + std::to_string(device.device_id);
}

size_t numberOf(PyObject *object, size_t count, const char *what) {
  const int64_t number = toInteger(object);
  if (number < 0 || number >= static_cast<int64_t>(count))
    raise(PyExc_IndexError, std::string("no such ") + what + ": " + std::to_string(number));
  return static_cast<size_t>(number);
}

void checkBytes(const Layout &layout, int64_t bytes, const std::string &name) {
  int64_t count = 1;
  for (size_t dim = 0; dim < layout.sizes.size(); ++dim)
    count *= layout.strides[dim] == 0 && layout.sizes[dim] > 0 ? 1 : layout.sizes[dim]; // an expanded dim
  if (count * ((layout.dtype.bits + 7) / 8) != bytes)
    raise(PyExc_ValueError, "the layout of `" + name + "` has another size than the step's tensor");
}

} // namespace

/// The executable's end waits for the device's turn.
Step::~Step() {
  const WithoutGil free;
  graph = {};
}

Call::Call(std::shared_ptr<Step> ofStep, PyObject *argumentList, PyObject *resultList, Ref allocate, Ref copy, Ref view)
    : step(std::move(ofStep)), allocate(std::move(allocate)), copy(std::move(copy)), view(std::move(view)) {
  const runtime::Plan &plan = step->graph.executable->plan();
  size_t inputs = 0, states = 0, outputs = 0;
  for (const Ref &entry : items(argumentList)) {
    Argument &argument = arguments.emplace_back();
    if (entry.get() == Py_None)
      continue;
    const std::vector<Ref> parts = items(entry.get());
    if (parts.size() != 3)
      raise(PyExc_TypeError, "an argument is (place, number, layout)");
    const bool isState = toText(parts[0].get()) == "state";
    const std::vector<runtime::TensorSpec> &specs = isState ? plan.states : plan.inputs;
    argument.place = isState ? Argument::Place::state : Argument::Place::input;
    argument.number = numberOf(parts[1].get(), specs.size(), isState ? "state" : "input");
    argument.layout = Layout::of(parts[2].get());
    checkBytes(argument.layout, specs[argument.number].bytes(), specs[argument.number].name);
    ++(isState ? states : inputs);
  }
  const std::vector<Ref> entries = items(resultList);
  for (const Ref &entry : entries) {
    results.push_back(resultOf(entry.get(), entries.size()));
    outputs += isMade(results.back());
  }
  for (const Result &result : results)
    if (result.kind == Result::Kind::part && !isMade(results[result.number]))
      raise(PyExc_ValueError, "a part is of a new or hidden result");
  if (inputs != plan.inputs.size() || states != plan.states.size() || outputs != plan.outputs.size())
    raise(PyExc_ValueError, "each input, state and output of the step belongs to one argument or result");
}

bool Call::isMade(const Result &result) {
  return result.kind == Result::Kind::fresh || result.kind == Result::Kind::hidden;
}

Call::Result Call::resultOf(PyObject *entry, size_t count) const {
  const std::vector<Ref> parts = items(entry);
  const std::string kind = parts.empty() ? "" : toText(parts[0].get());
  const runtime::Plan &plan = step->graph.executable->plan();
  Result result;
  if (kind == "object" && parts.size() == 2) {
    result.object = parts[1];
  } else if (kind == "argument" && parts.size() == 2) {
    result.kind = Result::Kind::argument;
    result.number = numberOf(parts[1].get(), arguments.size(), "argument");
  } else if ((kind == "new" || kind == "hidden") && parts.size() == 4) {
    result.kind = kind == "new" ? Result::Kind::fresh : Result::Kind::hidden;
    result.number = numberOf(parts[1].get(), plan.outputs.size(), "output");
    result.layout = Layout::of(parts[2].get());
    checkBytes(result.layout, plan.outputs[result.number].bytes(), plan.outputs[result.number].name);
    result.object = parts[3];
  } else if ((kind == "view" || kind == "part") && parts.size() == 5) {
    result.kind = kind == "view" ? Result::Kind::view : Result::Kind::part;
    result.number = kind == "view" ? numberOf(parts[1].get(), arguments.size(), "argument")
                                   : numberOf(parts[1].get(), count, "result");
    result.sizes = parts[2];
    result.strides = parts[3];
    result.offset = parts[4];
  } else {
    raise(PyExc_TypeError, "no such kind of result: '" + kind + "'");
  }
  return result;
}

Ref Call::run(PyObject *list) {
  const runtime::Plan &plan = step->graph.executable->plan();
  const Py_ssize_t count = PyList_Size(list);
  check(count >= 0);
  if (static_cast<size_t>(count) != arguments.size())
    raise(PyExc_TypeError, "'" + step->name + "' takes " + std::to_string(arguments.size()) + " arguments, not " +
                               std::to_string(count));
  std::vector<runtime::ConstTensorRef> inputs(plan.inputs.size());
  std::vector<runtime::TensorRef> states(plan.states.size()), outputs(plan.outputs.size());
  std::vector<Ref> held;
  const auto isUsable = [&, alignment = step->alignment()](const DLTensor &seen, const Layout &layout) {
    return hasLayout(seen, layout, step->device) && reinterpret_cast<uintptr_t>(seen.data) % alignment == 0;
  };
  std::vector<std::pair<Ref, Ref>> putBack; // a state's copy, and the argument that it belongs to
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument &argument = arguments[i];
    if (argument.place == Argument::Place::none)
      continue;
    PyObject *object = PyList_GetItem(list, static_cast<Py_ssize_t>(i));
    DLTensor seen = look(object);
    if (!isUsable(seen, argument.layout)) {
      std::vector<Ref> sizes, strides;
      Ref sizeList = Ref::made(PyList_New(0)), strideList = Ref::made(PyList_New(0));
      for (size_t dim = 0; dim < argument.layout.sizes.size(); ++dim) {
        check(PyList_Append(sizeList.get(), integer(argument.layout.sizes[dim]).get()) == 0);
        check(PyList_Append(strideList.get(), integer(argument.layout.strides[dim]).get()) == 0);
      }
      Ref made = call(copy, object, sizeList.get(), strideList.get());
      seen = look(made.get());
      if (!isUsable(seen, argument.layout))
        raise(PyExc_TypeError, "argument " + std::to_string(i) + " of '" + step->name + "' is not a tensor of " +
                                   nameOf(step->device) + " with the shape and type that the step was compiled for");
      ++copied;
      if (argument.place == Argument::Place::state)
        putBack.emplace_back(made, Ref::shared(object));
      held.push_back(std::move(made));
    }
    if (argument.place == Argument::Place::input)
      inputs[argument.number] = {seen.data, plan.inputs[argument.number].bytes()};
    else
      states[argument.number] = {seen.data, plan.states[argument.number].bytes()};
  }
  std::vector<Ref> made(results.size());
  for (size_t i = 0; i < results.size(); ++i)
    if (const Result &result = results[i]; isMade(result)) {
      made[i] = Ref::made(PyObject_CallObject(allocate.get(), result.object.get()));
      outputs[result.number] = {look(made[i].get()).data, plan.outputs[result.number].bytes()};
    }
  const bool isOnCpu = step->device.device_type == kDLCPU;
  void *stream = isOnCpu ? nullptr : currentStream(step->device);
  runtime::Error error;
  {
    const WithoutGil free;
    const std::lock_guard lock(step->turn);
    runtime::Executable &executable = *step->graph.executable;
    error = isOnCpu ? executable.run(inputs, outputs, states) : executable.startOn(stream, inputs, outputs, states);
  }
  if (error)
    raise(PyExc_RuntimeError, "'" + step->name + "' failed: " + error.message());
  for (const auto &[tensor, argument] : putBack)
    call(copy, tensor.get(), Py_None, argument.get());

  Ref given = Ref::made(PyList_New(0));
  for (size_t i = 0; i < results.size(); ++i) {
    const Result &result = results[i];
    switch (result.kind) {
    case Result::Kind::fresh:
      break;
    case Result::Kind::hidden:
      continue;
    case Result::Kind::argument:
      made[i] = Ref::shared(PyList_GetItem(list, static_cast<Py_ssize_t>(result.number)));
      break;
    case Result::Kind::view:
      made[i] = call(view, PyList_GetItem(list, static_cast<Py_ssize_t>(result.number)), result.sizes.get(),
                     result.strides.get(), result.offset.get());
      break;
    case Result::Kind::part:
      made[i] = call(view, made[result.number].get(), result.sizes.get(), result.strides.get(), result.offset.get());
      break;
    case Result::Kind::object:
      made[i] = result.object;
      break;
    }
    check(PyList_Append(given.get(), made[i].get()) == 0);
  }
  return given;
}

} // namespace tcc::python
