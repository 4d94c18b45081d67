// Function: trace, look up, on a miss compile and load, run.
#include "codegen/stopwatch.h"
#include "frontend/function_impl.h"
#include "frontend/loss_scaling.h"
#include "frontend/product_choice.h"
#include "frontend/run_step.h"
#include "frontend/storage.h"
#include "runtime/executable.h"
#include <algorithm>
#include <atomic>
#include <cstdio>

namespace tcc {
using Clock = std::chrono::steady_clock;

void detail::checkArgumentCount(const std::string &name, size_t expected, size_t seen) {
  if (expected != seen)
    throw Error("'" + name + "' is called with " + std::to_string(seen) + " arguments; it takes " +
                std::to_string(expected));
}

Function::Impl::Impl(std::string name, Traced fn, FunctionOptions options)
    : name(std::move(name)), fn(std::move(fn)), options(std::move(options)),
      device(this->options.device ? this->options.device : runtime::makeCpuDevice()),
      cache(
          this->options.cacheBytes, [this](std::string_view why) { say(recompileReason(std::string(why))); },
          device->cachedBytes()),
      segments(this->options.cacheBytes, [](std::string_view) {}, device->cachedBytes()) {
  if (std::optional<std::string> chosen = chooseProducts(this->options, device->codeTarget()))
    say("'" + this->name + "' multiplies " + *chosen);
  if (this->options.products == runtime::DType::f16)
    for (const char *state : lossScalingStates)
      scaling.emplace_back(state, Shape());
}

void Function::Impl::say(const std::string &text) const {
  if (options.report)
    options.report(text);
  else
    std::fprintf(stderr, "tcc: %s\n", text.c_str());
}

Function::Impl &Function::held() const {
  if (!impl)
    throw Error("a Function that was moved from is used; the one that it was moved to can be");
  return *impl;
}

/// Those of a record that `list` lacks.
static void addStates(std::vector<State> &list, const Record &record) {
  for (const Record::Argument &argument : record.arguments)
    if (argument.state && std::ranges::find(list, argument.state) == list.end())
      list.push_back(argument.state);
}

/// The one that has seen such arguments, or a new one.
void Function::Impl::chooseTracer(const std::vector<ValueType> &types) {
  constexpr size_t most = 8;
  const auto known = std::ranges::find_if(tracers, [&](const auto &entry) { return entry.first == types; });
  if (known != tracers.end()) {
    tracers.splice(tracers.begin(), tracers, known);
    return;
  }
  tracers.emplace_front(std::piecewise_construct, std::tuple(types), std::tuple());
  if (tracers.size() <= most)
    return;
  forgottenOps += tracers.back().second.opsRecorded();
  addStates(forgottenStates, tracers.back().second.running());
  tracers.pop_back();
}

std::vector<State> Function::Impl::states() const {
  std::vector<State> list = forgottenStates;
  for (auto entry = tracers.rbegin(); entry != tracers.rend(); ++entry) // the oldest first
    addStates(list, entry->second.running());
  if (!list.empty())
    list.insert(list.end(), scaling.begin(), scaling.end());
  return list;
}

/// For files. Throws Error where nothing was traced yet.
std::vector<State> Function::Impl::knownStates() const {
  if (tracers.empty())
    throw Error("'" + name + "' was not traced yet, so its states are not known; call it or prepare() it first, or " +
                "use saveStates() and loadStates() with a list of them");
  return states();
}

void Function::Impl::trace(std::span<const Array> arguments) {
  std::vector<ValueType> types;
  for (const Array &argument : arguments)
    types.push_back({argument.dtype(), argument.shape()});
  for (size_t i = inputNames.size(); i < types.size(); ++i)
    inputNames.push_back(i < options.inputs.size() ? options.inputs[i] : "arg" + std::to_string(i));
  inputNames.resize(types.size());
  wasRecorded = false;
  inputTypes = types;
  ++counts.traces;
  chooseTracer(types);
  try {
    recorded = tracer().record(fn, types, inputNames, [this](const HostRead &read) { return answer(read); });
  } catch (const Error &error) {
    showFailure(error);
    throw;
  }
  wasRecorded = true;
}

/// What the executable assumes, cheapest first to compare.
std::vector<runtime::Guard> Function::Impl::guardsOf(const Record &record, uint64_t hash) const {
  using runtime::GuardKind;
  std::vector<runtime::Guard> guards;
  guards.push_back({.kind = GuardKind::program, .what = name, .value = hash, .file = {}});
  for (size_t i = 0; i < record.inputs; ++i) {
    const Record::Argument &argument = record.arguments[i];
    guards.push_back({.kind = GuardKind::dtype, .what = argument.name, .value = argument.type.dtype, .file = {}});
    guards.push_back({.kind = GuardKind::shape,
                      .what = argument.name,
                      .value = std::span<const int64_t>(argument.type.shape),
                      .file = {}});
  }
  guards.push_back(
      {.kind = GuardKind::device, .what = "device", .value = std::string_view(device->name()), .file = {}});
  for (const Literal &literal : record.literals)
    guards.push_back({.kind = GuardKind::constant,
                      .what = {},
                      .value = literal.value,
                      .file = literal.loc.file(),
                      .line = literal.loc.line()});
  return guards;
}

/// In the order of the executable's.
std::vector<State> Function::Impl::statesOf(const Record &record, const runtime::Executable &executable) const {
  std::vector<State> list;
  for (const Record::Argument &argument : record.arguments)
    if (argument.state)
      list.push_back(argument.state);
  if (list.size() < executable.plan().states.size())
    list.insert(list.end(), scaling.begin(), scaling.end());
  return list;
}

void Function::Impl::prepare(std::span<const Array> arguments) {
  ++counts.calls;
  reason.clear();
  if (options.frozen && current && !tracesAgain) {
    bool same = arguments.size() == inputTypes.size();
    for (size_t i = 0; same && i < arguments.size(); ++i)
      same = arguments[i].dtype() == inputTypes[i].dtype && arguments[i].shape() == inputTypes[i].shape;
    if (same)
      return;
    say("'" + name + "' is frozen, but its arguments have other shapes or types than in its last call: traced again");
  }
  const Clock::time_point start = Clock::now();
  current = nullptr;
  trace(arguments);
  tracesAgain = false;
  if (!recorded.record->reads.empty())
    return;
  const double traceMs = millisecondsSince(start);
  current = executableOf(cache, *recorded.record, recorded.hash, options.outputs);
  if (!reason.empty())
    summary.traceMs = traceMs, summary.totalMs += traceMs;
}

/// From a cache, or compiled; `reason` says why.
std::shared_ptr<runtime::Executable> Function::Impl::executableOf(runtime::GuardedCache<runtime::Executable> &from,
                                                                  const Record &record, uint64_t recordHash,
                                                                  std::span<const std::string> outputs) {
  const std::vector<runtime::Guard> guards = guardsOf(record, recordHash);
  const uint64_t hash = runtime::hashGuards(guards);
  const bool isStep = &from == &cache;
  now.isNewProgram = isStep && !programs.contains(recordHash);
  if (auto known = from.find(guards, hash))
    return known;
  reason = isStep ? recompileReason(from.lastMissReason()) : from.lastMissReason();
  summary = {};
  if (isStep && from.size() > 0)
    noteRecompile(reason);
  auto executable = compile(record, outputs);
  if (isStep)
    programs.insert(recordHash);
  from.insert(guards, hash, executable, executable->ownBytes());
  return executable;
}

Function::Function(std::string name, Traced fn, FunctionOptions options)
    : impl(std::make_unique<Impl>(std::move(name), std::move(fn), std::move(options))) {}
Function::~Function() = default;
Function::Function(Function &&) noexcept = default;
Function &Function::operator=(Function &&) noexcept = default;

std::vector<Array> Function::Impl::runInPlace(runtime::Executable &executable, std::span<const State> states,
                                              std::span<const runtime::ConstTensorRef> inputs) {
  auto results = runStepInPlace(executable, states, inputs, profiler);
  if (!results)
    refuseRun(results.error());
  return std::move(*results);
}

/// A step on a device with memory of its own: states live there, results arrive when they are read.
std::vector<Array> Function::Impl::startElsewhere(runtime::Executable &executable, std::span<const State> used,
                                                  std::span<const runtime::ConstTensorRef> inputs) {
  runtime::PartialStep whole;
  const runtime::Plan &plan = executable.plan();
  return *startPart(executable, used, inputs, whole, plan.instructions.size(), plan.outputs.size());
}

/// Goes on with a step there up to before instruction `end`; the first `count` results, which arrive when they are
/// read. None where another step has used the device meanwhile.
std::optional<std::vector<Array>> Function::Impl::startPart(runtime::Executable &executable,
                                                            std::span<const State> used,
                                                            std::span<const runtime::ConstTensorRef> inputs,
                                                            runtime::PartialStep &step, size_t end, size_t count) {
  auto results = startStepPart(executable, used, inputs, {step, end, count}, profiler, options.checked);
  if (!results)
    refuseRun(results.error());
  return std::move(*results);
}

void Function::Impl::refuseRun(const runtime::Error &error) const {
  throw Error("'" + name + "' cannot be run: " + error.message());
}

/// Throws Error for the first index that would make NaN.
void Function::Impl::checkIndices(const runtime::Executable &executable, const Record &record,
                                  std::span<const Array> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string &given = record.arguments[i].name;
    if (std::string wrong = invalidIndex(given, hints[&executable][given], inputs[i]); !wrong.empty())
      throw Error("'" + name + "' is not run: " + wrong);
  }
}

