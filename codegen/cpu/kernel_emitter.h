// One kernel as an LLVM-dialect function whose body is scf, arith and math on scalars and vectors.
#pragma once
#include "codegen/cpu/lane_builder.h"
#include "ir/kernel.h"
#include "runtime/error.h"

namespace tcc::cpu {

/// Builds extern "C" void symbol(int64_t begin, int64_t end, void *const *args) at the builder's insertion point, as
/// launchOf(info) divides it. An error is what the emitter cannot express.
runtime::Error emitKernel(mlir::OpBuilder &builder, llvm::StringRef symbol, const KernelInfo &info,
                          const VectorTarget &target);

} // namespace tcc::cpu
