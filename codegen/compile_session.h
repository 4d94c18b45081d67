// CompileSession: compiles a captured module to an artefact, which the runtime runs without LLVM. It also gives what is
// made on the way: the module at any phase, the plan, the kernels.
#pragma once
#include "codegen/target_kind.h"
#include "mlir/IR/OwningOpRef.h"
#include "passes/pipeline.h"
#include "runtime/artefact.h"
#include "runtime/device/device.h"

namespace llvm {
class TimeTraceScope;
}

namespace tcc {

namespace runtime {
class Ranks;
}
class StepCache;

struct CompileOptions {
  PipelineOptions pipeline;       // its target, queries and remarks are set by the session
  const Target *target = nullptr; // the target to compile for; null: the one that targetName names
  std::string targetName = "cpu"; // see makeTarget
  CodeOptions code;
  bool allowCustomCode = true; // whether custom ops may name a library or have kernel text; if not, they are errors
  int threads = 0;             // run-time threads for which scratch is sized; 0: all that the process may use
  /// The device on which the kernel text of custom ops is compared with what the op means. If it is null or shares the
  /// host's memory, nothing is compared.
  std::shared_ptr<runtime::Device> device;
  bool remarks = false;        // whether passes tell what they did and what they left (CompileReport::remarks)
  FileCache cache;             // for the code of kernels and for whole steps; the default keeps nothing
  int64_t memoryLimit = 0;     // bytes that the plan must fit in; 0: none
  bool recomputesToFit = true; // whether more is computed again than pipeline.recomputation says, if the plan must fit
  bool leastMemory = false;    // whether to choose the recomputation that gives the smallest plan
  std::string tuning;          // the user's tuning file, for what -O3 chooses; empty: choices are kept beside the cache
  double tuningSeconds = usualTuningSeconds; // TuningOptions::seconds
  bool costs = false; // whether remarks say what each instruction costs; measures machine limits if unknown
  /// Whether a step is compiled although the cache has it, since somebody watches the compilation. CompileReport::cache
  /// then says what the cache had, and CompileReport::kernels has what was emitted.
  bool watched = false;
};

/// What a compilation did, and how long it took.
struct CompileReport {
  PipelineReport pipeline;
  Remarks remarks;             // equal ones joined, most bytes first
  int64_t compiledKernels = 0; // after equal ones were joined
  int64_t plannedBytes = 0;
  double pipelineMs = 0, codegenMs = 0, totalMs = 0;
  std::vector<std::pair<std::string, double>> codegenSteps; // its parts: name and milliseconds
  std::string emitted;                                      // Target::emitted()
  std::string tuned;                                        // TuningReport::text(); empty below -O3
  bool fromCache = false;                                   // whether the step came from disk: no pass ran
  std::string cache;                 // "hit: FILE", "miss: flags differ: -O2 → -O3", "not used: off"
  std::vector<KernelSource> kernels; // as CompileSession::kernels() gives them; empty unless CompileOptions::watched
};

/// The one way to compile, which the command line, compile() and every check use. Each function takes the captured
/// module and changes it. An error's message is empty if diagnostics on the module's context have said what is wrong.
/// One thread at a time may use a session.
class CompileSession {
public:
  /// Errors: options.targetName is no target of this build.
  static runtime::Expected<CompileSession> open(CompileOptions options);

  /// Takes the step from the cache; or runs the pipeline, lowers the plan, checks custom ops and emits the kernels.
  /// With `ranks` all of them call this, each with its own module, and share out the work: of ranks with equal programs
  /// one compiles, and a kernel that several ranks lack is compiled by one of them. A rank's error is an error of all.
  runtime::Expected<runtime::Artefact> artefact(mlir::OwningOpRef<mlir::ModuleOp> captured,
                                                runtime::Ranks *ranks = nullptr);
  /// The module when it has reached `phase`.
  runtime::Expected<mlir::OwningOpRef<mlir::ModuleOp>> lowered(mlir::OwningOpRef<mlir::ModuleOp> captured,
                                                               Phase phase = Phase::planned);
  /// The plan alone, without making code.
  runtime::Expected<runtime::Plan> plan(mlir::OwningOpRef<mlir::ModuleOp> captured);
  struct PlanAndKernels {
    runtime::Plan plan;
    std::vector<KernelSource> kernels; // as of kernels()
  };
  runtime::Expected<PlanAndKernels> planAndKernels(mlir::OwningOpRef<mlir::ModuleOp> captured);
  /// The kernels with their symbols, in the order of their first use. Equal kernels stand there once.
  runtime::Expected<std::vector<KernelSource>> kernels(mlir::OwningOpRef<mlir::ModuleOp> captured);

