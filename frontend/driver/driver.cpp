// One input: read, compile, and what was asked of the result.
#include "frontend/driver/driver.h"
#include "frontend/capture.h"
#include "frontend/graph_file.h"
#include "frontend/graph_values.h"
#include "frontend/npy.h"
#include "ir/reference/interpreter.h"
#include "runtime/executable.h"
#include "runtime/profiler.h"
#include "runtime/threads.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Path.h"
#include <algorithm>
#include <chrono>

using namespace mlir;

namespace tcc::driver {
namespace {

using Clock = std::chrono::steady_clock;

/// A mistake of the user without a place in the text.
struct Diagnosed {
  std::string message;
};

double millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// "12.3 MB"
std::string bytesText(int64_t bytes) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (bytes < 10000)
    stream << bytes << " B";
  else if (bytes < 10000000)
    stream << llvm::format("%.1f kB", static_cast<double>(bytes) / 1e3);
  else
    stream << llvm::format("%.1f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

void writeResult(const Options &options, StringRef bytes) {
  if (options.output.empty() || options.output == "-") {
    llvm::outs() << bytes;
    return;
  }
  if (runtime::Error error = runtime::writeFileAtomically(options.output, {bytes.data(), bytes.size()}))
    throw Diagnosed{error.message()};
}

/// One input on its way.
class Job {
public:
  Job(const Options &options, const std::string &path)
      : options(options), path(path), name(path == "-" ? "<stdin>" : path), context(threadContext()),
        printer(llvm::errs(), useColor(options.color)) {}

  int run() {
    try {
      return steps();
    } catch (const Diagnosed &problem) {
      printer.print(Severity::error, problem.message);
    } catch (const Error &problem) {
      printer.print(Severity::error, problem.what());
    } catch (const std::bad_alloc &) {
      printer.print(Severity::error, "no memory for the tensors of '" + name + "'");
    }
    return exitDiagnosed;
  }

private:
  int steps();
  void openDump();
  void emit(Emission emission);
  void emitPhase(Emission emission);
  void emitCode(Emission emission);
  runtime::Artefact compile();
  void printSummary(llvm::raw_ostream &os);
  void printTimes();
  void execute();
  void interpretOnce();
  Array valueOf(const runtime::TensorSpec &spec, int64_t run);
  void checkArgument(StringRef option, const std::string &given);

  OwningOpRef<ModuleOp> copy() { return OwningOpRef<ModuleOp>(module->clone()); }

  const Options &options;
  std::string path, name;
  MLIRContext &context;
  DiagnosticPrinter printer;
  OwningOpRef<ModuleOp> module;
  std::map<std::string, ValueHint> hints;
  std::unique_ptr<llvm::raw_fd_ostream> dumpFile;
  CompileOptions compileOptions;
  CompileReport report;
  double totalMs = 0;
  std::optional<ScopedDiagnostics> diagnostics;
};

/// Diagnostics have said what is wrong.
struct AlreadyReported {};

int Job::steps() {
  // 1. Read and parse.
  std::string problem;
  std::optional<std::string> text = readText(path, GraphLimits().bytes, problem);
  if (!text)
    throw Diagnosed{problem};
  module = parseGraph(*text, name, context, printer);
  if (!module)
    return exitDiagnosed;
  hints = valueHints(graphFunction(*module));
  for (const auto &[given, sizes] : options.compile.pipeline.shapes)
    checkArgument("--shape=", given);
  for (const auto &[given, file] : options.inputFiles)
    checkArgument("--input ", given);
  if (options.action == Action::syntaxOnly)
    return exitSuccess;
  armReproducer("// tcc " + llvm::join(options.commandLine, " ") + "\n" + *text);
  diagnostics.emplace(&context, printer);

  // 2. What was asked for.
  compileOptions = options.compile;
  openDump();
  try {
    if (options.verbose)
      llvm::errs() << "tcc: target cpu, -march=" << compileOptions.cpu.target.cpu << ", -O"
                   << compileOptions.pipeline.level << ", "
                   << (compileOptions.threads ? compileOptions.threads : runtime::availableThreads()) << " threads\n";
    for (Emission emission : options.emissions)
      emit(emission);
    if (options.reference)
      interpretOnce();
    else if (options.runs || options.benchRuns)
      execute();
    else if (options.emissions.empty()) {
      const runtime::Artefact artefact = compile();
      if (!options.output.empty()) {
        auto bytes = runtime::serializeArtefact(artefact);
        if (!bytes)
          return internalError(bytes.error().message());
        writeResult(options, *bytes);
      }
      if (options.output != "-")
        printSummary(llvm::outs());
    }
  } catch (const AlreadyReported &) {
    return printer.errors() ? exitDiagnosed : internalError("compiling failed without a diagnostic");
  }
  if (options.timeReport)
    printTimes();
  return exitSuccess;
}

void Job::openDump() {
  if (options.dumpFolder.empty())
    return;
  if (std::error_code error = llvm::sys::fs::create_directories(options.dumpFolder))
    throw Diagnosed{"cannot make folder '" + options.dumpFolder + "': " + error.message()};
  SmallString<256> file(options.dumpFolder);
  llvm::sys::path::append(file, llvm::sys::path::stem(path == "-" ? "stdin" : path) + ".ir");
  std::error_code error;
  dumpFile = std::make_unique<llvm::raw_fd_ostream>(file, error);
  if (error)
    throw Diagnosed{"cannot write '" + std::string(file) + "': " + error.message()};
  compileOptions.pipeline.dumpStream = dumpFile.get();
}

runtime::Artefact Job::compile() {
  const Clock::time_point start = Clock::now();
  OwningOpRef<ModuleOp> compiled = copy();
  report = {};
  std::string problem;
  std::optional<runtime::Artefact> artefact = compileModule(*compiled, compileOptions, report, problem);
  if (!artefact && !problem.empty())
    printer.print(Severity::error, problem);
  if (!artefact)
    throw AlreadyReported();
  totalMs = millisecondsSince(start);
  return std::move(*artefact);
}

void Job::emit(Emission emission) {
  switch (emission) {
  case Emission::captured:
    writeResult(options, graphText(*module));
    return;
  case Emission::joint:
  case Emission::shaped:
  case Emission::fused:
  case Emission::planned:
    return emitPhase(emission);
  case Emission::json:
    writeResult(options, runtime::planToJson(compile().plan) + "\n");
    return;
  case Emission::llvm:
  case Emission::assembly:
  case Emission::object:
    return emitCode(emission);
  }
}

void Job::emitPhase(Emission emission) {
  const Phase phase = emission == Emission::joint    ? Phase::joint
                      : emission == Emission::shaped ? Phase::shaped
                      : emission == Emission::fused  ? Phase::fused
                                                     : Phase::planned;
  OwningOpRef<ModuleOp> lowered = copy();
  PipelineOptions pipeline = compileOptions.pipeline;
  pipeline.stopAfter = phase;
  report = {};
  if (failed(runPipeline(*lowered, pipeline, report.pipeline)))
    throw AlreadyReported();
  writeResult(options, graphText(*lowered));
}

void Job::emitCode(Emission emission) {
  OwningOpRef<ModuleOp> lowered = copy();
  report = {};
  if (failed(runPipeline(*lowered, compileOptions.pipeline, report.pipeline)))
    throw AlreadyReported();
  const cpu::Artefact kind = emission == Emission::llvm       ? cpu::Artefact::llvm
                             : emission == Emission::assembly ? cpu::Artefact::assembly
                                                              : cpu::Artefact::object;
  std::string problem;
  std::optional<std::string> code = cpu::emitKernels(kernelSources(*lowered), compileOptions.cpu, kind, problem);
  if (!code) {
    if (!problem.empty())
      printer.print(Severity::error, problem);
    throw AlreadyReported();
  }
  if (emission == Emission::object && options.output.empty()) {
    Options named = options;
    named.output = llvm::sys::path::stem(path == "-" ? "stdin" : path).str() + ".o";
    return writeResult(named, *code);
  }
  writeResult(options, *code);
}

void Job::printSummary(llvm::raw_ostream &os) {
  os << name << ": " << report.pipeline.capturedOps << " ops -> " << report.pipeline.kernels << " kernels ("
     << report.compiledKernels << " compiled), " << report.pipeline.matmuls << " matrix products, "
     << bytesText(report.plannedBytes) << " planned (" << bytesText(report.pipeline.arenaBytes) << " arena), "
     << llvm::format("compiled in %.0f ms (passes %.0f, code %.0f)\n", totalMs, report.pipelineMs, report.codegenMs);
}

void Job::printTimes() {
  double sum = 0;
  for (const PassReport &pass : report.pipeline.passes)
    sum += pass.milliseconds;
  llvm::errs() << "   ms      %  pass\n";
  for (const PassReport &pass : report.pipeline.passes)
    llvm::errs() << llvm::format("%7.2f %5.1f%%  ", pass.milliseconds, sum > 0 ? 100 * pass.milliseconds / sum : 0)
                 << pass.name << (pass.changed ? "" : " (unchanged)") << '\n';
  llvm::errs() << llvm::format("%7.2f         all passes\n", sum);
  if (report.codegenMs > 0)
    llvm::errs() << llvm::format("%7.2f         code generation\n", report.codegenMs);
}

/// What an option says about argument `given` must be about one that exists.
void Job::checkArgument(StringRef option, const std::string &given) {
  if (hints.count(given))
    return;
  std::vector<std::string> names;
  for (const auto &[argument, hint] : hints)
    names.push_back(argument);
  const std::string candidate = nearest(given, names);
  throw Diagnosed{name + ": " + option.str() + given + ": the graph has no such argument" +
                  (candidate.empty() ? "; it has " + llvm::join(names, ", ") : "; did you mean '" + candidate + "'?")};
}

Array Job::valueOf(const runtime::TensorSpec &spec, int64_t run) {
  for (const auto &[given, file] : options.inputFiles)
    if (given == spec.name) {
      Array array = readNpy(file, spec.dtype);
      if (!(array.shape() == Shape(spec.shape)))
        throw Diagnosed{file + " has shape " + array.shape().text() + "; '" + given + "' is " +
                        Shape(spec.shape).text()};
      return array;
    }
  return randomArray(spec, hints[spec.name], options.seed, run);
}

void Job::execute() {
  runtime::Artefact artefact = compile();
  auto executable = runtime::Executable::load(std::move(artefact), {compileOptions.threads, false});
  if (!executable)
    throw Diagnosed{executable.error().message()};
  printSummary(llvm::errs());

  // 1. Values, in the plan's order.
  const runtime::Plan &plan = (*executable)->plan();
  std::vector<Array> inputs, states, outputs;
  for (const runtime::TensorSpec &spec : plan.inputs)
    inputs.push_back(valueOf(spec, 1));
  for (const runtime::TensorSpec &spec : plan.states)
    states.push_back(valueOf(spec, 1));
  for (const runtime::TensorSpec &spec : plan.outputs)
    outputs.push_back(Array(Shape(spec.shape), spec.dtype));
  runtime::Profiler profiler;
  auto step = [&](int64_t run, runtime::Profiler *recorder) {
    std::vector<runtime::ConstTensorRef> in;
    std::vector<runtime::TensorRef> out, state;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (hints[plan.inputs[i].name].kind == ValueHint::Kind::stepCount && run > 1)
        inputs[i] = valueOf(plan.inputs[i], run);
      in.emplace_back(inputs[i].raw(), inputs[i].bytes());
    }
    for (const Array &array : outputs)
      out.push_back({array.raw(), array.bytes()});
    for (const Array &array : states)
      state.push_back({array.raw(), array.bytes()});
    if (runtime::Error error = (*executable)->run(in, out, state, recorder))
      throw Diagnosed{error.message()};
  };

  // 2. Runs.
  runtime::Profiler *recorder = options.profile.empty() ? nullptr : &profiler;
  int64_t run = 0;
  if (options.runs) {
    for (int64_t i = 0; i < *options.runs; ++i) {
      step(++run, recorder);
      if (*options.runs > 1) {
        llvm::outs() << "run " << run << ':';
        for (size_t j = 0; j < outputs.size(); ++j)
          if (outputs[j].shape().empty())
            llvm::outs() << ' ' << plan.outputs[j].name << ' ' << llvm::format("%.6g", outputs[j].item());
        llvm::outs() << '\n';
      }
    }
    for (size_t i = 0; i < outputs.size(); ++i)
      llvm::outs() << describe(plan.outputs[i].name, outputs[i]) << '\n';
    for (size_t i = 0; i < states.size(); ++i)
      llvm::outs() << describe(plan.states[i].name, states[i]) << '\n';
  }
  if (options.benchRuns) {
    for (int i = 0; i < 3; ++i)
      step(++run, nullptr);
    std::vector<double> times;
    for (int64_t i = 0; i < *options.benchRuns; ++i) {
      const Clock::time_point start = Clock::now();
      step(++run, recorder);
      times.push_back(millisecondsSince(start));
    }
    std::sort(times.begin(), times.end());
    int64_t flops = 0;
    for (const runtime::Instruction &instruction : plan.instructions)
      flops += instruction.flops;
    const double median = times[times.size() / 2];
    llvm::outs() << llvm::format("%.4f ms median, %.4f min, %.4f max of %d runs", median, times.front(), times.back(),
                                 static_cast<int>(times.size()));
    if (flops && median > 0)
      llvm::outs() << llvm::format(", %.2f GFLOP/s", static_cast<double>(flops) / median / 1e6);
    llvm::outs() << ", peak " << bytesText((*executable)->peakBytes()) << '\n';
  }
  if (recorder) {
    if (runtime::Error error = profiler.writeChromeTrace(options.profile))
      throw Diagnosed{error.message()};
    llvm::errs() << profiler.table(12);
  }
}

void Job::interpretOnce() {

  // The graph with its gradients expanded and its sizes fixed, but not yet fused.
  OwningOpRef<ModuleOp> shaped = copy();
  PipelineOptions pipeline = compileOptions.pipeline;
  pipeline.stopAfter = Phase::shaped;
  report = {};
  if (failed(runPipeline(*shaped, pipeline, report.pipeline)))
    throw AlreadyReported();
  func::FuncOp function = graphFunction(*shaped);

  std::vector<RefTensor> arguments;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    RankedTensorType type = tensorType(function.getArgument(i));
    const ValueType described = valueType(type);
    runtime::TensorSpec spec{argumentName(function, i), described.dtype,
                             std::vector<int64_t>(type.getShape().begin(), type.getShape().end())};
    const Array array = valueOf(spec, 1);
    RefTensor tensor = splatTensor(type, 0);
    for (int64_t j = 0; j < tensor.size(); ++j)
      tensor.data[static_cast<size_t>(j)] = array.item(j);
    arguments.push_back(std::move(tensor));
  }
  std::string problem;
  FailureOr<std::vector<RefTensor>> results = interpret(function, arguments, RefMode::rounding, problem);
  if (failed(results))
    throw Diagnosed{problem};
  auto print = [&](const std::string &name, const RefTensor &tensor) {
    const ValueType type = valueType(tensor.type);
    Array array = Array(type.shape, type.dtype);
    for (int64_t j = 0; j < tensor.size(); ++j)
      if (double value = tensor.data[static_cast<size_t>(j)]; !array.setItem(j, value))
        throw Diagnosed{"element " + std::to_string(j) + " of " + name + " is " + std::to_string(value) +
                        ", which is no " + std::string(runtime::name(type.dtype))};
    llvm::outs() << describe(name, array) << '\n';
  };
  unsigned outputs = 0;
  for (auto [i, tensor] : llvm::enumerate(*results))
    if (!function.getResultAttr(i, updatesAttr)) {
      auto name = function.getResultAttrOfType<StringAttr>(i, nameAttr);
      print(name ? name.str() : "result" + std::to_string(outputs), tensor);
      ++outputs;
    }
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    if (!function.getArgAttr(i, stateAttr))
      continue;
    const std::string state = argumentName(function, i);
    const RefTensor *value = &arguments[i];
    for (auto [j, tensor] : llvm::enumerate(*results))
      if (auto updates = function.getResultAttrOfType<StringAttr>(j, updatesAttr); updates && updates == state)
        value = &tensor;
    print(state, *value);
  }
}

} // namespace

int processInput(const Options &options, const std::string &path) {
  return Job(options, path).run();
}

} // namespace tcc::driver
