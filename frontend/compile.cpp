// Function: trace, look up, on a miss compile and load, run.
#include "frontend/compile.h"
#include "codegen/check_device.h"
#include "frontend/capture.h"
#include "frontend/compile_options.h"
#include "frontend/graph_file.h"
#include "frontend/graph_values.h"
#include "frontend/loss_scaling.h"
#include "frontend/product_choice.h"
#include "frontend/remarks.h"
#include "frontend/storage.h"
#include "frontend/trace.h"
#include "mlir/IR/Verifier.h"
#include "runtime/executable.h"
#include "runtime/files.h"
#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>

namespace tcc {
namespace {

using Clock = std::chrono::steady_clock;

double millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

} // namespace

void detail::checkArgumentCount(const std::string &name, size_t expected, size_t seen) {
  if (expected != seen)
    throw Error("'" + name + "' is called with " + std::to_string(seen) + " arguments; it takes " +
                std::to_string(expected));
}

struct Function::Impl {
  Impl(std::string name, Traced fn, FunctionOptions options)
      : name(std::move(name)), fn(std::move(fn)), options(std::move(options)),
        device(this->options.device ? this->options.device : runtime::makeCpuDevice()),
        cache(this->options.cacheBytes, this->options.report, device->cachedBytes()) {
    if (std::optional<std::string> chosen = chooseProducts(this->options, device->codeTarget()))
      say("'" + this->name + "' multiplies " + *chosen);
    if (this->options.products == runtime::DType::f16)
      for (const char *state : lossScalingStates)
        scaling.emplace_back(state, Shape());
  }

  std::string name;
  Traced fn;
  FunctionOptions options;
  std::shared_ptr<runtime::Device> device;
  Tracer tracer;
  runtime::GuardedCache<runtime::Executable> cache;
  std::vector<State> scaling; // of the loss, with products of f16
  std::vector<std::string> inputNames;
  std::vector<ValueType> inputTypes; // of the last call
  Recorded recorded;
  std::vector<runtime::Guard> guards;
  std::shared_ptr<runtime::Executable> current;
  std::map<const runtime::Executable *, std::map<std::string, ValueHint>> hints; // in checked mode
  CompileSummary summary;
  std::string reason;
  CallCounters counts;
  runtime::Profiler *profiler = nullptr;
  std::atomic<bool> busy = false;

  void say(const std::string &text) const {
    if (options.report)
      options.report(text);
    else
      std::fprintf(stderr, "tcc: %s\n", text.c_str());
  }
  void trace(std::span<const Array> arguments);
  mlir::OwningOpRef<mlir::ModuleOp> module() const;
  std::vector<State> states() const;
  void hashAndGuards();
  std::shared_ptr<runtime::Executable> compile();
  void prepare(std::span<const Array> arguments);
  std::vector<Array> runInPlace(std::span<const runtime::ConstTensorRef> inputs);
  std::vector<Array> startElsewhere(std::span<const runtime::ConstTensorRef> inputs);
  void tellRemarks(Remarks &remarks, const runtime::Plan &plan, mlir::MLIRContext &context) const;
  void checkIndices(std::span<const Array> arguments);
  [[noreturn]] void refuseRun(const runtime::Error &error) const;
};

namespace {

/// Keeps a Function to one thread at a time, by refusing the second.
class Turn {
public:
  Turn(std::atomic<bool> &busy, const std::string &name) : busy(busy) {
    if (busy.exchange(true))
      throw Error("'" + name +
                  "' is used while a call of it runs, by another thread or by the function that it traces; " +
                  "a Function takes one call at a time");
  }
  ~Turn() { busy = false; }
  Turn(const Turn &) = delete;
  Turn &operator=(const Turn &) = delete;

private:
  std::atomic<bool> &busy;
};

} // namespace

Function::Impl &Function::held() const {
  if (!impl)
    throw Error("a Function that was moved from is used; the one that it was moved to can be");
  return *impl;
}

void Function::Impl::trace(std::span<const Array> arguments) {
  std::vector<ValueType> types;
  for (const Array &argument : arguments)
    types.push_back({argument.dtype(), argument.shape()});
  for (size_t i = inputNames.size(); i < types.size(); ++i)
    inputNames.push_back(i < options.inputs.size() ? options.inputs[i] : "arg" + std::to_string(i));
  inputNames.resize(types.size());
  recorded = tracer.record(fn, types, inputNames);
  inputTypes = std::move(types);
  ++counts.traces;
}

/// What the executable assumes, cheapest first to compare.
void Function::Impl::hashAndGuards() {
  using runtime::GuardKind;
  guards.clear();
  guards.push_back({.kind = GuardKind::program, .what = name, .value = recorded.hash, .file = {}});
  const Record &record = *recorded.record;
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
                      .file = literal.loc.file_name(),
                      .line = literal.loc.line()});
}

/// The recorded function, its loss scaled where products are of f16.
mlir::OwningOpRef<mlir::ModuleOp> Function::Impl::module() const {
  mlir::OwningOpRef<mlir::ModuleOp> made = buildModule(*recorded.record, name, options.outputs, threadContext());
  if (options.products == runtime::DType::f16)
    scaleLoss(graphFunction(*made));
  return made;
}

