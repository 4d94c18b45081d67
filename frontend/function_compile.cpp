// Compiles what a Function has recorded: for its calls, for a plan alone, for checks, and as text.
#include "codegen/check_device.h"
#include "codegen/find_nan.h"
#include "codegen/graph_digest.h"
#include "codegen/library/step_library.h"
#include "codegen/stopwatch.h"
#include "codegen/targets.h"
#include "codegen/time_trace.h"
#include "frontend/capture.h"
#include "frontend/compile_options.h"
#include "frontend/compile_summary.h"
#include "frontend/diagnostics.h"
#include "frontend/function_impl.h"
#include "frontend/graph_file.h"
#include "frontend/loss_scaling.h"
#include "frontend/remarks.h"
#include "frontend/report/report.h"
#include "frontend/state_parts.h"
#include "ir/lanes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Verifier.h"
#include "passes/stages.h"
#include "runtime/executable_limits.h"
#include "runtime/files.h"
#include "runtime/flights.h"
#include "runtime/memory_report.h"
#include "runtime/ranks/ranks.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/xxhash.h"

namespace tcc {

/// In an artefact's metadata: the digest of the graph that it was compiled from.
static const std::string graphKey = "graph";

/// A recorded function, its loss scaled where matmuls are of f16.
mlir::OwningOpRef<mlir::ModuleOp> Function::Impl::module(const Record &record, std::span<const std::string> outputs,
                                                         bool showsReads) const {
  mlir::OwningOpRef<mlir::ModuleOp> made = buildModule(record, name, outputs, threadContext(), showsReads);
  if (options.products == runtime::DType::f16)
    scaleLoss(functionOf(*made));
  return made;
}

/// How many lanes each tcc.lanes of the function has.
static std::set<int64_t> laneCounts(mlir::ModuleOp module) {
  std::set<int64_t> counts;
  functionOf(module).walk([&](LanesOp op) { counts.insert(static_cast<int64_t>(op.getCount())); });
  return counts;
}

/// Whether ranks may share out the function. Its values must then have the same bits in programs that compute different
/// parts of it.
static bool hasSeveralLanes(mlir::ModuleOp module) {
  return llvm::any_of(laneCounts(module), [](int64_t count) { return count > 1; });
}

/// What this rank computes of the function's lanes.
RankShare Function::Impl::shareOf(mlir::ModuleOp module) const {
  RankShare share;
  if (!options.ranks || options.ranks->count() == 1)
    return share;
  const std::set<int64_t> counts = laneCounts(module);
  if (counts.empty())
    return share;
  share = {options.ranks->count(), options.ranks->rank(), options.fastReduce, options.zero};
  if (options.zero > 0) // each rank has parts of its own
    return share;
  if (counts.size() == 1 && *counts.begin() >= share.count) // else distribute says what is wrong
    share.rank = firstAlike(*counts.begin(), share.count, share.rank);
  return share;
}

/// One compilation of a record. What goes wrong is thrown: "'step' cannot be compiled: …", diagnostics first.
class Function::Impl::Compilation {
public:
  /// `task`: what cannot be done then, such as "compiled".
  Compilation(const Impl &function, const Record &record, std::span<const std::string> outputs,
              std::string task = "compiled", Report *page = nullptr)
      : function(function), task(std::move(task)), stream(text), printer(stream),
        diagnostics(&threadContext(), printer) {
    if (page)
      page->listenTo(printer);
    applyFlags(function.options, options);
    options.targetName = withArchitecture(function.device->codeTarget(), function.options.march);
    module = function.module(record, outputs);
    const bool isSteady = record.steady || hasSeveralLanes(*module);
    options.code.steady = record.asked > 0 || isSteady;
    options.pipeline.ranks = function.shareOf(*module);
    options.allowCustomCode = true; // the program's own
    if (failed(mlir::verify(*module)) || failed(verifyGraph(*module)))
      refuse({});
    mlir::func::FuncOp made = functionOf(*module);
    if (record.asked > 0)
      made->setAttr(askedAttr, mlir::Builder(made.getContext()).getI64IntegerAttr(static_cast<int64_t>(record.asked)));
    if (isSteady)
      made->setAttr(steadyAttr, mlir::UnitAttr::get(made.getContext()));
  }

