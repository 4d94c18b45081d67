#include "python/src/step.h"
#include "python/src/result_memory.h"
#include "runtime/step_parts.h"
#include <algorithm>
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

constexpr int64_t keptBytes = 1 << 16; // a result of at least so many bytes lies in ResultMemory

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

struct Scopes {
  int depth = 0;
  std::vector<CompiledGraph> ended;
};
thread_local Scopes scopes;

} // namespace

TurnScope::TurnScope() {
  ++scopes.depth;
}

TurnScope::~TurnScope() {
  if (--scopes.depth == 0)
    scopes.ended.clear();
}

void TurnScope::end(CompiledGraph graph) {
  if (scopes.depth > 0)
    scopes.ended.push_back(std::move(graph));
}

/// The executable's end waits for the device's turn. No step after it may take results of its sizes.
Step::~Step() {
  const WithoutGil free;
  TurnScope::end(std::move(graph));
  ResultMemory::ofProcess().trim();
}

Call::Call(std::shared_ptr<Step> ofStep, PyObject *argumentList, PyObject *resultList, Ref allocate, Ref copy, Ref view,
           bool takes)
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
  stages.emplace_back();
  for (size_t i = 0; i < results.size(); ++i)
    if (isMade(results[i]))
      stages.front().made.push_back(i);
  if (takes && step->device.device_type == kDLCPU)
    cutIntoStages();
}

/// A stage begins where enough memory can be let go since the last one began. Each costs the time of some ten kernels'
/// calls.
void Call::cutIntoStages() {
  constexpr int64_t leastBytes = 4 << 20, mostStages = 40;
  const runtime::Plan &plan = step->graph.executable->plan();
  const runtime::TensorTimes times = runtime::tensorTimes(plan);
  std::vector<bool> isGiven(arguments.size());
  for (const Result &result : results)
    if (result.kind == Result::Kind::argument || result.kind == Result::Kind::view)
      isGiven[result.number] = true;
  std::vector<std::pair<size_t, size_t>> ends; // (instruction, argument)
  int64_t all = 0;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (!isGiven[i] && arguments[i].place != Argument::Place::state) {
      const bool isRead = arguments[i].place == Argument::Place::input;
      ends.emplace_back(isRead ? times.inputEnds[arguments[i].number] : 0, i);
      all += isRead ? plan.inputs[arguments[i].number].bytes() : 0;
    }
  std::sort(ends.begin(), ends.end());
  int64_t waiting = 0;
  std::vector<size_t> gone;
  for (size_t n = 0; n < ends.size() && ends[n].first < plan.instructions.size(); ++n) {
    const auto [end, argument] = ends[n];
    if (end == 0) {
      stages.front().gone.push_back(argument);
      continue;
    }
    gone.push_back(argument);
    waiting += plan.inputs[arguments[argument].number].bytes();
    const bool isLastOfEnd = n + 1 == ends.size() || ends[n + 1].first != end;
    if (isLastOfEnd && waiting >= std::max(leastBytes, all / mostStages)) {
      stages.push_back({end, std::exchange(gone, {}), {}});
      waiting = 0;
    }
  }
  for (const size_t result : std::exchange(stages.front().made, {})) {
    const size_t begin = times.outputBegins[results[result].number];
    const auto after = std::upper_bound(stages.begin() + 1, stages.end(), begin,
                                        [](size_t at, const Stage &stage) { return at < stage.begin; });
    std::prev(after)->made.push_back(result);
  }
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

struct Call::Running {
  PyObject *list;
  std::vector<runtime::ConstTensorRef> inputs;
  std::vector<runtime::TensorRef> states, outputs;
  std::vector<Ref> copies;                  // of arguments that could not be used as they are
  std::vector<std::pair<Ref, Ref>> putBack; // a state's copy, and the argument that it belongs to
  std::vector<Ref> made;                    // one a result
};

Ref Call::run(PyObject *list) {
  const runtime::Plan &plan = step->graph.executable->plan();
  const Py_ssize_t count = PyList_Size(list);
  check(count >= 0);
  if (static_cast<size_t>(count) != arguments.size())
    raise(PyExc_TypeError, "'" + step->name + "' takes " + std::to_string(arguments.size()) + " arguments, not " +
                               std::to_string(count));
  Running running{.list = list,
                  .inputs = std::vector<runtime::ConstTensorRef>(plan.inputs.size()),
                  .states = std::vector<runtime::TensorRef>(plan.states.size()),
                  .outputs = std::vector<runtime::TensorRef>(plan.outputs.size()),
                  .copies = {},
                  .putBack = {},
                  .made = std::vector<Ref>(results.size())};
  for (size_t i = 0; i < plan.outputs.size(); ++i)
    running.outputs[i].bytes = plan.outputs[i].bytes();
  fillArguments(running);
  enter(stages.front(), running);
  if (const runtime::Error error = execute(running))
    raise(PyExc_RuntimeError, "'" + step->name + "' failed: " + error.message());
  for (const auto &[tensor, argument] : running.putBack)
    call(copy, tensor.get(), Py_None, argument.get());
  return give(running);
}

void Call::fillArguments(Running &running) {
  const runtime::Plan &plan = step->graph.executable->plan();
  const auto isUsable = [&, alignment = step->alignment()](const DLTensor &seen, const Layout &layout) {
    return hasLayout(seen, layout, step->device) && reinterpret_cast<uintptr_t>(seen.data) % alignment == 0;
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument &argument = arguments[i];
    if (argument.place == Argument::Place::none)
      continue;
    PyObject *object = PyList_GetItem(running.list, static_cast<Py_ssize_t>(i));
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
        running.putBack.emplace_back(made, Ref::shared(object));
      running.copies.resize(arguments.size());
      running.copies[i] = std::move(made);
    }
    if (argument.place == Argument::Place::input)
      running.inputs[argument.number] = {seen.data, plan.inputs[argument.number].bytes()};
    else
      running.states[argument.number] = {seen.data, plan.states[argument.number].bytes()};
  }
}

