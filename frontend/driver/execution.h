// Running what was compiled: values in, runs and timings, values out.
#pragma once
#include "frontend/driver/options.h"
#include "frontend/graph_values.h"
#include "runtime/executable.h"
#include "runtime/trace.h"

namespace tcc::driver {

/// A value that a run printed or may write: a result, or a state after the last run.
struct NamedArray {
  std::string name;
  Array array;
};

/// What the arguments of a run are made of.
struct RunValues {
  std::map<std::string, ValueHint> hints; ///< how random elements are drawn, by argument
  std::map<std::string, Array> given;     ///< the arrays of --input, by argument

  /// The value of an argument in run `run` (from 1): the given one, or random elements for `seed`.
  Array of(const runtime::TensorSpec &spec, uint64_t seed, int64_t run) const;
};

/// The arguments of a graph, whose '?' sizes are ShapedType::kDynamic, and those of a compiled plan.
std::vector<runtime::TensorSpec> argumentsOf(mlir::func::FuncOp function);
std::vector<runtime::TensorSpec> argumentsOf(const runtime::Plan &plan);
/// What a run of a plan leaves behind: results, then states (see writableNames).
std::vector<std::string> writableNames(const runtime::Plan &plan);

/// Throws Error unless `option` (--shape=, --input, --output) names one of `names`.
void checkName(llvm::StringRef option, const std::string &given, const std::vector<std::string> &names,
               llvm::StringRef kind);

/// Reads the files of --input for these arguments and checks names and sizes; the ones that give '?' sizes are added to
/// `shapes` (as --shape does). Throws Error.
std::map<std::string, Array> readInputs(const Options &options, const std::vector<runtime::TensorSpec> &arguments,
                                        std::map<std::string, std::vector<int64_t>> &shapes);

/// The device that code for the target runs on; null: this CPU. Throws Error where there is none.
std::shared_ptr<runtime::Device> deviceFor(llvm::StringRef target, const std::string &tuning = {});

/// --run and --bench: results and times go to stdout, what --output asks for to its files, and what ran to `timeLine`,
/// of --profile=. Throws Error.
void execute(runtime::Executable &executable, const Options &options, const RunValues &values,
             runtime::Profiler &profiler, runtime::Trace *timeLine);

/// The least time of one step in `runs` runs after a warm-up.
double millisecondsOf(runtime::Executable &executable, const RunValues &values, uint64_t seed, int runs);

/// --run=reference: runs `function`, which is in phase shaped, once by the interpreter. Throws Error.
void interpretOnce(mlir::func::FuncOp function, const Options &options, const RunValues &values);

/// Keeps the hints in the artefact, so that running it alone draws the same values.
void storeHints(runtime::Artefact &artefact, const std::map<std::string, ValueHint> &hints);

/// "12.3 MB"
std::string bytesText(int64_t bytes);

} // namespace tcc::driver
