// Reads an input, compiles it, and does what the options ask of the result.
#include "frontend/driver/driver.h"
#include "codegen/check_device.h"
#include "codegen/stopwatch.h"
#include "codegen/targets.h"
#include "codegen/time_trace.h"
#include "frontend/capture.h"
#include "frontend/compile_options.h"
#include "frontend/compile_summary.h"
#include "frontend/driver/ablate.h"
#include "frontend/driver/execution.h"
#include "frontend/driver/exported_program.h"
#include "frontend/driver/graph_breaks.h"
#include "frontend/driver/libraries.h"
#include "frontend/driver/outputs.h"
#include "frontend/driver/save_temps.h"
#include "frontend/driver/time_report.h"
#include "frontend/graph_file.h"
#include "frontend/loss_scaling.h"
#include "frontend/product_choice.h"
#include "frontend/remarks.h"
#include "frontend/report/report.h"
#include "runtime/executable_limits.h"
#include "runtime/files.h"
#include "runtime/memory_report.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace tcc::driver {
namespace {

using Clock = std::chrono::steady_clock;

std::string took(double ms) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format(" in %.1f ms", ms);
  return text;
}

/// One input on its way.
class Job {
public:
  Job(const Options &options, const std::string &path, std::vector<runtime::Artefact> &steps)
      : options(options), steps(steps), path(path), name(path == "-" ? "<stdin>" : path), context(threadContext()),
        printer(diagnosticPrinter(options)) {
    if (!options.profile.empty())
      timeLine.emplace(path);
  }

  int run() {
    beginReport();
    const int status = compileAndTell();
    return report ? std::max(status, writeReport()) : status;
  }

private:
  int compileAndTell() {
    try {
      return compileInput();
    } catch (const Error &problem) {
      if (problem.kind() == Error::Kind::internal || (problem.message().empty() && !printer.errors()))
        return internalError(problem.message().empty() ? "compiling failed without a diagnostic" : problem.what());
      if (!problem.message().empty()) // else diagnostics have said it
        printer.print(Severity::error, problem.what());
      return problem.exitStatus();
    } catch (const std::bad_alloc &) {
      printer.print(Severity::error, "no memory for the tensors of '" + name + "'");
    }
    return exitDiagnosed;
  }

  void beginReport();
  void reportCompilation(const runtime::Plan &plan, ArrayRef<std::string> code = {});
  void finishReport();
  int writeReport();
  int compileInput();
  void say(const std::string &text) const;
  void openDump();
  void closeDump();
  void make();
  void setProducts(func::FuncOp function);
  void openSession(const std::string &named);
  void emit(Phase phase);
  void emit(PlanEmission);
  void emit(MemoryEmission emission);
  void emit(const PictureEmission &emission);
  void emit(const CodeEmission &emission);
  runtime::Artefact compile();
  runtime::Plan plan();
  void tellPlan(const runtime::Plan &plan, ArrayRef<std::string> code = {});
  void tellPasses();
  OwningOpRef<ModuleOp> lowered(Phase phase);
  std::vector<KernelSource> kernels();
  void tellRemarks();
  runtime::Artefact compileForAll();
  void printSummary(llvm::raw_ostream &os);
  void checkDevice(const std::shared_ptr<runtime::Device> &device);
  void reportBreaks();
  void execute();
  void ablate();
  void interpret();

  OwningOpRef<ModuleOp> copy() { return OwningOpRef<ModuleOp>(module->clone()); }

  const Options &options;
  std::vector<runtime::Artefact> &steps; // of a library
  std::string path, name;
  MLIRContext &context;
  DiagnosticPrinter printer;
  OwningOpRef<ModuleOp> module;
  RunValues values;
  std::optional<runtime::AtomicFile> dumpFile;
  std::unique_ptr<llvm::raw_fd_ostream> dumpStream;
  CompilerFlags flags; // of the options, with the type that --dtype=auto means
  CompileOptions compileOptions;
  CompileSummary summary;           // of the code for all targets
  int64_t fromCache = 0;            // how many of them had theirs from there
  std::vector<std::string> targets; // several architectures of a kind, or one
  std::optional<Report> report;     // --report=
  std::string reportFolder;
  std::optional<runtime::Trace> timeLine;  // --profile=
  bool isReported = false;                 // whether what was compiled is in it
  std::optional<CompileSession> session;   // of the target that is compiled for
  std::shared_ptr<runtime::Device> device; // that a run has; null: the CPU
  Clock::time_point begin = Clock::now();
  std::optional<ScopedDiagnostics> diagnostics;
};

