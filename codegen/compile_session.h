// CompileSession: from a captured module to an artefact that the runtime runs without LLVM, and to what lies between.
#pragma once
#include "codegen/target_kind.h"
#include "mlir/IR/OwningOpRef.h"
#include "passes/pipeline.h"
#include "runtime/artefact.h"
#include "runtime/device/device.h"

namespace tcc {

struct CompileOptions {
  PipelineOptions pipeline;       // its target, queries and remarks are set by the session
  const Target *target = nullptr; // for whom; null: the one that targetName names
  std::string targetName = "cpu"; // see makeTarget
  CodeOptions code;
  bool allowCustomCode = true; // of custom ops that name a library or have kernel text; else such an op is an error
  int threads = 0;             // run-time threads that products' scratch is sized for; 0: all that the process may use
  /// Where custom ops' kernel text is compared with what it means; null, or a device that shares the host's memory: it
  /// is not.
  std::shared_ptr<runtime::Device> device;
  bool remarks = false;        // whether passes tell what they did and what they left (CompileReport::remarks)
  FileCache cache;             // of kernels' code and whole steps; nothing is kept without
  int64_t memoryLimit = 0;     // bytes that the plan must fit in; 0: none
  bool recomputesToFit = true; // more than pipeline.recomputation says, where the plan does not fit
  bool leastMemory = false;    // of all that can be computed again, what gives the smallest plan
  bool costs = false; // whether remarks say what each instruction costs; measures the machine's limits where unknown
  /// Whether a step that the cache has is compiled all the same, since somebody watches: CompileReport::cache says what
  /// the cache had, CompileReport::kernels has what was emitted.
  bool watched = false;
};

/// What a compilation says of itself.
struct CompileReport {
  PipelineReport pipeline;
  Remarks remarks;             // equal ones joined, most bytes first
  int64_t compiledKernels = 0; // after equal ones were joined
  int64_t plannedBytes = 0;
  double pipelineMs = 0, codegenMs = 0, totalMs = 0;
  std::vector<std::pair<std::string, double>> codegenSteps; // its parts: name and milliseconds
  std::string emitted;                                      // Target::emitted
  bool fromCache = false;                                   // no pass ran, no code was made
  std::string cache;                 // "hit: FILE", "miss: flags differ: -O2 → -O3", "not used: off"
  std::vector<KernelSource> kernels; // where CompileOptions::watched asks for them: as of CompileSession::kernels()
};

/// The one way to compile: for the command line, compile() and every check. Each function takes the captured module,
/// which it changes. An error's message is empty where diagnostics on the module's context have said what is wrong.
/// Serves one thread.
class CompileSession {
public:
  /// An error where options.targetName is none of this build's.
  static runtime::Expected<CompileSession> open(CompileOptions options);

  /// From the cache; or runs the pipeline, lowers the plan, checks custom ops, emits the kernels.
  runtime::Expected<runtime::Artefact> artefact(mlir::OwningOpRef<mlir::ModuleOp> captured);
  /// The module when it has reached `phase`.
  runtime::Expected<mlir::OwningOpRef<mlir::ModuleOp>> lowered(mlir::OwningOpRef<mlir::ModuleOp> captured,
                                                               Phase phase = Phase::planned);
  /// The plan alone: no code is made.
  runtime::Expected<runtime::Plan> plan(mlir::OwningOpRef<mlir::ModuleOp> captured);
  struct PlanAndKernels {
    runtime::Plan plan;
    std::vector<KernelSource> kernels; // as of kernels()
  };
  runtime::Expected<PlanAndKernels> planAndKernels(mlir::OwningOpRef<mlir::ModuleOp> captured);
  /// The kernels under their symbols, equal ones once, in order of first use.
  runtime::Expected<std::vector<KernelSource>> kernels(mlir::OwningOpRef<mlir::ModuleOp> captured);

  const CompileOptions &options() const { return compileOptions; }
  const Target &target() const { return *compileTarget; }
  /// Of what was compiled last.
  const CompileReport &report() const { return lastReport; }

private:
  struct Planned {
    mlir::OwningOpRef<mlir::ModuleOp> module;
    runtime::Plan plan;
    KernelTable kernels;
  };

  CompileSession(CompileOptions options, std::shared_ptr<const Target> target);
  runtime::Expected<runtime::Artefact> compiled(mlir::OwningOpRef<mlir::ModuleOp> captured);
  bool runPasses(mlir::ModuleOp module, std::optional<Phase> stopAfter);
  bool runPasses(mlir::ModuleOp module, PipelineOptions pipeline);
  runtime::Error chooseRecomputation(mlir::ModuleOp captured);
  std::vector<Recomputation> fasterFirst(mlir::ModuleOp fused, llvm::ArrayRef<Recomputation> choices) const;
  runtime::Expected<Planned> planned(mlir::OwningOpRef<mlir::ModuleOp> captured);
  runtime::Error checkCustom(mlir::ModuleOp planned) const;
  runtime::Error checkFound(mlir::OwningOpRef<mlir::ModuleOp> captured);

  CompileOptions compileOptions;
  std::optional<Recomputation> chosen; // what the plan of the module at work needs to fit in the limit
  std::shared_ptr<const Target> compileTarget;
  CompileReport lastReport;
  double watchedMs = 0; // of the last run of passes: what those who watch took, which counts for no time of ours
};

/// CompileSession::artefact of a session of its own.
runtime::Expected<runtime::Artefact> compileArtefact(mlir::OwningOpRef<mlir::ModuleOp> captured,
                                                     CompileOptions options);

} // namespace tcc
