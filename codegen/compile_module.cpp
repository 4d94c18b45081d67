// compileModule: pipeline, plan, kernels' code, artefact.
#include "codegen/compile_module.h"
#include "codegen/kernel_table.h"
#include "codegen/lower_plan.h"
#include "ir/analyze_kernel.h"
#include "runtime/cpu.h"
#include "runtime/threads.h"
#include <chrono>

using namespace mlir;

namespace tcc {
namespace {

double millisecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

func::FuncOp onlyFunction(ModuleOp module) {
  return *module.getOps<func::FuncOp>().begin();
}

} // namespace

std::optional<runtime::Artefact> compileModule(ModuleOp module, const CompileOptions &options, CompileReport &report,
                                               std::string &error) {
  int threads = options.threads > 0 ? options.threads : runtime::availableThreads();
  auto start = std::chrono::steady_clock::now();
  PipelineOptions pipeline = options.pipeline;
  pipeline.scratchBytes = [&](MatmulOp op) -> int64_t {
    runtime::Expected<int64_t> bytes = runtime::scratchpadBytes(gemmDesc(op), threads);
    return bytes ? *bytes : 0; // an impossible product is refused when the plan is loaded, with the library's reason
  };
  if (failed(runPipeline(module, pipeline, report.pipeline)))
    return std::nullopt;
  report.pipelineMs = millisecondsSince(start);
  if (pipeline.stopAfter && *pipeline.stopAfter != Phase::planned)
    return std::nullopt;

  start = std::chrono::steady_clock::now();
  KernelTable kernels;
  std::optional<runtime::Plan> plan = lowerPlan(onlyFunction(module), threads, kernels, error);
  if (!plan)
    return std::nullopt;
  runtime::TargetCode made{"cpu", {}, std::move(*plan), {}};
  if (!kernels.sources().empty()) {
    std::optional<std::string> code =
        cpu::emitKernels(kernels.sources(), options.cpu, cpu::Artefact::sharedObject, error);
    if (!code)
      return std::nullopt;
    made.code.push_back(std::move(*code));
  }
  std::optional<std::string> features = cpu::usedFeatures(options.cpu.target, runtime::knownCpuFeatures(), error);
  if (!features)
    return std::nullopt;
  report.codegenMs = millisecondsSince(start);
  report.compiledKernels = kernels.sources().size();
  report.plannedBytes = made.plan.plannedBytes();
  made.needs = *features;
  if (options.cpu.target.cpu != "native")
    made.target += ":" + options.cpu.target.cpu;
  runtime::Artefact artefact;
  artefact.targets.push_back(std::move(made));
  artefact.metadata = {{"target", "cpu"},
                       {"level", std::to_string(options.pipeline.level)},
                       {"kernels", std::to_string(report.pipeline.kernels)},
                       {"matmuls", std::to_string(report.pipeline.matmuls)}};
  return artefact;
}

std::vector<KernelSource> kernelSources(ModuleOp module) {
  KernelTable kernels;
  for (Operation &op : onlyFunction(module).getBody().front())
    if (auto kernel = dyn_cast<KernelOp>(op)) {
      std::string refusal;
      KernelNames names;
      KernelInfo form = *analyzeKernel(kernel, refusal, &names);
      kernels.add(std::move(form), std::move(names));
    }
  return kernels.sources();
}

} // namespace tcc
