// The command line of tcc as a struct.
#pragma once
#include "codegen/library/step_library.h"
#include "frontend/compile_options.h"
#include "frontend/graph_warnings.h"
#include "frontend/report/graph_picture.h"
#include "frontend/sarif.h"
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tcc::driver {

enum class Action : uint8_t {
  compile,
  help,
  version,
  dumpVersion,
  dumpMachine,
  complete,
  explain,
  manPage,
  printTargets,
  doctor,
  calibrate,
  cacheStats,
  cacheClear,
  printPipeline,
  compare,
  syntaxOnly
};

/// -emit=json.
struct PlanEmission {};
/// What the planned memory consists of: -emit=memory, -emit=memory.json.
struct MemoryEmission {
  bool isJson = false;
};
/// The graph at a phase as a picture: -emit=dot, -emit=captured.svg.
struct PictureEmission {
  Phase phase;
  std::string (*form)(const GraphPicture &picture);
};
/// What a kind of target shows of the kernels.
struct CodeEmission {
  const TargetKind *kind;
  const KernelEmission *form;
  bool isPrinted = form->isText; ///< to stdout, unless -o names a file
};
/// What is printed or written instead of the artefact. A Phase stands for the module at that phase.
using Emission = std::variant<Phase, PlanEmission, MemoryEmission, PictureEmission, CodeEmission>;

struct Options {
  Action action = Action::compile;
  std::string actionOption;               ///< the option that `action` comes from; empty: none
  std::string subject;                    ///< of --help=, --autocomplete= and --explain
  bool isShownOnly = false;               ///< -###
  std::vector<std::string> inputs;        ///< paths; "-" is stdin
  std::vector<std::string> responseFiles; ///< paths of @file
  std::string output;                     ///< -o; empty: none, "-" is stdout
  std::string stop;                       ///< -E, -S, -c or -fsyntax-only: where to stop
  bool asObject = false;                  ///< -c
  bool staticRuntime = false;             ///< --static
  std::vector<Emission> emissions;
  CompilerFlags flags;                 ///< the flags as they are written; `compile` has what they mean
  std::vector<std::string> givenFlags; ///< the flags that the command line has
  std::vector<std::string> settings;   ///< all arguments of the command line except files
  CompileOptions compile;
  std::vector<std::string> architectures; ///< of -march=, for the target

  std::optional<int64_t> runs; ///< --run
  bool reference = false;      ///< --run=reference
  std::optional<int64_t> benchRuns;
  std::optional<int64_t> ablationRounds; ///< --ablate
  std::string json, plot;                ///< --json, --plot: files for the figures and the picture, or empty
  std::vector<std::pair<std::string, std::string>> inputFiles;  ///< --input: name, path
  std::vector<std::pair<std::string, std::string>> outputFiles; ///< --output: name of a result or state, path
  bool checkDevice = false;
  std::optional<std::string> graphBreaks; ///< --graph-breaks: "text" or "json"
  std::optional<uint64_t> givenSeed;      ///< --seed=
  uint64_t seed = 0;
  std::string profile;

  std::string dumpFolder;
  bool timeReport = false, timeReportIsJson = false, verbose = false;
  std::optional<std::string> timeTrace; ///< -ftime-trace; empty: INPUT.json
  std::string saveTemps;                ///< -save-temps: the folder
  Warnings warnings;                    ///< -W
  std::string color = "auto";
  std::shared_ptr<SarifLog> sarif;      ///< -fdiagnostics-format=sarif: where diagnostics go; null: to stderr as text
  std::vector<std::string> commandLine; ///< for a reproducer
};

/// Prints diagnostics as the options ask.
DiagnosticPrinter diagnosticPrinter(const Options &options);

/// Parses what follows the program's name; response files (@file) are read. Throws Error.
Options parseOptions(llvm::ArrayRef<const char *> arguments);

} // namespace tcc::driver
