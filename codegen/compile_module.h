// compileModule: from a captured module to an artefact that the runtime runs without LLVM.
#pragma once
#include "codegen/cpu/emit_kernels.h"
#include "codegen/target.h"
#include "passes/pipeline.h"
#include "runtime/artefact.h"

namespace tcc {

struct CompileOptions {
  PipelineOptions pipeline;
  const Target *target = nullptr; // for whom; null: the one that targetName names
  std::string targetName = "cpu"; // see makeTarget
  cpu::EmitOptions cpu;
  bool allowCustomCode = true; // of custom ops that name a library or have CUDA text; else such an op is an error
  int threads = 0; // run-time threads that products' scratch is sized for; 0: all that the process may use
};

struct CompileReport {
  PipelineReport pipeline;
  int64_t compiledKernels = 0; // after equal ones were joined
  int64_t plannedBytes = 0;
  double pipelineMs = 0, codegenMs = 0;
  std::vector<std::pair<std::string, double>> codegenSteps; // its parts: name and milliseconds
  std::string emitted;                                      // Target::emitted
};

/// The artefact; nothing and in `error` what failed, where no diagnostic was emitted on the module's context. The
/// module is left in phase Planned (or where options.pipeline.stopAfter says, without an artefact).
std::optional<runtime::Artefact> compileModule(mlir::ModuleOp module, const CompileOptions &options,
                                               CompileReport &report, std::string &error);

/// The plan alone, in phase Planned too: no code is made.
std::optional<runtime::Plan> compilePlan(mlir::ModuleOp module, const CompileOptions &options, std::string &error);

/// The kernels of a planned module under their symbols, equal ones once, in order of first use; nothing and in `error`
/// what `target` refuses.
std::optional<std::vector<KernelSource>> kernelSources(mlir::ModuleOp module, const Target &target, std::string &error);

} // namespace tcc