/// -v: what has been done, and when.
void Job::say(const std::string &text) const {
  if (options.verbose)
    llvm::errs() << llvm::format("tcc: %9.1f ms  ", millisecondsSince(begin)) << text << '\n';
}

int Job::compileInput() {
  // 1. Read and parse.
  std::optional<runtime::TraceScope> reading(std::in_place, timeLine ? &*timeLine : nullptr, "read graph", "compile");
  const ProgramText program = readProgram(path, options);
  const std::string &text = program.text;
  if (report)
    report->addSource(name, text);
  say("read " + name + ", " + bytesText(static_cast<int64_t>(text.size())));
  module = parseGraph(text, name, context, printer);
  if (!module)
    return exitDiagnosed;
  func::FuncOp function = functionOf(*module);
  say("parsed @" + function.getName().str() + ": " + std::to_string(function.getNumArguments()) + " arguments, " +
      std::to_string(llvm::range_size(function.getBody().front().without_terminator())) + " ops");
  warnAboutGraph(function, text, name, options.warnings, printer);
  reading.reset();
  refuseBreaks(function, options.flags, printer);
  if (printer.errors())
    return exitDiagnosed;
  compileOptions = options.compile;
  setProducts(function);
  if (printer.errors())
    return exitDiagnosed;
  values.hints = valueHints(function);
  values.given = readInputs(options, argumentsOf(function), compileOptions.pipeline.shapes);
  if (program.values)
    addValues(*program.values, argumentsOf(function), values.given);
  for (const auto &[result, file] : options.outputFiles)
    checkName("--output ", result, tcc::writableNames(function), "result or state");
  for (const auto &[given, array] : values.given)
    if (std::string wrong = invalidIndex(given, values.hints[given], array);
        !wrong.empty() && options.warnings.isOn(invalidIndexWarning))
      printer.print(options.warnings.severity(invalidIndexWarning),
                    wrong + options.warnings.flagOf(invalidIndexWarning));
  if (printer.errors())
    return exitDiagnosed;
  if (options.action == Action::syntaxOnly)
    return exitSuccess;
  armReproducer("// tcc " + llvm::join(options.commandLine, " ") + "\n" + text);
  diagnostics.emplace(&context, printer);

  // 2. What was asked for.
  openDump();
  std::optional<TimeTrace> trace;
  if (options.timeTrace)
    trace.emplace(timeLine ? &*timeLine : nullptr, "tcc");
  try {
    if (!options.saveTemps.empty())
      saveTemps(options.saveTemps, path, *module, compileOptions);
    make();
    finishReport();
  } catch (...) {
    closeDump();
    throw;
  }
  closeDump();
  if (trace) {
    const std::string file = timeTracePath(options, path);
    writeResult(file, trace->finish());
    say("wrote " + file);
  }
  if (timeLine)
    if (runtime::Error problem = timeLine->write(options.profile))
      throw Error(problem.message());
  if (options.timeReport)
    llvm::errs() << (options.timeReportIsJson ? timesAsJson(session->report(), name) : timesAsText(session->report()));
  return exitSuccess;
}

/// --dtype: what "auto" means here, a type that gains nothing, and the scale of the loss that f16 needs.
void Job::setProducts(func::FuncOp function) {
  flags = options.flags;
  if (std::optional<std::string> chosen = chooseProducts(flags, compileOptions.targetName)) {
    llvm::errs() << "tcc: --dtype=auto is " << *chosen << '\n';
    applyFlags(flags, compileOptions);
  } else if (const std::string slow = slowProducts(flags, compileOptions.targetName);
             !slow.empty() && options.warnings.isOn(slowDtype)) {
    printer.print(options.warnings.severity(slowDtype), slow + options.warnings.flagOf(slowDtype));
  }
  if (flags.products == runtime::DType::f16 && scaleLoss(function))
    say("scaled the loss by a state, for gradients in f16");
}

