// Compiles a kernel written as text, loads it, and runs it under several divisions of its items.
#pragma once
#include "codegen/cpu/emit_kernels.h"
#include "ir/analyze_kernel.h"
#include "ir/reference/compare.h"
#include "kernel_text.h"
#include "mlir/IR/MLIRContext.h"
#include "runtime/shared_object.h"
#include <gtest/gtest.h>

namespace tcc::test {

/// One kernel in memory.
class LoadedKernel {
public:
  /// `tuning`: FormKernel::tuning.
  LoadedKernel(const KernelText &text, const cpu::EmitOptions &options, const std::string &tuning = {});
  LoadedKernel(const LoadedKernel &) = delete;

  std::string error; // empty where the kernel was compiled
  KernelLaunch launch;
  KernelInfo info;
  mlir::func::FuncOp function;

  /// Runs the items cut into pieces of `piece` items (0: in one), pieces in reversed order where asked. Results start
  /// as NaN patterns; `shared` gives for a result the input whose buffer it takes, or -1.
  std::vector<RefTensor> run(const std::vector<RefTensor> &inputs, int64_t piece = 0, bool reversed = false,
                             const std::vector<int> &shared = {}) const;
  /// A random input of each type, in [low, high).
  std::vector<RefTensor> randomInputs(double low = -2, double high = 2, uint64_t seed = 1) const;

private:
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  runtime::SharedObject library;
  void (*entry)(int64_t, int64_t, void *const *) = nullptr;
};

/// The targets that this machine can run: native, AVX2 and the x86-64 baseline.
std::vector<cpu::Target> runnableTargets();

/// Compiles for every runnable target, runs on `inputs` (random where empty) under several divisions, expects equal
/// bits whatever the division, and compares with the interpreter.
void expectLikeInterpreter(const KernelText &text, std::vector<RefTensor> inputs = {}, Tolerance tolerance = {});

} // namespace tcc::test