/// In the order of the executable's.
std::vector<State> Function::Impl::states() const {
  std::vector<State> list;
  for (const Record::Argument &argument : recorded.record->arguments)
    if (argument.state)
      list.push_back(argument.state);
  if (list.size() < current->plan().states.size())
    list.insert(list.end(), scaling.begin(), scaling.end());
  return list;
}

std::shared_ptr<runtime::Executable> Function::Impl::compile() {
  const Clock::time_point start = Clock::now();
  mlir::MLIRContext &context = threadContext();
  std::string text, error;
  llvm::raw_string_ostream stream(text);
  DiagnosticPrinter printer(stream);
  ScopedDiagnostics diagnostics(&context, printer);
  auto refuse = [&](const std::string &message) {
    throw Error("'" + name + "' cannot be compiled: " + (message.empty() ? text : text + message));
  };

  // 1. Module.
  mlir::OwningOpRef<mlir::ModuleOp> module = this->module();
  if (failed(mlir::verify(*module)) || failed(verifyGraph(*module)))
    refuse({});

  std::map<std::string, ValueHint> uses;
  if (options.checked)
    uses = valueHints(graphFunction(*module));

  // 2. Artefact.
  CompileOptions compileOptions;
  applyFlags(options, compileOptions);
  compileOptions.targetName = device->codeTarget();
  CompileReport report;
  Remarks remarks;
  if (wantsRemarks(options))
    compileOptions.pipeline.remarks = &remarks;
  std::optional<runtime::Artefact> artefact = compileModule(*module, compileOptions, report, error);
  if (!artefact)
    refuse(error);
  if (wantsRemarks(options))
    tellRemarks(remarks, artefact->targets[0].plan, context);

  // 3. Executable.
  const Clock::time_point loading = Clock::now();
  auto executable =
      runtime::Executable::load(std::move(*artefact), {options.threads, options.checked, device, options.separate});
  if (!executable)
    refuse(executable.error().message());
  if (options.checked)
    hints[executable->get()] = std::move(uses);
  summary.capturedOps = report.pipeline.capturedOps;
  summary.kernels = report.pipeline.kernels;
  summary.matmuls = report.pipeline.matmuls;
  summary.arenaBytes = report.pipeline.arenaBytes;
  summary.plannedBytes = (*executable)->plannedBytes();
  summary.pipelineMs = report.pipelineMs;
  summary.codegenMs = report.codegenMs;
  summary.loadMs = millisecondsSince(loading);
  summary.totalMs = millisecondsSince(start) + summary.traceMs;
  return std::move(*executable);
}

/// To the report or stderr, and to the record's file; one that cannot be written is said, and compiling goes on.
void Function::Impl::tellRemarks(Remarks &remarks, const runtime::Plan &plan, mlir::MLIRContext &context) const {
  if (wantsCosts(options))
    addCostRemarks(plan, context, remarks);
  remarks = summarized(remarks);
  std::string text;
  llvm::raw_string_ostream stream(text);
  DiagnosticPrinter printer(stream, !this->options.report && useColor("auto"));
  printRemarks(remarks, options, printer);
  if (options.report && !text.empty())
    options.report(llvm::StringRef(text).rtrim('\n'));
  else
    std::fputs(text.c_str(), stderr);
  if (options.saveRemarks)
    if (runtime::Error problem =
            runtime::writeFileAtomically(optimizationRecordPath(options, name), optimizationRecord(remarks, name)))
      say(problem.message());
}

