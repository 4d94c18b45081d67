// Gives a step its tensors, runs it, and takes times.
#include "frontend/driver/stage.h"
#include "frontend/run_step.h"
#include "runtime/printed.h"
#include "llvm/Support/Format.h"
#include <chrono>
#include <cstdio>
#include <cstring>

namespace tcc::driver {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int warmUpRuns = 3;
constexpr double warmUpMs = 1000; // a step that takes longer needs fewer runs

double millisecondsFrom(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

State stateOf(const runtime::TensorSpec &spec, const Array &value) {
  State state(spec.name, Shape(spec.shape), spec.dtype);
  std::memcpy(state.raw(), value.rawForReading(), static_cast<size_t>(value.bytes()));
  return state;
}

/// The element of `known` with the tensor's name. If there is none of its shape and type, make() gives a new one.
template <typename T, typename Make>
T elementFor(std::map<std::string, T> *known, const runtime::TensorSpec &spec, Make make) {
  if (!known)
    return make();
  T &element = (*known)[spec.name];
  if (!element || element.shape() != Shape(spec.shape) || element.dtype() != spec.dtype)
    element = make();
  return element;
}

} // namespace

Stage::Stage(runtime::Executable &executable, const RunValues &values, uint64_t seed, SharedTensors *shared,
             runtime::Trace *timeLine)
    : executable(executable), plan(executable.plan()), values(values), seed(seed), timeLine(timeLine) {
  for (const runtime::TensorSpec &spec : plan.inputs)
    inputs.push_back(elementFor(shared ? &shared->inputs : nullptr, spec, [&] { return values.of(spec, seed, 1); }));
  for (const runtime::TensorSpec &spec : plan.states)
    states.push_back(
        elementFor(shared ? &shared->states : nullptr, spec, [&] { return stateOf(spec, values.of(spec, seed, 1)); }));
  for (const runtime::TensorSpec &spec : plan.outputs)
    outputs.push_back(Array(Shape(spec.shape), spec.dtype));
}

/// Counts the run, and gives it to the inputs that hold the number of a training step, unless the user has given their
/// values. All other inputs stay as they are.
void Stage::nextInputs() {
  ++run;
  for (size_t i = 0; i < inputs.size() && run > 1; ++i) {
    const std::string &name = plan.inputs[i].name;
    const auto hint = values.hints.find(name);
    if (hint != values.hints.end() && hint->second.kind == ValueHint::Kind::stepCount && !values.given.count(name))
      inputs[i] = values.of(plan.inputs[i], seed, run);
  }
}

void Stage::step(runtime::Profiler *recorder) {
  nextInputs();
  const runtime::TraceScope traced(timeLine, "run", "train", {{"run", run}});
  std::vector<runtime::ConstTensorRef> in;
  std::vector<runtime::TensorRef> out, state;
  for (const Array &array : inputs)
    in.emplace_back(array.rawForReading(), array.bytes());
  for (const Array &array : outputs)
    out.push_back({array.raw(), array.bytes()});
  for (const State &each : states)
    state.push_back({each.raw(), each.bytes()});
  llvm::outs().flush(); // a step may print
  if (runtime::Error error = executable.run(in, out, state, recorder))
    throw Error(error.message());
  std::fflush(stdout);
}

void Stage::timedStep(runtime::Profiler *recorder) {
  if (executable.device()->sharesHostMemory())
    return step(recorder);
  nextInputs();
  const runtime::TraceScope traced(timeLine, "run", "train", {{"run", run}});
  std::vector<runtime::ConstTensorRef> in;
  for (const Array &array : inputs)
    in.emplace_back(array.rawForReading(), array.bytes());
  runtime::PartialStep whole;
  auto started = startStepPart(executable, states, in, {whole, plan.instructions.size(), plan.outputs.size()}, recorder,
                               /*checked=*/false);
  if (!started)
    throw Error(started.error().message());
  // There are no outputs if another step has used the device meanwhile, which no process of tcc does: it runs one step
  // after another.
  if (*started)
    outputs = std::move(**started);
  if (runtime::Error error = executable.finish())
    throw Error(error.message());
}

void Stage::warmUp() {
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < warmUpRuns && (i == 0 || millisecondsFrom(start) < warmUpMs); ++i)
    timedStep(nullptr);
}

std::vector<double> Stage::times(int64_t runs, runtime::Profiler *recorder) {
  std::vector<double> list;
  for (int64_t i = 0; i < runs; ++i) {
    const Clock::time_point start = Clock::now();
    timedStep(recorder);
    list.push_back(millisecondsFrom(start));
  }
  return list;
}

void Stage::printScalars() const {
  llvm::outs() << "run " << run << ':';
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].shape().empty() && !runtime::printedAs(plan.outputs[i]))
      llvm::outs() << ' ' << plan.outputs[i].name << ' ' << llvm::format("%.6g", outputs[i].item());
  llvm::outs() << '\n';
}

std::vector<NamedArray> Stage::results() const {
  std::vector<NamedArray> list;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (!runtime::printedAs(plan.outputs[i]))
      list.push_back({plan.outputs[i].name, outputs[i]});
  for (const State &state : states)
    list.push_back({state.name(), Array::wrap(const_cast<void *>(state.rawForReading()), state.shape(), state.dtype(),
                                              std::make_shared<State>(state))});
  return list;
}

} // namespace tcc::driver