/// Every artefact, a dump of a phase too, is of the one target.
void Job::openSession(const std::string &named) {
  CompileOptions chosen = compileOptions;
  chosen.targetName = named;
  chosen.device = named == targets.front() ? device : nullptr;
  chosen.remarks = wantsRemarks(options.flags);
  chosen.costs = wantsCosts(options.flags);
  if (options.timeReport || options.timeTrace) // times are of passes that run
    chosen.cache = FileCache::off(options.timeReport ? "by -ftime-report" : "by -ftime-trace");
  chosen.pipeline.findChanges = options.timeReport;
  const bool isFirst = named == targets.front();
  if (report && isFirst)
    report->watch(chosen);
  session.emplace(orThrow(CompileSession::open(std::move(chosen))));
  if (report && isFirst)
    report->compileFor(session->target().model());
}

/// --report=, or else $TCC_REPORT, where each input has a folder of its own.
void Job::beginReport() {
  reportFolder = options.flags.reportFolder;
  if (const char *folder = std::getenv("TCC_REPORT"); folder && *folder && reportFolder.empty())
    reportFolder = stagePath(folder, path, "");
  if (reportFolder.empty())
    return;
  report.emplace(name, options.commandLine);
  report->listenTo(printer);
}

/// The compilation of the first target.
void Job::reportCompilation(const runtime::Plan &plan, ArrayRef<std::string> code) {
  isReported = true;
  if (runtime::Error problem = report->addCompilation(*session, plan, code))
    throw Error(problem.message());
}

/// What no earlier step of the job has put into the report.
void Job::finishReport() {
  if (!report)
    return;
  if (!isReported) { // something else was asked for than code
    openSession(targets.front());
    reportCompilation(orThrow(session->plan(copy())));
  }
  if (hasBreaks(functionOf(*module)) && !options.graphBreaks) {
    CompileOptions unwatched = compileOptions;
    unwatched.targetName = targets.front();
    report->addBreaks(graphBreaks(*module, unwatched, nullptr, values, options.seed).json());
  }
}

int Job::writeReport() {
  const runtime::Error problem = writeReportPage(reportFolder, report->json());
  if (!problem) {
    say("wrote " + reportFolder + "/index.html");
    return exitSuccess;
  }
  printer.print(Severity::error, "--report=" + reportFolder + ": " + problem.message());
  return exitDiagnosed;
}

void Job::make() {
  const TargetKind &kind = *targetKindOf(compileOptions.targetName);
  std::string why;
  targets = orThrow(kind.targetsFor(options.architectures, why));
  if (!why.empty())
    say(why);
  openSession(targets.front());
  say("target " + session->target().title() + ", -O" +
      (options.flags.leastMemory ? "s" : std::to_string(compileOptions.pipeline.level)) + ", " +
      std::to_string(session->options().threads) + " threads");
  for (const Emission &emission : options.emissions)
    std::visit([&](const auto &each) { emit(each); }, emission);
  if (options.graphBreaks)
    return reportBreaks();
  if (options.reference)
    return interpret();
  if (options.ablationRounds)
    return ablate();
  if (options.runs || options.benchRuns)
    return execute();
  if (!options.emissions.empty())
    return;
  if (!options.output.empty() || options.asObject)
    kind.addPortable(targets);
  runtime::Artefact artefact = compileForAll();
  storeHints(artefact, values.hints);
  if (libraryOf(options)) {
    steps.push_back(std::move(artefact));
  } else if (!options.output.empty()) {
    auto bytes = runtime::serializeArtefact(artefact);
    if (!bytes)
      throw Error(bytes.error().message(), Error::Kind::internal);
    writeResult(options.output, *bytes);
    say("wrote " + options.output + ", " + bytesText(static_cast<int64_t>(bytes->size())));
  }
  if (options.output != "-")
    printSummary(llvm::outs());
}

void Job::openDump() {
  if (options.dumpFolder.empty())
    return;
  if (std::error_code error = llvm::sys::fs::create_directories(options.dumpFolder, true, llvm::sys::fs::all_all))
    throw Error("cannot make folder '" + options.dumpFolder + "': " + error.message());
  auto file = runtime::AtomicFile::create(dumpPath(options.dumpFolder, path));
  if (!file)
    throw Error(file.error().message());
  dumpFile.emplace(std::move(*file));
  dumpStream = std::make_unique<llvm::raw_fd_ostream>(dumpFile->descriptor(), /*shouldClose=*/false);
  compileOptions.pipeline.dumpStream = dumpStream.get();
}

