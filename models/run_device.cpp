#include "models/run_device.h"
#include "codegen/targets.h"
#include "frontend/files.h"
#include "frontend/product_choice.h"
#include "frontend/quotes.h"
#include "models/options.h"
#include "runtime/device/limits.h"
#include "runtime/machine_limits.h"
#include "llvm/ADT/StringExtras.h"

#include <charconv>
#include <filesystem>
#include <fmt/format.h>

namespace tcc::models {

namespace {

/// Where matmuls' algorithms are remembered; empty where there is no place for it, and the first one is taken.
std::string tuningFile() {
  namespace fs = std::filesystem;
  const std::string folder = cacheFolder("products");
  if (folder.empty() || runtime::makePrivateFolder(folder))
    return "";
  return (fs::path(folder) / "algorithms.json").string();
}

runtime::Expected<std::shared_ptr<runtime::Device>> openTested(const TargetKind &kind, int ordinal,
                                                               const std::string &tuning) {
  auto device = kind.openDevice({.ordinal = ordinal, .tuningFile = tuning.empty() ? tuningFile() : tuning});
  if (!device)
    return device;
  if (runtime::Error error = kind.testDevice(*device))
    return error;
  return device;
}

/// The number after the colon of --device=, which the command line has checked.
int ordinalOf(const std::string &wanted) {
  int ordinal = 0;
  if (const size_t colon = wanted.find(':'); colon != std::string::npos)
    std::from_chars(wanted.data() + colon + 1, wanted.data() + wanted.size(), ordinal);
  return ordinal;
}

RunDevice opened(std::shared_ptr<runtime::Device> device) {
  const std::string target = device->codeTarget();
  std::string note = fmt::format("device: {}, {}", device->name(), target.substr(target.find(':') + 1));
  return {std::move(device), std::move(note)};
}

/// The first device that works, of any kind; else the CPU, and why the last kind has none.
RunDevice anyDevice(const std::string &tuning) {
  std::string why;
  for (const TargetKind *kind : targetKinds()) {
    if (!kind->hasDevices())
      continue;
    why = kind->absence();
    if (!why.empty())
      continue;
    auto device = openTested(*kind, 0, tuning);
    if (device)
      return opened(*device);
    const std::string said = device.error().message();
    why = fmt::format("the {} cannot be used: {} (tcc --doctor says more)", kind->noun().str(),
                      said.substr(0, said.find('\n')));
  }
  return {nullptr, "device: the CPU; " + why};
}

} // namespace

void checkCompilerFlags(const TrainOptions &options) {
  checkFlags(options);
  const bool isForGpu = options.device != "cpu" && options.device != "auto";
  if (isForGpu)
    return;
  for (llvm::StringRef architecture : llvm::split(options.march, ','))
    if (const auto target = makeTarget(withArchitecture("cpu", architecture), {}, /*threads=*/1);
        runtime::Error unknown = target ? (*target)->needs().error() : target.error())
      throw usageError("-march=" + architecture.str() + ": " + unknown.message());
}

void chooseProducts(TrainOptions &options, const RunDevice &device, bool warns) {
  const std::string target = device.isGpu() ? device.device->codeTarget() : "cpu";
  if (const std::string slow = slowProducts(options, target); warns && !slow.empty())
    fmt::print(stderr, "warning: {}\n", slow);
  const std::optional<std::string> chosen = tcc::chooseProducts(options, target);
  if (chosen && !options.quiet)
    fmt::print(stderr, "--dtype=auto is {}\n", *chosen);
}

double measurePeak(const TrainOptions &options, const RunDevice &device, double trainedSeconds) {
  if (device.isGpu())
    return runtime::measureProductRate(device.device, options.products, options.tf32);
  // A CPU multiplies f16 as f32.
  const auto multiplied = options.products == runtime::DType::bf16 ? runtime::DType::bf16 : runtime::DType::f32;
  constexpr double longRun = 5;
  const runtime::MachineLimits limits = trainedSeconds < longRun
                                            ? runtime::machineLimits(options.threads)
                                            : runtime::improvedMachineLimits(options.threads, multiplied, 0.1);
  return limits.product(multiplied);
}

std::vector<std::string> deviceKinds() {
  std::vector<std::string> names;
  for (const TargetKind *kind : targetKinds())
    if (kind->hasDevices())
      names.push_back(kind->name().str());
  return names;
}

RunDevice chooseDevice(const std::string &wanted, const std::string &tuning) {
  if (wanted == "cpu")
    return {nullptr, "device: the CPU"};
  if (wanted == "auto")
    return anyDevice(tuning);
  const TargetKind *kind = targetKindOf(wanted);
  if (!kind || !kind->hasDevices())
    throw usageError(fmt::format("--device={}: there is no such kind of device", wanted));
  auto device = openTested(*kind, ordinalOf(wanted), tuning);
  if (!device)
    throw Error(fmt::format("--device={}: {}", wanted, device.error().message()));
  return opened(*device);
}

} // namespace tcc::models
