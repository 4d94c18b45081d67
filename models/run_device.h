// What a run computes on: --device.
#pragma once
#include "runtime/device/device.h"

#include <memory>
#include <string>

namespace tcc::models {

struct RunDevice {
  std::shared_ptr<runtime::Device> device; ///< null: the CPU
  std::string note;                        ///< which one it is, and for `auto` why: one line for the user
  bool isGpu() const { return device != nullptr; }
};

struct TrainOptions;

/// --dtype=auto becomes what the device's code multiplies fastest, which is said on stderr unless the run is quiet.
void chooseProducts(TrainOptions &options, const RunDevice &device);

/// `wanted` is auto, cpu, cuda or cuda:N. `auto` takes the first GPU if it passes a short test
/// (codegen/cuda/self_test.h) and says why where it does not. A GPU remembers which algorithms its products use in the
/// user's cache folder. Throws Error where a GPU that was asked for cannot be used.
RunDevice chooseDevice(const std::string &wanted);

} // namespace tcc::models