/// What was dumped counts also where compiling failed, above all then.
void Job::closeDump() {
  if (!dumpStream)
    return;
  dumpStream->flush();
  const std::error_code problem = dumpStream->error();
  dumpStream->clear_error();
  dumpStream.reset();
  if (problem)
    throw Error("cannot write '" + dumpPath(options.dumpFolder, path) + "': " + problem.message());
  if (runtime::Error error = dumpFile->commit())
    throw Error(error.message());
}

runtime::Artefact Job::compile() {
  runtime::Artefact artefact = orThrow(session->artefact(copy()));
  tellPlan(artefact.targets.front().plan, artefact.targets.front().code);
  const CompileReport &report = session->report();
  say((targets.size() > 1 ? "cache of " + session->target().codeName() + ": " : "cache: ") + report.cache);
  if (report.fromCache)
    return artefact;
  tellPasses();
  say("made code for " + std::to_string(report.compiledKernels) + " kernels" + took(report.codegenMs) +
      (report.emitted.empty() ? "" : ": " + report.emitted));
  if (!report.tuned.empty())
    say("tuning: " + report.tuned);
  return artefact;
}

/// The plan alone; machine code is made only where -fverify-each runs it.
runtime::Plan Job::plan() {
  if (compileOptions.pipeline.verifyEach)
    return std::move(compile().targets.front().plan);
  runtime::Plan made = orThrow(session->plan(copy()));
  tellPlan(made);
  tellPasses();
  return made;
}

void Job::tellPlan(const runtime::Plan &plan, ArrayRef<std::string> code) {
  if (report && !isReported)
    reportCompilation(plan, code);
  if (options.flags.memoryReport)
    llvm::errs() << runtime::memoryReport(plan).text();
}

void Job::tellPasses() {
  const PipelineReport &ran = session->report().pipeline;
  say("ran " + std::to_string(ran.passes.size()) + " passes" + took(session->report().pipelineMs) + ": " +
      std::to_string(ran.kernels) + " kernels, " + std::to_string(ran.matmuls) + " matrix products, " +
      bytesText(ran.arenaBytes) + " arena");
  tellRemarks();
}

OwningOpRef<ModuleOp> Job::lowered(Phase phase) {
  OwningOpRef<ModuleOp> result = orThrow(session->lowered(copy(), phase));
  tellRemarks();
  return result;
}

std::vector<KernelSource> Job::kernels() {
  std::vector<KernelSource> result = orThrow(session->kernels(copy()));
  tellRemarks();
  return result;
}

/// The remarks of what was compiled last.
void Job::tellRemarks() {
  const Remarks &remarks = session->report().remarks;
  printRemarks(remarks, options.flags, printer);
  if (!options.flags.saveRemarks)
    return;
  const std::string record = optimizationRecordFile(options.flags, path);
  writeResult(record, optimizationRecord(remarks, functionOf(*module).getName()));
  say("wrote " + record);
}

/// One artefact with a part for each target.
runtime::Artefact Job::compileForAll() {
  runtime::Artefact all;
  summary = {};
  fromCache = 0;
  for (const std::string &named : targets) {
    if (named != session->options().targetName)
      openSession(named);
    runtime::Artefact part = compile();
    addPart(session->target().codeName(), session->report(), summary);
    fromCache += session->report().fromCache;
    all.metadata = std::move(part.metadata);
    all.targets.push_back(std::move(part.targets.front()));
  }
  sortByNeeds(all);
  return all;
}

void Job::emit(Phase phase) {
  writeResult(options.output, graphText(phase == Phase::captured ? *module : *lowered(phase)));
}

void Job::emit(PlanEmission) {
  writeResult(options.output, indentedJson(runtime::planToJson(plan())));
}

void Job::emit(MemoryEmission emission) {
  const runtime::PeakReport report = runtime::memoryReport(plan());
  writeResult(options.output, emission.isJson ? indentedJson(report.json()) : report.text());
}

void Job::emit(const PictureEmission &emission) {
  OwningOpRef<ModuleOp> reached = emission.phase == Phase::captured ? copy() : lowered(emission.phase);
  writeResult(options.output, emission.form(pictureOf(functionOf(*reached), session->target().model())));
}

/// The kernels for all targets.
void Job::emit(const CodeEmission &emission) {
  std::vector<EmittedCode> codes;
  for (const std::string &named : targets) {
    openSession(named);
    codes.push_back(
        {named.substr(named.find(':') + 1), orThrow(session->target().emitAs(emission.form->name, kernels()))});
  }
  writeCode(codes, emission, path, options.output);
}

