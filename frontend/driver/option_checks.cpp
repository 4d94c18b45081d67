#include "frontend/driver/option_checks.h"
#include "codegen/targets.h"
#include "frontend/driver/libraries.h"
#include "frontend/error.h"
#include "llvm/ADT/STLExtras.h"

using llvm::StringRef;

namespace tcc::driver {
namespace {

/// --ablate compiles and runs the step in many forms: what is asked of one compilation or one run is not for it.
void checkAblation(const Options &options) {
  if (!options.json.empty() && !options.benchRuns && !options.ablationRounds)
    throw usageError("--json= without --bench or --ablate");
  if (!options.plot.empty() && !options.ablationRounds)
    throw usageError("--plot= without --ablate");
  if (options.json == "-" && options.plot == "-")
    throw usageError("--json=- and --plot=- would both go to stdout; give one of them a file");
  if (!options.ablationRounds)
    return;
  const std::pair<const char *, bool> others[] = {{"--run", options.runs.has_value()},
                                                  {"--run=reference", options.reference},
                                                  {"--bench", options.benchRuns.has_value()},
                                                  {"--output", !options.outputFiles.empty()},
                                                  {"--profile=", !options.profile.empty()},
                                                  {"--graph-breaks", options.graphBreaks.has_value()},
                                                  {"--check-device", options.checkDevice},
                                                  {"--report=", !options.flags.reportFolder.empty()},
                                                  {"-fverify-each", options.compile.pipeline.verifyEach},
                                                  {"-fdump-ir=", !options.compile.pipeline.dump.empty()},
                                                  {"-ftime-report", options.timeReport},
                                                  {"-ftime-trace", options.timeTrace.has_value()},
                                                  {"-save-temps", !options.saveTemps.empty()}};
  for (const auto &[option, isGiven] : others)
    if (isGiven)
      throw usageError(std::string(option) + " cannot be given with --ablate, which compiles the step in many forms");
  if (options.architectures.size() > 1)
    throw usageError("--ablate with several architectures of -march=; give one at a time");
}

/// An option that asks for work on an input, or an empty text.
std::string workOnInput(const Options &options) {
  if (!options.stop.empty())
    return options.stop;
  const std::pair<const char *, bool> others[] = {{"-o", !options.output.empty()},
                                                  {"-emit=", !options.emissions.empty()},
                                                  {"--run", options.runs || options.reference},
                                                  {"--bench", options.benchRuns.has_value()},
                                                  {"--ablate", options.ablationRounds.has_value()},
                                                  {"--graph-breaks", options.graphBreaks.has_value()},
                                                  {"-###", options.isShownOnly}};
  for (const auto &[option, isGiven] : others)
    if (isGiven)
      return option;
  return {};
}

/// An action beside which no input is compiled would drop what is asked of one without a word.
void checkAction(const Options &options) {
  constexpr Action ofTheMachine[] = {Action::cacheStats, Action::cacheClear, Action::calibrate, Action::doctor,
                                     Action::printPipeline};
  const bool isOfTheMachine = llvm::is_contained(ofTheMachine, options.action);
  if (isOfTheMachine && !options.inputs.empty())
    throw usageError(options.actionOption + " takes no input, and '" + options.inputs.front() +
                     "' is one; give one of them");
  if (const std::string work = workOnInput(options);
      !work.empty() && (isOfTheMachine || options.action == Action::compare))
    throw usageError(options.actionOption + " and " + work + " contradict each other; give one of them");
}

} // namespace

void checkTogether(const Options &options) {
  checkAction(options);
  if (options.action == Action::compare) {
    if (options.inputs.size() < 2 || options.flags.reportFolder.empty())
      throw usageError("--compare takes two pages or more, and --report=DIR: tcc --compare A B --report=DIR");
    return;
  }
  if (!options.flags.reportFolder.empty() && options.inputs.size() > 1)
    throw usageError("--report= with several inputs; give one input at a time");
  if (options.action != Action::compile && options.action != Action::syntaxOnly)
    return;
  const bool executes = options.runs || options.reference || options.benchRuns || options.ablationRounds;
  if (options.inputs.empty())
    throw usageError("no input file; tcc --help shows examples");
  checkAblation(options);
  if (llvm::count(options.inputs, "-") > 1)
    throw usageError("stdin is given twice");
  const bool isLibrary = libraryOf(options).has_value();
  if (!options.output.empty() && options.inputs.size() > 1 && !isLibrary)
    throw usageError("-o with several inputs; give one input at a time, or a library (FILE.so, FILE.a, FILE.o)");
  if ((!options.output.empty() || options.asObject) && executes)
    throw usageError(std::string(options.asObject ? "-c" : "-o") +
                     " with --run, --bench or --ablate, which write no artefact; give one of them");
  for (StringRef option : {options.outputFiles.empty() ? "" : "--output", options.profile.empty() ? "" : "--profile=",
                           options.json.empty() ? "" : "--json=", options.plot.empty() ? "" : "--plot="})
    if (!option.empty() && options.inputs.size() > 1)
      throw usageError(option.str() + " with several inputs; give one input at a time");
  if (!options.output.empty() && options.emissions.size() > 1)
    throw usageError("-o with several -emit= kinds; give one kind at a time");
  if (!options.stop.empty() && executes)
    throw usageError(options.stop +
                     " stops before anything could run, as --run, --bench and --ablate ask; give one of them");
  if (!options.emissions.empty() && executes)
    throw usageError("--run, --bench and --ablate do not go together with -emit=");
  if (options.timeTrace && !options.timeTrace->empty() && options.inputs.size() > 1)
    throw usageError("-ftime-trace= with several inputs; give one input at a time, or -ftime-trace");
  if (!options.dumpFolder.empty() && options.compile.pipeline.dump.empty())
    throw usageError("-fdump-dir= without -fdump-ir=");
  if (!executes && options.givenSeed && !options.graphBreaks && options.flags.reportFolder.empty())
    throw usageError("--seed= without --run, --bench, --ablate or --graph-breaks");
  if (!executes && !options.inputFiles.empty())
    throw usageError("--input without --run, --bench or --ablate");
  if (!executes && !options.outputFiles.empty())
    throw usageError("--output without --run or --bench");
  if (options.checkDevice &&
      ((!options.runs && !options.benchRuns) || !targetKindOf(options.compile.targetName)->hasDevices()))
    throw usageError("--check-device without --target=" +
                     kindNames(" or --target=", [](const TargetKind &kind) { return kind.hasDevices(); }) +
                     " and --run or --bench");
  if (!options.profile.empty() && !options.runs && !options.benchRuns)
    throw usageError("--profile= without --run or --bench");
  checkLibraryOptions(options);
}

} // namespace tcc::driver