  const CompileOptions &options() const { return compileOptions; }
  const Target &target() const { return *compileTarget; }
  /// The report of the last compilation.
  const CompileReport &report() const { return lastReport; }

private:
  struct Planned {
    mlir::OwningOpRef<mlir::ModuleOp> module;
    runtime::Plan plan;
    KernelTable kernels;
  };

  /// A step on its way to code.
  struct Prepared {
    Planned step;
    mlir::OwningOpRef<mlir::ModuleOp> original; // as captured, where the artefact will be compared with it
    std::vector<KernelSource> kernels;          // as they are tuned
    std::string choices;                        // of tuning
  };
  /// What the cache has of a step.
  struct Kept {
    std::optional<runtime::Artefact> step;
    bool hasOtherChoices = false; // whether it has one in which other choices were made than in the user's tuning file
  };
  using EmitFunction =
      llvm::function_ref<runtime::Expected<std::vector<std::string>>(llvm::ArrayRef<KernelSource> kernels)>;

  CompileSession(CompileOptions options, std::shared_ptr<const Target> target);
  runtime::Expected<runtime::Artefact> compiled(mlir::OwningOpRef<mlir::ModuleOp> captured);
  runtime::Expected<Prepared> prepared(mlir::OwningOpRef<mlir::ModuleOp> captured);
  runtime::Expected<runtime::Artefact> finished(Prepared prepared, EmitFunction emit);
  runtime::Expected<Kept> keptStep(StepCache &cache);
  std::string missWords(const StepCache &cache, const Kept &kept) const;
  runtime::Expected<runtime::Artefact> artefactOfOne(mlir::OwningOpRef<mlir::ModuleOp> captured, StepCache &cache,
                                                     std::optional<llvm::TimeTraceScope> &looking);
  runtime::Expected<runtime::Artefact> artefactOfRanks(mlir::OwningOpRef<mlir::ModuleOp> captured, StepCache &cache,
                                                       runtime::Ranks &ranks);
  bool runPasses(mlir::ModuleOp module, std::optional<Phase> stopAfter);
  bool runPasses(mlir::ModuleOp module, PipelineOptions pipeline);
  runtime::Error chooseRecomputation(mlir::ModuleOp captured);
  std::vector<Recomputation> fasterFirst(mlir::ModuleOp fused, llvm::ArrayRef<Recomputation> choices) const;
  runtime::Expected<Planned> planned(mlir::OwningOpRef<mlir::ModuleOp> captured);
  runtime::Error tune(Planned &step, std::vector<KernelSource> &kernels, std::string &choices);
  runtime::Expected<bool> hasChoicesOfFile(const runtime::Artefact &known) const;
  runtime::Error checkCustom(mlir::ModuleOp planned) const;
  runtime::Error checkFound(mlir::OwningOpRef<mlir::ModuleOp> captured);

  CompileOptions compileOptions;
  std::optional<Recomputation> chosen; // the recomputation with which the current module's plan fits in the limit
  std::shared_ptr<const Target> compileTarget;
  CompileReport lastReport;
  double watchedMs = 0; // milliseconds that watchers took in the last run of passes; reported times leave them out
};

/// Opens a session and calls its artefact().
runtime::Expected<runtime::Artefact> compileArtefact(mlir::OwningOpRef<mlir::ModuleOp> captured,
                                                     CompileOptions options);

} // namespace tcc
