// Where the GPU program's kernels run: a CUDA device, or the emulator for rehearsals.
#pragma once

#include "codegen/cuda/attention/attention.h"
#include "tests/cuda_emulator/lane_maps/lane_maps.h"

#include <functional>
#include <memory>
#include <string>

namespace tcc::gpu_attention {

/// Probe: a barrier wait that takes a second becomes an error which says where, instead of a hang.
enum class Build { Plain, Probe };

/// Runs attention's kernels and, as a LaneMapMachine, the kernels that show lane maps.
class Backend : public emulator::LaneMapMachine {
public:
  virtual std::string name() const = 0;
  virtual std::string architecture() const = 0;
  /// Device memory until releaseAll.
  virtual void *allocate(std::size_t bytes) = 0;
  virtual void releaseAll() = 0;
  virtual void write(void *to, const void *from, std::size_t bytes) = 0;
  virtual void read(void *to, const void *from, std::size_t bytes) = 0;
  /// Compiles and encodes all that a launch needs. Each call of the result starts the kernel, and of a probe build
  /// waits for its end; an empty grid is no launch. Valid while the backend lives.
  virtual std::function<void()> prepare(const cuda::AttentionKernel &kernel, const cuda::AttentionArguments &arguments,
                                        int batch, Build build = Build::Plain) = 0;
  /// Waits for everything started; throws what went wrong.
  virtual void finish() = 0;
  /// Seconds that `work` takes on the device, over `repeats` runs of it.
  virtual double time(int repeats, const std::function<void()> &work) = 0;
  /// Registers of a kernel, 0 where there are none.
  virtual int registers(const cuda::AttentionKernel &kernel) = 0;
  /// Reads and writes `bytes` on the device and gives bytes moved a second.
  virtual double copySpeed(std::size_t bytes) = 0;
};

/// Opens device 0. Cubins are taken from `cubins` when it names a folder that holds them, otherwise made by NVRTC (and
/// kept there). Throws tcc::runtime::CudaError.
std::unique_ptr<Backend> openDevice(const std::string &cubins);

/// Compiles every kernel, in both builds, and the lane-map kernels for the architecture ("": device 0's) into the
/// folder; needs NVRTC. Gives the number of cubins.
std::size_t prebuild(const std::string &cubins, std::string architecture,
                     const std::function<std::vector<cuda::AttentionKernel>(const std::string &)> &kernelsOf);

/// Null where the program was built without the emulator.
std::unique_ptr<Backend> openEmulator(const std::string &architecture);

} // namespace tcc::gpu_attention
