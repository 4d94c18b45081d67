// A case in the emulator: its buffers, its kernels, one launch.
#pragma once

#include "attention_case.h"
#include "tests/cuda_emulator/emulator.h"

#include <functional>
#include <memory>

namespace tcc::attention_test {

/// Sets switches of a kernel's tiles.
using Change = std::function<void(tcc::cuda::AttentionTiles &)>;

/// Changes nothing: the kernel without switches.
inline void plain(tcc::cuda::AttentionTiles &) {}

/// The kernel that `architecture` would run; with a change, Hopper's kernel of two warpgroups without switches,
/// changed.
tcc::cuda::AttentionKernel kernelOf(const Problem &problem, tcc::cuda::AttentionPass pass, const char *architecture,
                                    const Change &change = {});

/// The text's module, compiled once for the whole program.
const emulator::Module &moduleOf(const tcc::cuda::AttentionKernel &kernel);

/// All buffers of a case in the emulated device's memory, inputs filled.
struct Memory {
  Memory(const Problem &problem, bool packed, const Inputs &inputs);
  emulator::DeviceBuffer &at(Tensor tensor) { return *tensors[int(tensor)]; }
  std::vector<double> read(Tensor tensor);

  Problem problem;
  bool packed;
  std::unique_ptr<emulator::DeviceBuffer> tensors[tensorCount], logSumExp, rowShift, rowDelta, seed, bias;
  tcc::cuda::AttentionArguments arguments;
};

/// `module`: the kernel's, if not moduleOf(kernel). Persistent kernels have three blocks.
emulator::LaunchResult launchOnce(Memory &memory, const tcc::cuda::AttentionKernel &kernel,
                                  const emulator::Schedule &schedule, const emulator::Module *module = nullptr);

} // namespace tcc::attention_test
