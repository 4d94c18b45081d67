// Does what the options of the command line ask for.
#include "frontend/driver/run.h"
#include "codegen/targets.h"
#include "frontend/compile_options.h"
#include "frontend/diagnostic_pages.h"
#include "frontend/diagnostics.h"
#include "frontend/driver/driver.h"
#include "frontend/driver/execution.h"
#include "frontend/driver/libraries.h"
#include "frontend/driver/option_table.h"
#include "frontend/driver/outputs.h"
#include "frontend/driver/show_steps.h"
#include "frontend/report/report.h"
#include "frontend/shape.h"
#include "runtime/cpu.h"
#include "runtime/files.h"
#include "runtime/machine_limits.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/TargetParser/Host.h"
#include <exception>

using namespace tcc;
using namespace tcc::driver;

namespace {

void calibrate(llvm::raw_ostream &os, int threads) {
  const auto [limits, isSure, waited, path] = runtime::calibrateMachineLimits(threads);
  auto share = [&](runtime::DType dtype) {
    constexpr double seconds = 0.2;
    const double bare = runtime::measureBareLoop(dtype, threads, seconds);
    return llvm::formatv(" ({0:f2} of a bare loop's {1})", limits.product(dtype) / bare, runtime::rateText(bare)).str();
  };
  os << limits.threads << " threads: f32 products " << runtime::rateText(limits.productFlops)
     << share(runtime::DType::f32) << ", bf16 products ";
  if (const auto by = runtime::productImplementation(runtime::DType::bf16, threads); !by)
    os << "none (" << by.error().message() << ")";
  else
    os << runtime::rateText(limits.bf16ProductFlops)
       << (limits.gainsFromBf16() ? share(runtime::DType::bf16) : " (no faster than f32)");
  os << llvm::format(", memory %.1f GB/s\n", limits.bytesPerSecond * 1e-9)
     << (isSure ? std::string()
                : llvm::formatv("the machine is busy: threads waited for a CPU for {0:f0} % of the time or more, or "
                                "figures differed; limits may be higher, calibrate again when it is quiet\n",
                                waited * 100)
                      .str())
     << (path.empty() ? "not remembered: no folder for it can be written" : "remembered in " + path) << '\n';
}

FileCache keptCache(const Options &options) {
  FileCache cache = fileCache(options.flags);
  if (cache.place().empty())
    throw usageError("the cache is off, " + cache.whyOff() + "; --cache-dir= names a folder for it");
  return cache;
}

void printCacheStats(llvm::raw_ostream &os, const FileCache &cache) {
  os << cache.place() << ", at most " << bytesText(cache.limit()) << '\n';
  for (const FileCache::Usage &usage : cache.usage())
    os << llvm::formatv("{0,7} {1,-8} {2,-10} {3} hits, {4} misses, {5} evictions\n", usage.entries, usage.kind,
                        bytesText(usage.bytes), usage.hits, usage.misses, usage.evictions);
}

void clearCache(llvm::raw_ostream &os, const FileCache &cache) {
  int64_t entries = 0, bytes = 0;
  for (const FileCache::Usage &usage : cache.usage())
    entries += usage.entries, bytes += usage.bytes;
  if (runtime::Error problem = cache.clear())
    throw Error(problem.message());
  os << "removed " << entries << (entries == 1 ? " entry, " : " entries, ") << bytesText(bytes) << ", from "
     << cache.place() << '\n';
}

/// Whether the action needs no answer of this machine's CPU.
bool onlyPrints(Action action) {
  return action == Action::help || action == Action::version || action == Action::dumpVersion ||
         action == Action::dumpMachine || action == Action::printTargets || action == Action::complete ||
         action == Action::explain || action == Action::manPage;
}

/// -march=help, --print-targets: a paragraph a kind.
void printTargets(llvm::raw_ostream &os) {
  constexpr size_t width = 100;
  for (const TargetKind *kind : targetKinds()) {
    os << "--target=" << kind->name() << ": " << kind->help() << '\n';
    std::string row;
    for (const std::string &name : kind->architectures()) {
      if (row.size() + name.size() > width) {
        os << row << '\n';
        row.clear();
      }
      row += (row.empty() ? "  " : " ") + name;
    }
    os << row << '\n';
  }
}

void explain(llvm::raw_ostream &os, const std::string &subject) {
  const DiagnosticPage *page = diagnosticPage(subject);
  if (!page)
    throw usageError("--explain " + subject + ": there is no such diagnostic; numbers are " +
                     diagnosticPages().front().id + " to " + diagnosticPages().back().id +
                     ", and warnings go by their names");
  os << pageText(*page);
}

/// Which passes are on depends on the target too.
void printPipelineFor(const CompileOptions &options) {
  PipelineOptions pipeline = options.pipeline;
  if (auto target = makeTarget(options.targetName, options.code, 1))
    pipeline.target = (*target)->model();
  printPipeline(llvm::outs(), pipeline);
}

/// --compare: the pages' reports on one page, and their figures in a table.
void compareReports(llvm::raw_ostream &os, const Options &options) {
  std::vector<std::string> reports;
  for (const std::string &input : options.inputs)
    llvm::append_range(reports, orThrow(readReports(input)));
  if (runtime::Error problem = writeReportPage(options.flags.reportFolder, reports))
    throw Error("--report=" + options.flags.reportFolder + ": " + problem.message());
  os << comparisonText(reports);
}

int dispatch(const Options &options) {
  switch (options.action) {
  case Action::help:
    printHelp(llvm::outs(), options.subject);
    return exitSuccess;
  case Action::complete:
    for (const std::string &word : completions(options.subject))
      llvm::outs() << word << '\n';
    return exitSuccess;
  case Action::explain:
    explain(llvm::outs(), options.subject);
    return exitSuccess;
  case Action::manPage:
    printManPage(llvm::outs());
    return exitSuccess;
  case Action::version:
    printVersion(llvm::outs());
    return exitSuccess;
  case Action::dumpVersion:
    llvm::outs() << versionText << '\n';
    return exitSuccess;
  case Action::dumpMachine:
    llvm::outs() << llvm::sys::getDefaultTargetTriple() << '\n';
    return exitSuccess;
  case Action::printTargets:
    printTargets(llvm::outs());
    return exitSuccess;
  case Action::doctor:
    return runDoctor(llvm::outs());
  case Action::calibrate:
    calibrate(llvm::outs(), options.flags.threads);
    return exitSuccess;
  case Action::cacheStats:
    printCacheStats(llvm::outs(), keptCache(options));
    return exitSuccess;
  case Action::cacheClear:
    clearCache(llvm::outs(), keptCache(options));
    return exitSuccess;
  case Action::printPipeline:
    printPipelineFor(options.compile);
    return exitSuccess;
  case Action::compare:
    compareReports(llvm::outs(), options);
    return exitSuccess;
  case Action::compile:
  case Action::syntaxOnly:
    break;
  }
  if (runtime::Error error = checkFiles(options)) {
    diagnosticPrinter(options).print(Severity::error, error.message());
    return exitDiagnosed;
  }
  if (options.isShownOnly) {
    showSteps(llvm::errs(), options);
    return exitSuccess;
  }
  int status = exitSuccess;
  std::vector<runtime::Artefact> steps;
  for (const auto &[i, input] : llvm::enumerate(options.inputs)) {
    const bool isCompiled = input != "-" && isArtefact(input);
    const int own = isCompiled ? processArtefact(options, input, steps) : processInput(options, input, steps);
    status = std::max(status, own);
    // Without -o each input has a library of its own.
    const bool hasOwn = options.output.empty(), isLast = i + 1 == options.inputs.size();
    if (libraryOf(options) && (hasOwn ? own == exitSuccess : isLast && status == exitSuccess)) {
      writeLibrary(options, libraryPath(options, input), steps);
      steps.clear();
    }
  }
  return status;
}

} // namespace

