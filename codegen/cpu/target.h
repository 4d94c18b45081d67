// CpuTarget: compiles kernels by LLVM, and leaves matmuls to the runtime's library.
#pragma once
#include "codegen/cpu/emit_kernels.h"
#include "codegen/cpu/vector_target.h"
#include "codegen/target.h"

namespace tcc::cpu {

class CpuTarget : public tcc::Target {
public:
  /// `threads` is the number of threads at run time, for which the scratch of matmuls is sized.
  CpuTarget(EmitOptions options, int threads);

  const TargetModel &model() const override { return data; }
  bool supports(llvm::StringRef op) const override;
  KernelLaunch launch(const KernelInfo &form) const override { return launchOf(form); }
  bool hasKernel(mlir::Operation *op) const override;
  int64_t scratchBytes(mlir::Operation *op) const override;
  int64_t packedBytes(const runtime::MatmulCall &call) const override;
  runtime::Expected<std::vector<std::string>> emit(llvm::ArrayRef<KernelSource> kernels) const override;
  runtime::Expected<std::vector<std::string>> emitTogether(llvm::ArrayRef<KernelSource> kernels,
                                                           runtime::Ranks &ranks) const override;
  runtime::Expected<TuningReport> tune(std::vector<KernelSource> &kernels, runtime::Plan &plan,
                                       const TuningOptions &options) const override;
  runtime::Error lower(const StructuredCall &call, runtime::Plan &plan, KernelTable &kernels) const override;
  runtime::Expected<std::vector<std::string>> emitAs(llvm::StringRef emission,
                                                     llvm::ArrayRef<KernelSource> kernels) const override;
  FastProducts fastProducts() const override;
  bool gainsFromBf16() const override;
  std::string codeName() const override;
  std::string title() const override;
  runtime::Expected<std::string> needs() const override;
  runtime::Expected<std::string> codeKey() const override;
  std::string emitted() const override { return notes; }

private:
  runtime::Expected<std::vector<std::string>> emitWith(llvm::ArrayRef<KernelSource> kernels,
                                                       runtime::Ranks *ranks) const;

  EmitOptions options;
  int threads;
  TargetModel data;          // its defaults are those of the CPU
  VectorTarget vectors;      // what vector code may use
  mutable std::string notes; // what emitted() gives
};

} // namespace tcc::cpu