/// The record's outputs, for inputs in its order.
std::vector<Array> Function::Impl::run(runtime::Executable &executable, const Record &record,
                                       std::span<const Array> arrays) {
  if (options.checked)
    checkIndices(executable, record, arrays);
  std::vector<runtime::ConstTensorRef> inputs;
  for (const Array &array : arrays)
    inputs.emplace_back(array.rawForReading(), array.bytes());
  const std::vector<State> states = statesOf(record, executable);
  return device->sharesHostMemory() ? runInPlace(executable, states, inputs)
                                    : startElsewhere(executable, states, inputs);
}

std::vector<Array> Function::call(std::span<const Array> arguments) {
  const Impl::Turn turn(held());
  const Impl::CallScope scope(*impl, arguments);
  impl->prepare(arguments);
  std::vector<Array> results = impl->recorded.record->reads.empty()
                                   ? impl->run(*impl->current, *impl->recorded.record, arguments)
                                   : impl->finish();
  impl->warnIfAlwaysCompiled();
  return results;
}

std::vector<Tensor> Function::inlined(std::span<const Tensor> arguments) {
  const Impl::Turn turn(held());
  return impl->fn(arguments);
}

void Function::prepare(std::span<const Array> arguments) {
  const Impl::Turn turn(held());
  const Impl::CallScope scope(*impl, arguments);
  impl->prepareFirst(arguments);
}

