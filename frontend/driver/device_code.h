// What is made for GPUs: for which of them, and their code as text and files.
#pragma once
#include "codegen/kernel_source.h"
#include "frontend/driver/options.h"
#include "runtime/device/device.h"

namespace tcc::driver {

/// "cuda:sm_90a", ... for the architectures of -march=; where none is named the GPU of this machine, or sm_90a where
/// none works. `why` says which they are and why. Throws Error where `native` finds no GPU.
std::vector<std::string> gpuTargets(llvm::ArrayRef<std::string> architectures, std::string &why);

/// Adds PTX, which drivers compile for GPUs that are newer than all targets: of the newest architecture, unless the
/// targets have some.
void addPtx(std::vector<std::string> &targets);

/// The first GPU for a GPU's code; null, the CPU, for others. Throws Error where there is none.
std::shared_ptr<runtime::Device> deviceFor(llvm::StringRef target);

/// Code for one architecture, by module.
struct DeviceCode {
  std::string architecture;
  std::vector<std::string> modules;
};

/// Text, PTX or cubins of kernels for a target. Throws Error.
DeviceCode deviceCode(llvm::ArrayRef<KernelSource> kernels, llvm::StringRef target, Emission emission,
                      const FileCache &cache);

/// Text and PTX go to `output` (stdout where it is empty), one module behind the other. Cubins are files, whose names
/// are printed: INPUT.sm_90a.0.cubin in the current folder, or `output` where there is but one. Throws Error.
void writeDeviceCode(llvm::ArrayRef<DeviceCode> codes, Emission emission, const std::string &input,
                     const std::string &output);

} // namespace tcc::driver
