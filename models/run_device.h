// --device: the device on which a run computes.
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

/// Throws a usage Error for a pass of -f<pass> or an architecture of -march= that there is not.
void checkCompilerFlags(const TrainOptions &options);

/// Replaces --dtype=auto by the type that the device's code multiplies fastest, and says so on stderr unless the run is
/// quiet. With `warns` set, which only one of several ranks should have, it warns of a type that gains no speed.
void chooseProducts(TrainOptions &options, const RunDevice &device, bool warns = true);

/// The kinds of devices that this build knows beside the CPU, for --device: "cuda".
std::vector<std::string> deviceKinds();

/// `wanted` is auto, cpu, or a kind of target that has devices (codegen/targets.h), with a number after a colon.
/// `auto` takes the first device that passes a short test (TargetKind::testDevice), and says why a device did not pass.
/// A GPU remembers the algorithms of its matmuls in `tuning`, or in the user's cache folder. Throws Error if a GPU that
/// was asked for cannot be used.
RunDevice chooseDevice(const std::string &wanted, const std::string &tuning = {});

/// Operations a second of matmuls on the device. A CPU's are those that are remembered (runtime/machine_limits.h); they
/// are measured again, in about 0.4 s, for a run whose steps have taken much longer than that: `trainedSeconds`.
double measurePeak(const TrainOptions &options, const RunDevice &device, double trainedSeconds);

} // namespace tcc::models
