// Parses the command line by LLVM's option tables.
#include "frontend/driver/options.h"
#include "codegen/targets.h"
#include "frontend/diagnostics.h"
#include "frontend/driver/option_checks.h"
#include "frontend/driver/option_table.h"
#include "frontend/driver/option_target.h"
#include "frontend/error.h"
#include "ir/lanes.h"
#include "passes/switches.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Option/ArgList.h"
#include "llvm/Support/Allocator.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/StringSaver.h"

using namespace llvm::opt;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;

namespace tcc::driver {
namespace {

int64_t number(StringRef text, StringRef option, int64_t least, int64_t most) {
  int64_t value = 0;
  if (text.getAsInteger(10, value) || value < least || value > most)
    throw usageError("'" + text.str() + "' of " + option.str() + " is no number from " + std::to_string(least) +
                     " to " + std::to_string(most));
  return value;
}

std::string suggestion(const std::string &candidate) {
  return candidate.empty() ? std::string() : "; did you mean '" + candidate + "'?";
}

void readEmission(StringRef text, Options &options) {
  if (text.empty())
    throw usageError("-emit= without a kind (one of " + llvm::join(emissionNames(), ", ") + ")");
  for (const auto &[name, emission] : emissionTable())
    if (name == text) {
      options.emissions.push_back(emission);
      return;
    }
  throw usageError("unknown -emit= kind '" + text.str() + "'" + suggestion(nearest(text, emissionNames())) +
                   " (one of " + llvm::join(emissionNames(), ", ") + ")");
}

std::string nonEmpty(StringRef text, StringRef option, StringRef what) {
  if (text.empty())
    throw usageError(option.str() + " without " + what.str());
  return text.str();
}

void readShape(StringRef text, Options &options) {
  auto [name, sizes] = text.rsplit(':');
  SmallVector<StringRef> parts;
  sizes.split(parts, 'x');
  std::vector<int64_t> shape;
  if (!sizes.empty())
    for (StringRef part : parts)
      shape.push_back(number(part, "--shape=" + text.str(), 0, int64_t{1} << 40));
  if (name.empty() || shape.empty())
    throw usageError("'" + text.str() + "' of --shape= has another form than NAME:16x256");
  if (!options.compile.pipeline.shapes.try_emplace(name.str(), shape).second)
    throw usageError("--shape= gives '" + name.str() + "' twice");
}

/// N, or N:RANK.
void readRanks(StringRef text, Options &options) {
  auto [count, rank] = text.split(':');
  options.flags.ranks.count = number(count, "--ranks=" + text.str(), 1, mostLanes);
  options.flags.ranks.rank = rank.empty() ? 0 : number(rank, "--ranks=" + text.str(), 0, mostLanes);
  if (options.flags.ranks.rank >= options.flags.ranks.count)
    throw usageError("--ranks=" + text.str() + " names a rank that is not below their number");
}

/// NAME=FILE.npy of `option`, each name once.
void readFile(StringRef text, StringRef option, std::vector<std::pair<std::string, std::string>> &files) {
  auto [name, path] = text.split('=');
  if (name.empty() || path.empty())
    throw usageError("'" + text.str() + "' of " + option.str() + " has another form than NAME=FILE.npy");
  for (const auto &[other, file] : files)
    if (other == name)
      throw usageError(option.str() + " gives '" + name.str() + "' twice");
  files.emplace_back(name.str(), path.str());
}

void readRun(StringRef text, Options &options) {
  if (text == "reference")
    options.reference = true;
  else
    options.runs = number(text, "--run=", 1, 1000000000);
}

void readOutput(StringRef path, Options &options) {
  if (path.empty())
    throw usageError("-o with an empty name");
  if (!options.output.empty())
    throw usageError("-o is given twice: '" + options.output + "' and '" + path.str() + "'");
  options.output = path.str();
}

/// One place to stop, once or more.
void readStop(StringRef option, Options &options) {
  if (!options.stop.empty() && options.stop != option)
    throw usageError(options.stop + " and " + option.str() + " contradict each other; give one of them");
  options.stop = option.str();
}

void readWarning(StringRef text, Options &options) {
  std::string candidate;
  if (takeCompilerFlag("-W" + text.str(), nullptr, options.flags, candidate))
    return;
  if (!options.warnings.set(text, candidate))
    throw usageError("unknown warning '-W" + text.str() + "'" + suggestion(candidate) + " (--help lists them)");
}

void readTarget(StringRef text, Options &options) {
  if (text.contains(':') || !targetKindOf(text))
    throw usageError("unknown target '" + text.str() + "' (" + kindNames(" or ") + ")");
  options.compile.targetName = text.str();
}

/// As the command line has it, which may be an alias.
std::string spellingOf(const Arg &arg) {
  return (arg.getAlias() ? *arg.getAlias() : arg).getSpelling().str();
}

/// What an option asks for instead of compiling. -fsyntax-only is no such option, since it may stand beside others.
std::optional<Action> actionOf(unsigned option) {
  switch (option) {
  case OPT_autocomplete_EQ:
    return Action::complete;
  case OPT_cache_clear:
    return Action::cacheClear;
  case OPT_cache_stats:
    return Action::cacheStats;
  case OPT_calibrate:
    return Action::calibrate;
  case OPT_compare:
    return Action::compare;
  case OPT_doctor:
    return Action::doctor;
  case OPT_dumpmachine:
    return Action::dumpMachine;
  case OPT_dumpversion:
    return Action::dumpVersion;
  case OPT_explain:
    return Action::explain;
  case OPT_help:
  case OPT_help_EQ:
    return Action::help;
  case OPT_man_page:
    return Action::manPage;
  case OPT_print_pipeline:
    return Action::printPipeline;
  case OPT_print_targets:
    return Action::printTargets;
  case OPT_version:
    return Action::version;
  default:
    return std::nullopt;
  }
}

/// One action: a second one would be dropped without a word.
void readAction(const Arg &arg, Options &options) {
  const std::optional<Action> action = actionOf(arg.getOption().getID());
  if (!action)
    return;
  const std::string option = spellingOf(arg);
  if (!options.actionOption.empty() && options.action != *action)
    throw usageError(options.actionOption + " and " + option + " contradict each other; give one of them");
  options.action = *action;
  options.actionOption = option;
}

std::vector<std::string> flagSpellings() {
  std::vector<std::string> spellings;
  for (const CompilerFlag &flag : compilerFlags())
    spellings.emplace_back(flag.spelling);
  return spellings;
}

void apply(const Arg &arg, Options &options) {
  auto value = [&] { return StringRef(arg.getNumValues() ? arg.getValue() : ""); };
  readAction(arg, options);
  switch (arg.getOption().getID()) {
  case OPT_INPUT:
    if (value().starts_with("@")) // one that exists has been expanded
      throw usageError("cannot read response file '" + value().drop_front().str() + "'");
    options.inputs.push_back(arg.getSpelling() == "-" ? "-" : value().str());
    break;
  case OPT_o:
    readOutput(value(), options);
    break;
  case OPT_E:
    readStop("-E", options);
    options.emissions.push_back(Phase::captured);
    break;
  case OPT_S: // what that is depends on the target (settleAssembly)
    readStop("-S", options);
    break;
  case OPT_c:
    readStop("-c", options);
    options.asObject = true;
    break;
  case OPT_static:
    options.staticRuntime = true;
    break;
  case OPT_fsyntax_only:
    readStop("-fsyntax-only", options);
    if (options.actionOption.empty())
      options.action = Action::syntaxOnly;
    break;
  case OPT_g:
    throw usageError(spellingOf(arg) +
                     " has no effect to offer: compiled kernels have no line tables; -S, -emit=llvm, -Rpass and "
                     "--profile= name the lines of the graph that a kernel is made of");
  case OPT_emit_EQ:
    if (arg.getValues().empty())
      readEmission("", options);
    for (const char *kind : arg.getValues())
      readEmission(kind, options);
    break;
  case OPT_x:
    if (value() != "graph")
      throw usageError("unknown language '" + value().str() + "' of -x (graph)");
    break;
  case OPT_target_EQ:
    readTarget(value(), options);
    break;
  case OPT_shape_EQ:
    readShape(value(), options);
    break;
  case OPT_ranks_EQ:
    readRanks(value(), options);
    break;
  case OPT_reduce_EQ:
    if (value() != "tree" && value() != "fast")
      throw usageError("'" + value().str() + "' of --reduce= is neither tree nor fast");
    options.flags.ranks.isFast = value() == "fast";
    break;
  case OPT_zero_EQ:
    options.flags.ranks.zero = static_cast<int>(number(value(), "--zero=" + value().str(), 0, mostZero));
    break;
  case OPT_run:
    options.runs = 1;
    break;
  case OPT_run_EQ:
    readRun(value(), options);
    break;
  case OPT_check_device:
    options.checkDevice = true;
    return;
  case OPT_graph_breaks:
    options.graphBreaks = "text";
    break;
  case OPT_graph_breaks_EQ:
    if (value() != "text" && value() != "json")
      throw usageError("unknown format '" + value().str() + "' of --graph-breaks= (text or json)");
    options.graphBreaks = value().str();
    break;
  case OPT_bench:
    options.benchRuns = 20;
    break;
  case OPT_bench_EQ:
    options.benchRuns = number(value(), "--bench=", 1, 1000000000);
    break;
  case OPT_ablate:
    options.ablationRounds = 5;
    break;
  case OPT_ablate_EQ:
    options.ablationRounds = number(value(), "--ablate=", 1, 1000);
    break;
  case OPT_json_EQ:
    options.json = nonEmpty(value(), "--json=", "a file");
    break;
  case OPT_plot_EQ:
    options.plot = nonEmpty(value(), "--plot=", "a file");
    break;
  case OPT_input:
    readFile(value(), "--input", options.inputFiles);
    break;
  case OPT_output:
    readFile(value(), "--output", options.outputFiles);
    break;
  case OPT_seed_EQ:
    options.givenSeed = options.seed = static_cast<uint64_t>(number(value(), "--seed=", 0, INT64_MAX));
    break;
  case OPT_profile_EQ:
    options.profile = value().str();
    break;
  case OPT_fdump_ir_EQ:
    options.compile.pipeline.dump = value().str();
    break;
  case OPT_fdump_dir_EQ:
    options.dumpFolder = value().str();
    break;
  case OPT_fverify_each:
    options.compile.pipeline.verifyEach = true;
    break;
  case OPT_ftime_report:
    options.timeReport = true;
    break;
  case OPT_ftime_report_EQ:
    if (value() != "text" && value() != "json")
      throw usageError("unknown format '" + value().str() + "' of -ftime-report= (text or json)");
    options.timeReport = true;
    options.timeReportIsJson = value() == "json";
    break;
  case OPT_ftime_trace:
    options.timeTrace = "";
    break;
  case OPT_ftime_trace_EQ:
    options.timeTrace = nonEmpty(value(), "-ftime-trace=", "a file");
    break;
  case OPT_save_temps:
    options.saveTemps = ".";
    break;
  case OPT_save_temps_EQ:
    options.saveTemps = nonEmpty(value(), "-save-temps=", "a folder");
    break;
  case OPT_fdiagnostics_color:
    options.color = "always";
    break;
  case OPT_fno_diagnostics_color:
    options.color = "never";
    break;
  case OPT_fdiagnostics_color_EQ:
    options.color = value().str();
    if (options.color != "always" && options.color != "never" && options.color != "auto")
      throw usageError("unknown colour '" + options.color + "' (always, never or auto)");
    break;
  case OPT_fdiagnostics_format_EQ:
    if (value() != "text" && value() != "sarif")
      throw usageError("unknown format '" + value().str() + "' of -fdiagnostics-format= (text or sarif)");
    options.sarif = value() == "sarif" ? std::make_shared<SarifLog>() : nullptr;
    break;
  case OPT_W:
    readWarning(value(), options);
    break;
  case OPT_w:
    options.warnings.silence();
    break;
  case OPT_v:
    options.verbose = true;
    break;
  case OPT_help_EQ:
  case OPT_autocomplete_EQ:
  case OPT_explain:
    options.subject = value().str();
    break;
  case OPT__HASH_HASH_HASH:
    options.isShownOnly = true;
    break;
  default:
    break;
  }
}

/// "--bench 5" and "--run 5" mean --bench=5 and --run=5, where 5 is no file.
bool takesNextWord(const Arg *arg, const Arg *previous, Options &options) {
  if (!previous || arg->getOption().getID() != OPT_INPUT || arg->getIndex() != previous->getIndex() + 1)
    return false;
  const unsigned option = previous->getOption().getID();
  const StringRef word = arg->getNumValues() ? arg->getValue() : "";
  const bool isValue =
      (!word.empty() && llvm::all_of(word, llvm::isDigit)) || (option == OPT_run && word == "reference");
  if ((option != OPT_bench && option != OPT_run) || !isValue || llvm::sys::fs::exists(word))
    return false;
  if (option == OPT_bench) {
    options.benchRuns = number(word, "--bench", 1, 1000000000);
  } else {
    options.runs.reset();
    readRun(word, options);
  }
  return true;
}

/// For -###: what else than files and -### the command line has.
void keepSetting(const Arg &arg, const InputArgList &list, Options &options) {
  const unsigned option = arg.getOption().getID();
  if (option == OPT_INPUT || option == OPT_o || option == OPT_x || option == OPT__HASH_HASH_HASH)
    return;
  ArgStringList words;
  arg.render(list, words);
  options.settings.insert(options.settings.end(), words.begin(), words.end());
}

/// The option that a misspelt one may stand for: of few letters, one that shares most of them.
std::string nearestOption(const OptionTable &table, StringRef text) {
  const auto letters = static_cast<unsigned>(llvm::count_if(text.split('=').first, llvm::isAlnum));
  std::string candidate;
  if (table.findNearest(text, candidate) <= std::min(2u, letters / 2))
    return candidate;
  return letters > 1 ? nearest(text, flagSpellings()) : "";
}

} // namespace

DiagnosticPrinter diagnosticPrinter(const Options &options) {
  return DiagnosticPrinter(llvm::errs(), useColor(options.color), options.sarif.get());
}

Options parseOptions(ArrayRef<const char *> arguments) {
  llvm::BumpPtrAllocator allocator;
  llvm::StringSaver saver(allocator);
  SmallVector<const char *> expanded(arguments.begin(), arguments.end());
  llvm::cl::ExpansionContext responseFiles(allocator, llvm::cl::TokenizeGNUCommandLine);
  if (llvm::Error problem = responseFiles.expandResponseFiles(expanded))
    throw usageError(llvm::toString(std::move(problem)));
  const OptionTable table;
  unsigned missingIndex = 0, missingCount = 0;
  const InputArgList list = table.ParseArgs(expanded, missingIndex, missingCount);
  Options options;
  for (StringRef argument : arguments)
    if (argument.consume_front("@"))
      options.responseFiles.push_back(argument.str());
  options.commandLine.assign(expanded.begin(), expanded.end());
  if (missingCount)
    throw usageError("option '" + std::string(expanded[missingIndex]) + "' needs a value");
  const Arg *previous = nullptr;
  for (const Arg *arg : list) {
    if (arg->getOption().getID() == OPT_UNKNOWN) {
      const std::string text = arg->getAsString(list);
      std::string problem;
      if (takeCompilerFlag(text, nullptr, options.flags, problem)) {
        if (!problem.empty())
          throw usageError(problem);
        options.givenFlags.push_back(text);
        options.settings.push_back(text);
        if (StringRef(text).starts_with("-march=")) // native is the default, but one that is asked for must be there
          options.architectures.assign(text == "-march=native" ? 1 : 0, "native");
        continue;
      }
      throw usageError("unknown option '" + text + "'" + suggestion(nearestOption(table, text)));
    }
    if (takesNextWord(arg, previous, options)) {
      options.settings.back() += std::string("=") + arg->getValue();
    } else {
      apply(*arg, options);
      keepSetting(*arg, list, options);
    }
    previous = arg;
  }
  if (const std::optional<std::string> unknown = unknownPass(options.flags))
    throw usageError(*unknown);
  if (const std::string unknown = unknownDump(options.compile.pipeline.dump); !unknown.empty())
    throw usageError(unknown);
  if (options.flags.march == "help")
    options.action = Action::printTargets;
  else
    settleTarget(options);
  if (options.stop == "-S" && options.action == Action::compile)
    settleAssembly(options);
  applyFlags(options.flags, options.compile);
  checkTogether(options);
  return options;
}

} // namespace tcc::driver
