// compileModule: pipeline, plan, kernels' code, artefact.
#include "codegen/compile_module.h"
#include "codegen/custom.h"
#include "codegen/kernel_table.h"
#include "codegen/lower_plan.h"
#include "codegen/stopwatch.h"
#include "codegen/targets.h"
#include "codegen/verify_artefact.h"
#include "mlir/IR/OwningOpRef.h"
#include "passes/prints.h"
#include "runtime/printed.h"
#include "runtime/threads.h"

using namespace mlir;

namespace tcc {

static_assert(printPrefix == runtime::printPrefix, "passes name what the runtime prints");

std::optional<runtime::Artefact> compileModule(ModuleOp module, const CompileOptions &options, CompileReport &report,
                                               std::string &error) {
  int threads = options.threads > 0 ? options.threads : runtime::availableThreads();
  auto start = std::chrono::steady_clock::now();
  std::unique_ptr<Target> named;
  if (!options.target && !(named = makeTarget(options.targetName, options.cpu, threads, error)))
    return std::nullopt;
  const Target &target = options.target ? *options.target : *named;
  PipelineOptions pipeline = options.pipeline;
  pipeline.target = target.model();
  pipeline.queries = &target;
  if (!options.allowCustomCode && !(error = refuseCustomCode(module)).empty())
    return std::nullopt;
  printsToResults(functionOf(module)); // the reference's results are the artefact's
  OwningOpRef<ModuleOp> captured;
  if (pipeline.verifyEach)
    captured = cast<ModuleOp>(module->clone());
  if (failed(runPipeline(module, pipeline, report.pipeline)))
    return std::nullopt;
  report.pipelineMs = millisecondsSince(start);
  if (pipeline.stopAfter && *pipeline.stopAfter != Phase::planned)
    return std::nullopt;

  if (!checkCustomOps(module, {.always = pipeline.verifyEach}, error))
    return std::nullopt;
  start = std::chrono::steady_clock::now();
  KernelTable kernels;
  std::optional<runtime::Plan> plan = lowerPlan(functionOf(module), target, threads, kernels, error);
  if (!plan)
    return std::nullopt;
  report.codegenSteps = {{"plan", millisecondsSince(start)}};
  const auto emitting = std::chrono::steady_clock::now();
  std::optional<std::vector<std::string>> code = target.emit(kernels.sources(), error);
  if (!code)
    return std::nullopt;
  report.codegenSteps.emplace_back("machine code of " + std::to_string(kernels.sources().size()) + " kernels",
                                   millisecondsSince(emitting));
  report.emitted = target.emitted();
  std::optional<std::string> needs = target.needs(error);
  if (!needs)
    return std::nullopt;
  report.codegenMs = millisecondsSince(start);
  report.compiledKernels = kernels.sources().size();
  report.plannedBytes = plan->plannedBytes();
  runtime::Artefact artefact;
  artefact.targets.push_back({target.codeName(), std::move(*needs), std::move(*plan), std::move(*code)});
  artefact.metadata = {{"target", target.model().name},
                       {"level", std::to_string(options.pipeline.level)},
                       {"kernels", std::to_string(report.pipeline.kernels)},
                       {"matmuls", std::to_string(report.pipeline.matmuls)}};
  if (captured && !verifyArtefact(*captured, artefact, options, error))
    return std::nullopt;
  return artefact;
}

std::optional<runtime::Plan> compilePlan(ModuleOp module, const CompileOptions &options, std::string &error) {
  const int threads = options.threads > 0 ? options.threads : runtime::availableThreads();
  const std::unique_ptr<Target> target = makeTarget(options.targetName, options.cpu, threads, error);
  if (!target)
    return std::nullopt;
  PipelineOptions pipeline = options.pipeline;
  pipeline.target = target->model();
  pipeline.queries = target.get();
  PipelineReport report;
  KernelTable kernels;
  if (failed(runPipeline(module, pipeline, report)))
    return std::nullopt;
  return lowerPlan(functionOf(module), *target, threads, kernels, error);
}

std::optional<std::vector<KernelSource>> kernelSources(ModuleOp module, const Target &target, std::string &error) {
  KernelTable kernels;
  if (!lowerPlan(functionOf(module), target, runtime::availableThreads(), kernels, error))
    return std::nullopt;
  return kernels.sources();
}

} // namespace tcc