std::vector<State> Function::states() const {
  const Impl::Turn turn(held());
  return impl->states();
}

void Function::save(const std::string &path) const {
  const Impl::Turn turn(held());
  saveStates(path, impl->knownStates());
}

void Function::load(const std::string &path, Others others) {
  const Impl::Turn turn(held());
  loadStates(path, impl->knownStates(), others);
}

const CompileSummary &Function::lastCompile() const {
  return held().summary;
}

BreakReport Function::report() const {
  return held().breakReport();
}

BreakReport Function::measureBreaks(std::span<const Array> arguments, int runs) {
  const Impl::Turn turn(held());
  return impl->measureBreaks(arguments, runs);
}

CallCounters Function::counters() const {
  CallCounters counts = held().counts;
  counts.opsRecorded = impl->forgottenOps;
  for (const auto &[types, tracer] : impl->tracers)
    counts.opsRecorded += tracer.opsRecorded();
  counts.cache = impl->cache.counters();
  const runtime::CacheCounters &parts = impl->segments.counters();
  counts.cache.hits += parts.hits;
  counts.cache.misses += parts.misses;
  counts.cache.evictions += parts.evictions;
  return counts;
}

const std::vector<State> &Function::lossScaling() const {
  return held().scaling;
}

const std::string &Function::missReason() const {
  return held().reason;
}

std::shared_ptr<runtime::Executable> Function::executable() const {
  return held().current;
}

void Function::profile(runtime::Profiler *profiler) {
  held().profiler = profiler;
}

} // namespace tcc
