// What a run computes on: --device.
#pragma once
#include "runtime/device/device.h"

#include <memory>
#include <string>
#include <vector>

namespace tcc::models {

struct RunDevice {
  std::shared_ptr<runtime::Device> device; ///< null: the CPU
  std::string note;                        ///< which one it is, and for `auto` why: one line for the user
  bool isGpu() const { return device != nullptr; }
  std::string_view kind() const { return device ? device->kind() : "cpu"; }
};

struct TrainOptions;

/// --dtype=auto becomes what the device's code multiplies fastest, which is said on stderr unless the run is quiet. A
/// type that gains no speed is warned of; of several ranks only one `warns`.
void chooseProducts(TrainOptions &options, const RunDevice &device, bool warns = true);

/// The kinds of devices that this build knows beside the CPU, for --device: "cuda".
std::vector<std::string> deviceKinds();

/// `wanted` is auto, cpu, or a kind of target that has devices (codegen/targets.h), with a number after a colon.
/// `auto` takes the first device that passes a short test (TargetKind::testDevice) and says why where it does not. A
/// GPU remembers which algorithms its products use in `tuning`, or in the user's cache folder. Throws Error where a GPU
/// that was asked for cannot be used.
RunDevice chooseDevice(const std::string &wanted, const std::string &tuning = {});

/// Operations a second of products on the device, measured now.
double measurePeak(const TrainOptions &options, const RunDevice &device);

} // namespace tcc::models
