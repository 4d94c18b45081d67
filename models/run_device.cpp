#include "models/run_device.h"
#include "codegen/cuda/self_test.h"
#include "frontend/files.h"
#include "frontend/product_choice.h"
#include "frontend/quotes.h"
#include "models/options.h"
#include "runtime/device/cuda/driver.h"
#include "runtime/device/cuda/step_device.h"

#include <charconv>
#include <filesystem>
#include <fmt/format.h>

namespace tcc::models {

namespace {

/// Where products' algorithms are remembered; empty where there is no place for it, and the first one is taken.
std::string tuningFile() {
  namespace fs = std::filesystem;
  const std::string folder = cacheFolder("products");
  std::error_code problem;
  if (folder.empty() || (!fs::create_directories(folder, problem) && problem))
    return "";
  fs::permissions(folder, fs::perms::owner_all, problem);
  return (fs::path(folder) / "algorithms.json").string();
}

runtime::Expected<std::shared_ptr<runtime::Device>> openTested(int ordinal) {
  auto device = runtime::cuda::openStepDevice({.ordinal = ordinal, .tuningFile = tuningFile()});
  if (!device)
    return device;
  if (runtime::Error error = cuda::selfTest(*device))
    return error;
  return device;
}

/// --device=cuda:N, which the command line has checked.
int ordinalOf(const std::string &wanted) {
  int ordinal = 0;
  if (const size_t colon = wanted.find(':'); colon != std::string::npos)
    std::from_chars(wanted.data() + colon + 1, wanted.data() + wanted.size(), ordinal);
  return ordinal;
}

} // namespace

void chooseProducts(TrainOptions &options, const RunDevice &device) {
  const std::string target = device.isGpu() ? device.device->codeTarget() : "cpu";
  if (const std::string slow = slowProducts(options, target); !slow.empty())
    fmt::print(stderr, "warning: {}\n", slow);
  const std::optional<std::string> chosen = tcc::chooseProducts(options, target);
  if (chosen && !options.quiet)
    fmt::print(stderr, "--dtype=auto is {}\n", *chosen);
}

RunDevice chooseDevice(const std::string &wanted) {
  if (wanted == "cpu")
    return {nullptr, "device: the CPU"};
  const bool any = wanted == "auto";
  if (any && !runtime::cuda::Driver::isInstalled())
    return {nullptr, "device: the CPU; there is no driver of an NVIDIA GPU"};
  auto device = openTested(ordinalOf(wanted));
  if (device)
    return {*device, fmt::format("device: {}, {}", (*device)->name(), (*device)->codeTarget().substr(5))};
  const std::string why = device.error().message();
  if (!any)
    throw Error(fmt::format("--device={}: {}", wanted, why));
  return {nullptr, fmt::format("device: the CPU; the GPU cannot be used: {} (tcc --doctor says more)",
                               why.substr(0, why.find('\n')))};
}

} // namespace tcc::models
