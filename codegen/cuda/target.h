// CudaTarget: compiles kernels as CUDA text by NVRTC for NVIDIA GPUs, and leaves matmuls to cuBLASLt.
#pragma once
#include "codegen/target.h"

namespace tcc::cuda {

struct EmitOptions {
  std::string architecture = "sm_90a"; // sm_80, sm_90a, sm_100a; compute_90 for PTX
  bool tf32 = false;                   // whether f32 operands of matmuls are rounded to TF32, from sm_80 on
  bool steady = false;                 // whether a value must have the same bits in every program that computes it
};

/// The numbers that passes read for a GPU. Sums are cut into many parts, so that all multiprocessors have work. A
/// launch counts as much as megabytes of traffic, since it takes as long.
TargetModel cudaModel();

class CudaTarget : public tcc::Target {
public:
  explicit CudaTarget(EmitOptions options) : options(std::move(options)), data(cudaModel()) {}

  const TargetModel &model() const override { return data; }
  bool supports(llvm::StringRef op) const override;
  KernelLaunch launch(const KernelInfo &form) const override;
  bool hasKernel(mlir::Operation *op) const override;
  int64_t scratchBytes(mlir::Operation *op) const override;
  /// Cubins (or PTX for compute_NN), each with a few kernels. compileModules() in modules.h says how and what can fail.
  runtime::Expected<std::vector<std::string>> emit(llvm::ArrayRef<KernelSource> kernels) const override;
  runtime::Expected<std::vector<KernelUse>> usesOf(llvm::ArrayRef<std::string> code) const override;
  StatedLimits statedLimits() const override;
  runtime::Expected<std::vector<std::string>> emitAs(llvm::StringRef emission,
                                                     llvm::ArrayRef<KernelSource> kernels) const override;
  runtime::Error lower(const StructuredCall &call, runtime::Plan &plan, KernelTable &kernels) const override;
  runtime::Error lowerKernels(llvm::ArrayRef<KernelSource> kernels, runtime::Plan &plan) const override;
  FastProducts fastProducts() const override;
  std::string codeName() const override { return data.name + ":" + options.architecture; }
  runtime::Expected<std::string> needs() const override { return std::string(); }
  runtime::Expected<std::string> codeKey() const override;
  std::string emitted() const override { return notes; }
  std::string remarkOn(mlir::Operation *op) const override;

private:
  EmitOptions options;
  TargetModel data;
  mutable std::string notes; // what emitted() gives
};

} // namespace tcc::cuda
