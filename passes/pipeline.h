// The one pipeline, which turns a captured function into a planned one. Flags, dumps and timing are derived from
// the table in passes.def, with which a test compares the table of README.md.
#pragma once
#include "ir/phases.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/pass_flags.h"
#include "passes/recomputation.h"
#include "passes/remarks.h"
#include "passes/target_model.h"
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tcc {

/// The type that f32 matmuls and attention multiply in; they add up in f32 anyway.
enum class ProductType { asWritten, bf16, f16 };

struct PassReport;

/// What a run of the pipeline is given beside PassFlags.
struct PipelineRequest {
  std::map<std::string, std::vector<int64_t>> shapes; // --shape: sizes of an argument by its tcc.name
  ProductType products = ProductType::asWritten;      // --dtype
  Recomputation recomputation;                        // what rematerialize computes again
  std::string firstPass, endPass;          // only the passes from the first name on and before the second; empty: all
  std::optional<Phase> stopAfter;          // stop when this phase is reached
  bool verifyEach = false;                 // run the reference interpreter before and after each pass and compare
  bool findChanges = false;                // fill PassReport::changed, which dump, verifyEach and passed do too
  bool checkForms = false;                 // analyse also kernels that are known, and compare; verifyEach does the same
  std::string dump;                        // -fdump-ir=: "all", "changed" or a pass's name; empty for none
  llvm::raw_ostream *dumpStream = nullptr; // where dumps go; stderr by default
  std::function<void(Phase, mlir::ModuleOp)> reached; // told of each phase when it holds; may be empty
  /// Told of each pass that has run, with its report and the module that it left; may be empty.
  std::function<void(const PassReport &, mlir::ModuleOp)> passed;
  Remarks *remarks = nullptr; // the list to which passes add what they did and what they left; null: nobody asks
  TargetModel target;
  const TargetQueries *queries = nullptr; // without it the target has no kernels of its own, and nothing needs scratch
};

struct PipelineOptions : PassFlags, PipelineRequest {};

struct PassReport {
  std::string name;
  double milliseconds = 0;
  bool changed = false; // false too where PipelineRequest::findChanges and what implies it are off
};

struct PipelineReport {
  std::vector<PassReport> passes;
  int64_t capturedOps = 0, kernels = 0, matmuls = 0; // for the summary line
  int64_t arenaBytes = 0;
  RecomputationCost recomputed;
};

struct PassInfo {
  const char *name;
  Phase reaches;                           // the phase that holds after it
  const char *reason;                      // why it stands at this position
  bool (*wanted)(const PipelineOptions &); // whether it runs unless -f says otherwise; null: it always runs
  mlir::LogicalResult (*run)(mlir::func::FuncOp, const PipelineOptions &);

  bool required() const { return !wanted; }
};

/// The table, in order.
llvm::ArrayRef<PassInfo> pipelineTable();
/// The name of a pass that is spelled almost like `name`, for "did you mean"; empty if none is.
std::string nearestPass(llvm::StringRef name);
/// Prints `--print-pipeline`: one line for each pass, with position, name, phase, on or off under the options, reason.
void printPipeline(llvm::raw_ostream &os, const PipelineOptions &options);

/// The module's one function.
mlir::func::FuncOp functionOf(mlir::ModuleOp module);

/// Runs the pipeline on the module's one public function. Errors are MLIR diagnostics. A dump or stop that the
/// pipeline never reaches, and a pass name that does not exist, are errors.
mlir::LogicalResult runPipeline(mlir::ModuleOp module, const PipelineOptions &options, PipelineReport &report);

} // namespace tcc