  template <typename T>
  T orRefuse(runtime::Expected<T> made) const {
    if (!made)
      refuse(made.error().message());
    return std::move(*made);
  }

  [[noreturn]] void refuse(const std::string &message) const {
    throw Error("'" + function.name + "' cannot be " + task + ": " + text + message);
  }

  /// For a look at the step without the other ranks: the values are those that one process computes.
  void takeAllLanes() { options.pipeline.ranks = {}; }

  std::string digest() const { return graphDigest(*module, function.options.productName()); }

  /// What function.options.compiledStep holds, if that is this step.
  runtime::Expected<runtime::Artefact> stepOfFile() const {
    const std::string &path = function.options.compiledStep;
    auto artefact = runtime::readArtefact(path);
    if (!artefact)
      return artefact;
    const auto known = artefact->metadata.find(graphKey);
    if (known == artefact->metadata.end())
      return runtime::Error(path + " does not say which step it holds; Function::exportLibrary and train_gpt "
                                   "--compile-only write files that do");
    if (known->second != digest())
      return runtime::Error(path + " holds another step: model, shapes, optimizer or element types differ from those "
                                   "that it was compiled for");
    return artefact;
  }

  mlir::OwningOpRef<mlir::ModuleOp> module;
  CompileOptions options;

private:
  const Impl &function;
  std::string task, text;
  llvm::raw_string_ostream stream;
  DiagnosticPrinter printer;
  ScopedDiagnostics diagnostics;
};

std::shared_ptr<runtime::Executable> Function::Impl::compile(const Record &record,
                                                             std::span<const std::string> outputs) {
  Report page(name);
  try {
    return compileFor(page, record, outputs);
  } catch (const Error &error) {
    showFailure(pageFolder(), page, error);
    throw;
  }
}

/// A call that ends before anything is compiled for it.
void Function::Impl::showFailure(const Error &error) {
  Report page(name);
  if (!now.isFailureShown)
    showFailure(pageFolder(), page, error);
}

/// The page, if there is a folder for it, shows what was reached and the error that ended it.
void Function::Impl::showFailure(const std::string &folder, Report &page, const Error &error) {
  now.isFailureShown = true;
  if (folder.empty())
    return;
  page.addDiagnostic("error", error.file(), error.line(), error.column(), error.message());
  if (runtime::Error problem = writeReportPage(folder, page.json()))
    say(problem.message());
}

std::shared_ptr<runtime::Executable> Function::Impl::compileFor(Report &page, const Record &record,
                                                                std::span<const std::string> outputs) {
  const auto start = std::chrono::steady_clock::now();
  ++compilations;
  std::optional<TimeTrace> traced;
  if (options.timeLine)
    traced.emplace(options.timeLine, "compile",
                   std::vector<std::pair<std::string, runtime::Trace::Value>>{{"function", name}, {"why", reason}});
  std::optional<llvm::TimeTraceScope> capturing(std::in_place, "capture");
  Compilation compilation(*this, record, outputs, "compiled", &page);
  capturing.reset();
  std::map<std::string, ValueHint> uses;
  if (options.checked)
    uses = valueHints(functionOf(*compilation.module));
  compilation.options.device = device;
  compilation.options.remarks = wantsRemarks(options);
  compilation.options.costs = wantsCosts(options);
  // Ranks that share out a function's lanes come to each of its compilations.
  runtime::Ranks *others = compilation.options.pipeline.ranks.count > 1 ? options.ranks.get() : nullptr;
  if (others)
    compilation.options.code.compileThreads = static_cast<unsigned>(options.threads); // ranks share a machine's cores
  const std::string folder = options.compiledStep.empty() ? pageFolder() : "";
  if (!folder.empty())
    page.watch(compilation.options);
  CompileSession session = compilation.orRefuse(CompileSession::open(compilation.options));
  page.compileFor(session.target().model());
  runtime::Artefact artefact = options.compiledStep.empty()
                                   ? compilation.orRefuse(session.artefact(std::move(compilation.module), others))
                                   : compilation.orRefuse(compilation.stepOfFile());
  const CompileReport &report = session.report();
  if (!folder.empty()) { // a page that cannot be written is no reason to end the program
    runtime::Error problem = page.addCompilation(session, artefact.targets.front().plan, artefact.targets.front().code);
    if (!problem)
      problem = writeReportPage(folder, page.json());
    if (problem)
      say(problem.message());
  }
  if (wantsRemarks(options))
    tellRemarks(report.remarks);
  if (options.memoryReport)
    tell(runtime::memoryReport(artefact.targets.front().plan).text());

  traced.reset();
  const runtime::TraceScope tracedLoad(options.timeLine, "load", "compile", {{"function", name}});
  const auto loading = std::chrono::steady_clock::now();
  auto executable = compilation.orRefuse(runtime::Executable::load(
      std::move(artefact), {options.threads, options.checked, device, options.separate, options.ranks,
                            /*deviceTensors=*/false, options.capturesSteps}));
  keepParts(record, *executable);
  if (options.checked)
    hints[executable.get()] = std::move(uses);
  summary = summaryOf(report, *executable);
  if (!options.compiledStep.empty())
    summary.cache = "not used: the step is that of " + options.compiledStep;
  summary.loadMs = millisecondsSince(loading);
  summary.totalMs = millisecondsSince(start);
  compileMs += summary.totalMs;
  return executable;
}

/// Throws Error unless all ranks come to the same collectives. Their programs differ, so that a pass which removed one
/// on some ranks alone would let the others wait for ever.
static void requireEqualExchanges(const runtime::Plan &plan, runtime::Ranks &ranks) {
  const std::string text = runtime::exchangesOf(plan);
  const std::array<uint64_t, 2> own{llvm::xxh3_64bits(text), static_cast<uint64_t>(llvm::count(text, '\n'))};
  std::vector<std::array<uint64_t, 2>> all(static_cast<size_t>(ranks.count()));
  if (runtime::Error error = runtime::gatherAll(ranks, own.data(), all.data(), sizeof own))
    throw Error("comparing the collectives of ranks: " + error.message());
  for (size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      throw Error("rank " + std::to_string(rank) + " has other collectives in its step (" +
                  std::to_string(all[rank][1]) + ") than rank 0 (" + std::to_string(all[0][1]) +
                  "); all ranks come to all of them, in one order");
}

/// States that the step wants this rank's part of become that.
void Function::Impl::keepParts(const Record &record, const runtime::Executable &executable) const {
  if (!options.ranks || options.ranks->count() == 1 || options.zero == 0)
    return;
  requireEqualExchanges(executable.plan(), *options.ranks);
  std::vector<int64_t> bytes;
  for (const runtime::TensorSpec &spec : executable.plan().states)
    bytes.push_back(spec.bytes());
  tcc::keepParts(statesOf(record, executable), bytes, *options.ranks);
}

/// Where the pages of compilations go, this function's in a folder of its own; empty: there are none.
std::string Function::Impl::pageFolder() const {
  const char *folder = std::getenv("TCC_REPORT");
  const std::string given = options.reportFolder.empty() && folder ? folder : options.reportFolder;
  return given.empty() ? "" : given + "/" + name;
}

/// Lines to the report, or to stderr.
void Function::Impl::tell(const std::string &text) const {
  if (options.report && !text.empty())
    options.report(llvm::StringRef(text).rtrim('\n'));
  else
    std::fputs(text.c_str(), stderr);
}

/// To the report or stderr, and to the record's file; one that cannot be written is said, and compiling goes on.
void Function::Impl::tellRemarks(const Remarks &remarks) const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  DiagnosticPrinter printer(stream, !options.report && useColor("auto"));
  printRemarks(remarks, options, printer);
  tell(text);
  if (options.saveRemarks)
    if (runtime::Error problem =
            runtime::writeFileAtomically(optimizationRecordPath(options, name), optimizationRecord(remarks, name)))
      say(problem.message());
}

/// The record of a call with these arguments, which is traced anew.
const Record &Function::Impl::recordFor(std::span<const Array> arguments) {
  trace(arguments);
  tracesAgain = true;
  return *recorded.record;
}

/// The bytes of a tensor of a step over these arguments, as its checks ask for them.
StepValue Function::Impl::stepValues(std::span<const Array> arguments) const {
  std::map<std::string, std::string> values;
  const auto add = [&](const std::string &name, const void *data, int64_t bytes) {
    values[name] = std::string(static_cast<const char *>(data), static_cast<size_t>(bytes));
  };
  const auto addState = [&](const std::string &name, const State &state) {
    if (state.isPart())
      throw Error("state '" + name + "' is one rank's part, and a look at the step needs it whole: makeWhole() " +
                  "(frontend/state_parts.h) gathers it");
    add(name, state.rawForReading(), state.bytes());
  };
  for (size_t i = 0; i < arguments.size(); ++i)
    add(inputNames[i], arguments[i].rawForReading(), arguments[i].bytes());
  for (const Record::Argument &argument : recorded.record->arguments)
    if (argument.state)
      addState(argument.name, argument.state);
  for (const State &state : scaling)
    addState(state.name(), state);
  return [values = std::move(values)](const runtime::TensorSpec &spec, bool) { return values.at(spec.name); };
}

runtime::Plan Function::plan(std::span<const Array> arguments) {
  const Impl::Turn turn(held());
  const Impl::CallScope scope(*impl, arguments);
  Impl::Compilation compilation(*impl, impl->recordFor(arguments), impl->options.outputs);
  CompileSession session = compilation.orRefuse(CompileSession::open(compilation.options));
  return compilation.orRefuse(session.plan(std::move(compilation.module)));
}

void Function::writeReport(const std::string &folder, std::span<const Array> arguments, const ReportOptions &more) {
  const std::string breaks = report().json();
  const std::shared_ptr<runtime::Executable> ran = executable(); // of the steps that were recorded
  const Impl::Turn turn(held());
  const Impl::CallScope scope(*impl, arguments);
  Report page(impl->name, more.command);
  std::optional<Error> failure;
  try {
    impl->addStep(page, arguments);
  } catch (const Error &error) {
    failure = error;
  }
  page.addBreaks(breaks);
  if (more.profile && ran)
    page.addProfile(*more.profile, runtime::limitsOf(*ran));
  if (!more.log.empty())
    page.addTraining(more.log);
  if (!more.error.empty())
    failure = Error(std::string(more.error));
  if (failure)
    impl->showFailure(folder, page, *failure);
  else if (runtime::Error problem = writeReportPage(folder, page.json()))
    throw Error("'" + impl->name + "' cannot be shown: " + problem.message());
  if (failure && more.error.empty())
    throw *failure;
}

/// The step for these arguments, compiled for the page.
void Function::Impl::addStep(Report &page, std::span<const Array> arguments) {
  Compilation compilation(*this, recordFor(arguments), options.outputs, "shown", &page);
  compilation.options.device = device;
  page.watch(compilation.options);
  CompileSession session = compilation.orRefuse(CompileSession::open(compilation.options));
  page.compileFor(session.target().model());
  const runtime::Artefact artefact = compilation.orRefuse(session.artefact(std::move(compilation.module)));
  if (runtime::Error problem =
          page.addCompilation(session, artefact.targets.front().plan, artefact.targets.front().code))
    throw Error("'" + name + "' cannot be shown: " + problem.message());
}

void Function::exportLibrary(const std::string &path, std::span<const Array> arguments,
                             const std::vector<std::string> &architectures, bool hasRuntime) {
  const std::optional<LibraryKind> kind = libraryKind(path);
  if (!kind)
    throw Error("'" + path + "' is no name of a library; one that ends in .so, .a or .o is expected");
  const Impl::Turn turn(held());
  const Impl::CallScope scope(*impl, arguments);
  const Record &record = impl->recordFor(arguments);
  if (!record.reads.empty())
    throw Error("'" + impl->name + "' has graph breaks: it is no one step that a library can hold");
  runtime::Artefact all;
  CompileSummary summary;
  const std::vector<std::string> asCalled = {impl->options.march};
  for (const std::string &architecture : architectures.empty() ? asCalled : architectures) {
    Impl::Compilation compilation(*impl, record, impl->options.outputs, "exported");
    compilation.options.targetName = withArchitecture(impl->device->codeTarget(), architecture);
    const std::string digest = compilation.digest();
    CompileSession session = compilation.orRefuse(CompileSession::open(compilation.options));
    runtime::Artefact part = compilation.orRefuse(session.artefact(std::move(compilation.module)));
    addPart(session.target().codeName(), session.report(), summary);
    all.metadata = std::move(part.metadata);
    all.metadata[graphKey] = digest;
    all.targets.push_back(std::move(part.targets.front()));
  }
  sortByNeeds(all);
  if (runtime::Error problem = writeLibrary({&all, 1}, path, {.kind = *kind, .hasRuntime = hasRuntime}))
    throw Error("'" + impl->name + "' cannot be exported: " + problem.message());
  impl->summary = std::move(summary);
}

std::string Function::checkDevice(std::span<const Array> arguments) {
  const Impl::Turn turn(held());
  const Impl::CallScope scope(*impl, arguments);
  Impl::Compilation compilation(*impl, impl->recordFor(arguments), impl->options.outputs, "checked");
  compilation.takeAllLanes();
  const DeviceCheck check = compilation.orRefuse(
      tcc::checkDevice(std::move(compilation.module), compilation.options, impl->device, impl->stepValues(arguments)));
  const std::string text = check.text(impl->device->name());
  if (!check.difference.empty())
    throw Error("'" + impl->name + "': " + text);
  return text;
}

std::string Function::findNonFinite(std::span<const Array> arguments, bool eachOp) {
  const Impl::Turn turn(held());
  const Impl::CallScope scope(*impl, arguments);
  const Record &record = impl->recordFor(arguments);
  if (!record.reads.empty())
    throw Error("'" + impl->name + "' has graph breaks: it is no one step that could be looked at");
  Impl::Compilation compilation(*impl, record, impl->options.outputs, "looked at");
  compilation.takeAllLanes();
  if (eachOp)
    compilation.options.pipeline.level = 0;
  return compilation.orRefuse(
      tcc::findNonFinite(std::move(compilation.module), compilation.options, impl->stepValues(arguments)));
}

std::string Function::graph(std::span<const Array> arguments) {
  const Impl::Turn turn(held());
  const Impl::CallScope scope(*impl, arguments);
  if (impl->hasPathFor(arguments))
    impl->tracesAgain = true;
  else
    impl->recordFor(arguments);
  const mlir::OwningOpRef<mlir::ModuleOp> module = impl->module(*impl->recorded.record, impl->options.outputs, true);
  if (CustomOp op = findHostCode(*module))
    throw Error("'" + impl->name + "' has no text: custom op `" + op.getCalled().str() +
                "` is a function of this process; give it a body, or a body and a shared object");
  return graphText(*module);
}

} // namespace tcc