void Function::Impl::prepare(std::span<const Array> arguments) {
  ++counts.calls;
  reason.clear();
  if (options.frozen && current) {
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
  hashAndGuards();
  const uint64_t hash = runtime::hashGuards(guards);
  current = cache.find(guards, hash);
  if (current)
    return;
  reason = cache.lastMissReason();
  summary = {};
  summary.traceMs = millisecondsSince(start);
  current = compile();
  cache.insert(guards, hash, current, current->ownBytes());
}

Function::Function(std::string name, Traced fn, FunctionOptions options)
    : impl(std::make_unique<Impl>(std::move(name), std::move(fn), std::move(options))) {}
Function::~Function() = default;
Function::Function(Function &&) noexcept = default;
Function &Function::operator=(Function &&) noexcept = default;

/// A step on the host's own memory: results get memory of their own, states are updated in place.
std::vector<Array> Function::Impl::runInPlace(std::span<const runtime::ConstTensorRef> inputs) {
  std::vector<Array> results;
  std::vector<runtime::TensorRef> outputs, states;
  for (const runtime::TensorSpec &spec : current->plan().outputs) {
    results.push_back(Array::uninitialized(Shape(spec.shape), spec.dtype));
    outputs.push_back({results.back().raw(), results.back().bytes()});
  }
  for (const State &state : this->states())
    states.push_back({state.raw(), state.bytes()});
  if (runtime::Error error = current->run(inputs, outputs, states, profiler))
    refuseRun(error);
  return results;
}

/// A step on a device with memory of its own: states live there, results arrive when they are read.
std::vector<Array> Function::Impl::startElsewhere(std::span<const runtime::ConstTensorRef> inputs) {
  std::vector<runtime::TensorRef> states;
  const std::vector<State> used = this->states();
  for (const State &state : used) {
    runtime::Expected<char *> address = detail::memoryOf(state).onDevice(device);
    if (!address)
      refuseRun(runtime::Error("state '" + state.name() + "': " + address.error().message()));
    states.push_back({*address, state.bytes()});
  }
  auto outputs = current->start(inputs, states, profiler);
  if (!outputs && device->isClosed())
    refuseRun(outputs.error());
  for (const State &state : used)
    detail::memoryOf(state).deviceWrote(options.checked);
  if (!outputs)
    refuseRun(outputs.error());
  std::vector<Array> results;
  for (const runtime::TensorSpec &spec : current->plan().outputs)
    results.push_back(detail::arrayOf(Shape(spec.shape), spec.dtype,
                                      runtime::MirroredTensor(*outputs, results.size(), spec.bytes())));
  return results;
}

void Function::Impl::refuseRun(const runtime::Error &error) const {
  throw Error("'" + name + "' cannot be run: " + error.message());
}

/// Throws Error for the first index that would make NaN.
void Function::Impl::checkIndices(std::span<const Array> arguments) {
  for (size_t i = 0; i < arguments.size(); ++i)
    if (std::string wrong = invalidIndex(inputNames[i], hints[current.get()][inputNames[i]], arguments[i]);
        !wrong.empty())
      throw Error("'" + name + "' is not run: " + wrong);
}

std::vector<Array> Function::call(std::span<const Array> arguments) {
  const Turn turn(held().busy, impl->name);
  impl->prepare(arguments);
  if (impl->options.checked)
    impl->checkIndices(arguments);
  std::vector<runtime::ConstTensorRef> inputs;
  for (const Array &argument : arguments)
    inputs.emplace_back(argument.rawForReading(), argument.bytes());
  return impl->device->sharesHostMemory() ? impl->runInPlace(inputs) : impl->startElsewhere(inputs);
}

runtime::Plan Function::plan(std::span<const Array> arguments) {
  const Turn turn(held().busy, impl->name);
  impl->current = nullptr;
  impl->trace(arguments);
  std::string text, error;
  llvm::raw_string_ostream stream(text);
  DiagnosticPrinter printer(stream);
  ScopedDiagnostics diagnostics(&threadContext(), printer);
  const mlir::OwningOpRef<mlir::ModuleOp> module = impl->module();
  CompileOptions options;
  applyFlags(impl->options, options);
  options.targetName = impl->device->codeTarget();
  std::optional<runtime::Plan> plan;
  if (succeeded(mlir::verify(*module)) && succeeded(verifyGraph(*module)))
    plan = compilePlan(*module, options, error);
  if (!plan)
    throw Error("'" + impl->name + "' cannot be compiled: " + text + error);
  return std::move(*plan);
}

void Function::prepare(std::span<const Array> arguments) {
  const Turn turn(held().busy, impl->name);
  impl->prepare(arguments);
}

std::string Function::checkDevice(std::span<const Array> arguments) {
  const Turn turn(held().busy, impl->name);
  impl->trace(arguments);
  impl->current = nullptr; // a frozen function traces again
  const auto bytesOf = [](const void *data, int64_t bytes) {
    return std::string(static_cast<const char *>(data), static_cast<size_t>(bytes));
  };
  std::map<std::string, std::string> values;
  for (size_t i = 0; i < arguments.size(); ++i)
    values[impl->inputNames[i]] = bytesOf(arguments[i].rawForReading(), arguments[i].bytes());
  for (const Record::Argument &argument : impl->recorded.record->arguments)
    if (argument.state)
      values[argument.name] = bytesOf(argument.state.rawForReading(), argument.state.bytes());
  CompileOptions options;
  applyFlags(impl->options, options);
  std::string error;
  auto module = buildModule(*impl->recorded.record, impl->name, impl->options.outputs, threadContext());
  const std::optional<DeviceCheck> check = tcc::checkDevice(
      *module, options, impl->device, [&](const runtime::TensorSpec &spec, bool) { return values.at(spec.name); },
      error);
  if (!check)
    throw Error("'" + impl->name + "' cannot be checked: " + error);
  if (!check->difference.empty())
    throw Error("'" + impl->name + "': " + check->text(impl->device->name()));
  return check->text(impl->device->name());
}

std::string Function::graph(std::span<const Array> arguments) {
  const Turn turn(held().busy, impl->name);
  impl->trace(arguments);
  impl->current = nullptr; // a frozen function traces again
  return graphText(*impl->module());
}

const CompileSummary &Function::lastCompile() const {
  return held().summary;
}

CallCounters Function::counters() const {
  CallCounters counts = held().counts;
  counts.opsRecorded = impl->tracer.opsRecorded();
  counts.cache = impl->cache.counters();
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