/// Lets go what is gone, and allocates the stage's results.
void Call::enter(const Stage &stage, Running &running) const {
  const runtime::Plan &plan = step->graph.executable->plan();
  for (const size_t i : stage.gone) {
    if (arguments[i].place == Argument::Place::input)
      running.inputs[arguments[i].number].data = nullptr;
    if (!running.copies.empty())
      running.copies[i] = {};
    check(PyList_SetItem(running.list, static_cast<Py_ssize_t>(i), Ref::shared(Py_None).release()) == 0);
  }
  for (const size_t i : stage.made) {
    const Result &result = results[i];
    const int64_t bytes = plan.outputs[result.number].bytes();
    Ref &made = running.made[i];
    if (step->device.device_type == kDLCPU && bytes >= keptBytes)
      made = tensorOfResultMemory(result.layout, static_cast<size_t>(bytes));
    if (!made)
      made = Ref::made(PyObject_CallObject(allocate.get(), result.object.get()));
    running.outputs[result.number].data = look(made.get()).data;
  }
}

runtime::Error Call::execute(Running &running) const {
  const bool isOnCpu = step->device.device_type == kDLCPU;
  void *stream = isOnCpu ? nullptr : currentStream(step->device);
  runtime::Executable &executable = *step->graph.executable;
  const WithoutGil free;
  const TurnScope scope;
  const std::lock_guard lock(step->turn);
  if (!isOnCpu)
    return executable.startOn(stream, running.inputs, running.outputs, running.states);
  if (stages.size() == 1 && stages.front().gone.empty())
    return executable.run(running.inputs, running.outputs, running.states);
  runtime::Stops stops;
  for (size_t i = 1; i < stages.size(); ++i)
    stops.at.push_back(stages[i].begin);
  stops.change = [&](size_t stop) {
    const std::string message = withGil([&] { enter(stages[stop + 1], running); });
    return message.empty() ? runtime::Error::success() : runtime::Error(message);
  };
  return executable.run(running.inputs, running.outputs, running.states, stops);
}

Ref Call::give(Running &running) const {
  std::vector<Ref> &made = running.made;
  Ref given = Ref::made(PyList_New(0));
  for (size_t i = 0; i < results.size(); ++i) {
    const Result &result = results[i];
    switch (result.kind) {
    case Result::Kind::fresh:
      break;
    case Result::Kind::hidden:
      continue;
    case Result::Kind::argument:
      made[i] = Ref::shared(PyList_GetItem(running.list, static_cast<Py_ssize_t>(result.number)));
      break;
    case Result::Kind::view:
      made[i] = call(view, PyList_GetItem(running.list, static_cast<Py_ssize_t>(result.number)), result.sizes.get(),
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