void Job::printSummary(llvm::raw_ostream &os) {
  const CompileReport &report = session->report();
  os << name << ": " << report.pipeline.capturedOps << " ops -> " << report.pipeline.kernels << " kernels ("
     << report.compiledKernels << " compiled), " << report.pipeline.matmuls << " matrix products, "
     << bytesText(report.plannedBytes) << " planned (" << bytesText(report.pipeline.arenaBytes) << " arena), ";
  if (report.pipeline.recomputed.ops)
    os << recomputationText(report.pipeline.recomputed) << ", ";
  if (summary.fromCache) {
    os << llvm::format("from the cache in %.0f ms\n", summary.totalMs);
    return;
  }
  os << llvm::format("compiled in %.0f ms (passes %.0f, code %.0f)", summary.totalMs, summary.pipelineMs,
                     summary.codegenMs);
  if (fromCache)
    os << ", " << fromCache << " of " << targets.size() << " targets from the cache";
  os << '\n';
}

/// --check-device. Throws Error for the first value that differs.
void Job::checkDevice(const std::shared_ptr<runtime::Device> &device) {
  const auto valueOf = [&](const runtime::TensorSpec &spec, bool) {
    const Array array = values.of(spec, options.seed, 1);
    return std::string(static_cast<const char *>(array.rawForReading()), static_cast<size_t>(array.bytes()));
  };
  const auto check = tcc::checkDevice(copy(), session->options(), device, valueOf);
  if (!check)
    throw Error(check.error().message().empty() ? "" : "--check-device: " + check.error().message());
  const std::string text = check->text(device->name());
  if (!check->difference.empty())
    throw Error(text);
  llvm::errs() << text << '\n';
}

/// --graph-breaks.
void Job::reportBreaks() {
  std::shared_ptr<runtime::Device> device;
  try {
    device = deviceFor(targets.front(), options.flags.tuning);
    if (!device)
      device = runtime::makeCpuDevice();
  } catch (const Error &missing) {
    printer.print(Severity::warning, std::string(missing.what()) + "; no time is measured");
  }
  const BreakReport breaks = graphBreaks(*module, session->options(), device, values, options.seed);
  writeResult(options.output, *options.graphBreaks == "json" ? breaks.json() + "\n" : breaks.text());
  if (report)
    report->addBreaks(breaks.json());
}

void Job::execute() {
  device = deviceFor(targets.front(), options.flags.tuning);
  openSession(targets.front());
  if (options.checkDevice)
    checkDevice(device);
  runtime::Trace *line = timeLine ? &*timeLine : nullptr;
  std::optional<TimeTrace> compiling;
  if (line)
    compiling.emplace(line);
  runtime::Artefact artefact = compileForAll();
  compiling.reset();
  std::optional<runtime::TraceScope> loading(std::in_place, line, "load", "compile");
  const auto executable = orThrow(runtime::Executable::load(
      std::move(artefact), {.threads = compileOptions.threads, .device = device, .captures = flags.capturesSteps}));
  loading.reset();
  say("loaded for " + std::to_string(executable->threads()) + " threads");
  printSummary(llvm::errs());
  runtime::Profiler profiler;
  driver::execute(*executable, options, values, profiler, line);
  if (report)
    report->addProfile(profiler, runtime::limitsOf(*executable));
}

/// --ablate, for the first target.
void Job::ablate() {
  CompileOptions chosen = compileOptions;
  chosen.targetName = targets.front();
  ablateGraph({*module, name, flags, std::move(chosen), values}, options);
}

/// The graph with its gradients expanded and its sizes fixed, but not yet fused.
/// The interpreter runs what passes have made up to Phase::shaped. With -fverify-each the later passes and the code are
/// verified first.
void Job::interpret() {
  if (compileOptions.pipeline.verifyEach)
    (void)compile();
  const OwningOpRef<ModuleOp> shaped = orThrow(session->lowered(copy(), Phase::shaped));
  interpretOnce(functionOf(*shaped), options, values);
}

} // namespace

int processInput(const Options &options, const std::string &path, std::vector<runtime::Artefact> &steps) {
  return Job(options, path, steps).run();
}

} // namespace tcc::driver
