#include "frontend/driver/ablate.h"
#include "codegen/targets.h"
#include "frontend/ablation.h"
#include "frontend/driver/bench.h"
#include "frontend/driver/driver.h"
#include "frontend/driver/outputs.h"
#include "frontend/driver/stage.h"
#include "frontend/switches.h"
#include "runtime/executable_limits.h"
#include "runtime/printed.h"
#include <algorithm>

using namespace mlir;

namespace tcc::driver {
namespace {

constexpr double roundMs = 250; // a round has as many steps as fit, but for one that is longer
constexpr int recordedSteps = 15;
constexpr int mostSteps = 2000; // of a round

/// What all forms of the step have in common.
struct Bench {
  const AblatedGraph &graph;
  uint64_t seed;
  std::shared_ptr<runtime::Device> device; // null: nothing runs
  SharedTensors tensors = {};
};

bool areEqual(const KernelSource &a, const KernelSource &b) {
  if (a.index() != b.index())
    return false;
  if (const auto *form = std::get_if<FormKernel>(&a))
    return form->form == std::get<FormKernel>(b).form;
  return std::get<TextKernel>(a).text == std::get<TextKernel>(b).text;
}

/// The graph under the flags with one option after them. It is compiled to code when it is first run.
class GraphStep : public AblatedStep {
public:
  GraphStep(Bench &bench, const std::string &option)
      : bench(bench), flags(option.empty() ? bench.graph.flags : withOption(bench.graph.flags, option)),
        compileOptions(bench.graph.compile), session(open()), planned(orThrow(session.planAndKernels(copy()))),
        kernels(session.report().pipeline.kernels), matmuls(session.report().pipeline.matmuls) {}

  bool isSameAs(const AblatedStep &step) const override {
    const auto &other = static_cast<const GraphStep &>(step);
    return planned.plan == other.planned.plan && std::ranges::equal(planned.kernels, other.planned.kernels, areEqual) &&
           flags.fastMath == other.flags.fastMath && flags.capturesSteps == other.flags.capturesSteps;
  }
  StepSize size() const override { return {kernels, matmuls, planned.plan.plannedBytes()}; }
  double milliseconds() override {
    load();
    return medianOf(stage->times(steps, nullptr));
  }

  /// What a step goes to: of recorded ones the one in the middle, since some meet other programs.
  runtime::StepBound bound() {
    load();
    const runtime::MachineLimits limits = runtime::limitsOf(*executable);
    std::vector<runtime::StepBound> bounds;
    for (int i = 0; i < std::min(steps, recordedSteps); ++i) {
      runtime::Profiler profiler;
      stage->times(1, &profiler);
      bounds.push_back(runtime::measuredBound(profiler, limits));
    }
    const auto middle = bounds.begin() + static_cast<ptrdiff_t>(bounds.size() / 2);
    std::ranges::nth_element(bounds, middle, {}, &runtime::StepBound::total);
    return *middle;
  }
  const runtime::Plan &plan() const { return planned.plan; }

  /// Compiles, loads and warms up. Throws Error where that cannot be.
  void load() {
    if (stage)
      return;
    runtime::Artefact artefact = orThrow(session.artefact(copy()));
    for (runtime::TargetCode &part : artefact.targets)
      runtime::silencePrints(part.plan);
    executable = orThrow(runtime::Executable::load(
        std::move(artefact),
        {.threads = compileOptions.threads, .device = bench.device, .captures = flags.capturesSteps}));
    stage.emplace(*executable, bench.graph.values, bench.seed, &bench.tensors);
    stage->warmUp();
    const double ms = std::max(stage->times(1, nullptr).front(), 1e-3);
    steps = std::clamp(static_cast<int>(roundMs / ms), 1, mostSteps);
  }

private:
  CompileSession open() {
    applyFlags(flags, compileOptions);
    compileOptions.tuningSeconds = 0; // so many forms are not tuned one by one
    return orThrow(CompileSession::open(compileOptions));
  }
  OwningOpRef<ModuleOp> copy() const {
    ModuleOp module = bench.graph.module;
    return OwningOpRef<ModuleOp>(module.clone());
  }

  Bench &bench;
  const CompilerFlags flags;
  CompileOptions compileOptions;
  CompileSession session;
  CompileSession::PlanAndKernels planned;
  int64_t kernels, matmuls;
  std::unique_ptr<runtime::Executable> executable;
  std::optional<Stage> stage;
  int steps = 1;
};

/// The device that the target's code runs on. Why there is none is put into `why`.
std::shared_ptr<runtime::Device> openDevice(const std::string &target, const std::string &tuning, std::string &why) {
  const TargetKind &kind = *targetKindOf(target);
  if (!kind.hasDevices())
    return runtime::makeCpuDevice();
  auto device = kind.openDevice({.tuningFile = tuning});
  if (device)
    return std::move(*device);
  const std::string message = device.error().message(), firstLine = message.substr(0, message.find('\n'));
  why = "timing needs a " + kind.noun().str() + ": " + firstLine + " (tcc --doctor says what is missing)";
  return nullptr;
}

} // namespace

void ablateGraph(const AblatedGraph &graph, const Options &options) {
  // 1. The step with everything on, and what it runs on.
  Ablation ablation{.title = graph.name, .rounds = static_cast<int>(*options.ablationRounds)};
  Bench bench{graph, options.seed, openDevice(graph.compile.targetName, graph.flags.tuning, ablation.untimed)};
  GraphStep whole(bench, "");
  const RunItems items = itemsOf(whole.plan(), graph.values);
  if (items.unit == std::string("tokens"))
    ablation.tokens = static_cast<double>(items.count);
  if (ablation.untimed.empty())
    whole.load();

  // 2. Without one switch after the other.
  llvm::raw_ostream &os = options.json == "-" || options.plot == "-" ? llvm::errs() : llvm::outs();
  if (!ablation.untimed.empty())
    os << "not timed: " << ablation.untimed << '\n';
  os << ablation.head();
  ablate(
      ablation, whole, switchesOff(graph.flags, graph.compile.targetName),
      [&](const std::string &option) { return std::make_unique<GraphStep>(bench, option); },
      [&](const AblationRow &row) {
        os << ablation.text(row);
        os.flush();
      });
  if (ablation.untimed.empty()) {
    ablation.bound = whole.bound();
    os << ablation.words();
  }

  // 3. Files.
  if (!options.json.empty())
    writeResult(options.json, indentedJson(ablation.json()));
  if (!options.plot.empty())
    writeResult(options.plot, ablation.picture());
}

} // namespace tcc::driver
