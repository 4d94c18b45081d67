// One kernel as an LLVM-dialect function whose body is scf, arith and math on scalars and vectors.
#pragma once
#include "codegen/cpu/lane_builder.h"
#include "ir/kernel.h"

namespace tcc::cpu {

/// Builds extern "C" void symbol(int64_t begin, int64_t end, void *const *args) at the builder's insertion point, as
/// launchOf(info) divides it. False and in `error` what the emitter cannot express.
bool emitKernel(mlir::OpBuilder &builder, llvm::StringRef symbol, const KernelInfo &info, const VectorTarget &target,
                std::string &error);

} // namespace tcc::cpu
