#include "models/ablation.h"
#include "frontend/ablation.h"
#include "frontend/switches.h"
#include "models/estimator.h"
#include "models/run_device.h"
#include "models/run_setup.h"
#include "models/start_folders.h"

#include <fmt/format.h>

namespace tcc::models {

namespace {

/// The user's run with one more option after all others.
class TrainedStep : public AblatedStep {
public:
  TrainedStep(const std::string &option, const std::vector<std::string> &arguments)
      : rung{.name = option.empty() ? "everything on" : option, .options = {untuned}, .missing = {}, .script = {}},
        arguments(arguments) {
    if (!option.empty())
      rung.options.push_back(option);
    planned = plan(rung, arguments);
  }

  bool isSameAs(const AblatedStep &step) const override {
    const auto &other = static_cast<const TrainedStep &>(step);
    return runTheSame(planned, other.planned);
  }
  StepSize size() const override { return {last.kernels, last.matmuls, last.plannedBytes}; }
  double milliseconds() override {
    last = measure(rung, arguments, 1);
    return last.stepMs;
  }

private:
  static constexpr char untuned[] = "--tuning-seconds=0"; // so many forms are not tuned one by one
  Rung rung;
  const std::vector<std::string> &arguments;
  RungResult planned, last;
};

/// The least time that the step can take on this machine, and what it goes to.
runtime::StepBound boundOf(const std::vector<std::string> &arguments, const RunDevice &device) {
  TrainOptions options =
      withoutData(optionsOf({.name = "everything on", .options = {}, .missing = {}, .script = {}}, arguments));
  findStartFolders(options);
  chooseProducts(options, device);
  const std::optional<ModelFolder> folder = openModelFolder(options);
  Estimator estimator(options, device, folder);
  return runtime::leastBound(estimator.plan(options.batch), estimator.limits);
}

} // namespace

std::vector<std::string> ablationsOf(const TrainOptions &options, const std::string &targetName) {
  std::vector<std::string> off = switchesOff(options, targetName);
  const bool hasLast = !off.empty() && off.back() == everythingOff;
  if (hasLast)
    off.pop_back();
  if (options.parameters != runtime::DType::f32)
    off.push_back("--params=f32");
  if (!options.storesMask)
    off.push_back("--mask=stored");
  if (options.prefetches)
    off.push_back("--no-prefetch");
  if (hasLast)
    off.push_back(everythingOff);
  return off;
}

int ablate(const std::vector<std::string> &arguments, const TrainOptions &options, std::FILE *output) {
  const RunDevice device = chooseDevice(options.device, options.tuning);
  TrainedStep whole("", arguments);
  Ablation ablation{.title = options.model, .rounds = 3};
  fmt::print(output, "{}", ablation.head());
  tcc::ablate(
      ablation, whole, ablationsOf(options, device.isGpu() ? device.device->codeTarget() : "cpu"),
      [&](const std::string &option) { return std::make_unique<TrainedStep>(option, arguments); },
      [&](const AblationRow &row) {
        fmt::print(output, "{}", ablation.text(row));
        std::fflush(output);
      });
  ablation.bound = boundOf(arguments, device);
  fmt::print(output, "{}", ablation.words());
  if (!options.jsonFile.empty())
    writeText(options.jsonFile, ablation.json() + "\n");
  if (!options.plotFile.empty())
    writeText(options.plotFile, ablation.picture());
  return 0;
}

} // namespace tcc::models