int tcc::driver::run(int count, const char *const *arguments) {
  runtime::guardStandardStreams();
  const llvm::ArrayRef<const char *> words(arguments + 1, count > 0 ? count - 1 : 0);
  Options options;
  // An error of the command line itself is written in the format that it asks for.
  if (llvm::any_of(words, [](llvm::StringRef word) { return word == "-fdiagnostics-format=sarif"; }))
    options.sarif = std::make_shared<SarifLog>();
  const auto tellSarif = [&] {
    if (options.sarif)
      llvm::errs() << options.sarif->text(versionText);
  };
  try {
    options = parseOptions(words);
    if (runtime::Error wrong = runtime::checkCpuLimit(); wrong && !onlyPrints(options.action))
      throw usageError(wrong.message());
    const int status = finishStdout(dispatch(options), options);
    tellSarif();
    return status;
  } catch (const Error &error) {
    if (error.kind() == Error::Kind::internal)
      return internalError(error.what());
    DiagnosticPrinter printer = diagnosticPrinter(options);
    if (error.kind() == Error::Kind::usage)
      printer.printUsage(error.what());
    else
      printer.print(Severity::error, error.what());
    tellSarif();
    return error.exitStatus();
  } catch (const std::exception &failure) {
    return internalError(failure.what());
  }
}
