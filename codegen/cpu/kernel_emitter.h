// emitKernel: turns one kernel form into an LLVM-dialect function, whose body uses scf, arith and math ops on scalars
// and vectors.
#pragma once
#include "codegen/cpu/kernel_tuning.h"
#include "codegen/cpu/lane_builder.h"
#include "ir/kernel.h"
#include "runtime/error.h"

namespace tcc::cpu {

/// Emits the kernel at the builder's insertion point, as
/// extern "C" void symbol(int64_t begin, int64_t end, void *const *args). The function runs work items [begin, end);
/// launchOf() in emit_kernels.h says what an item is. `args` points to the inputs and then to the results.
/// If `rows` is not empty, it names a symbol whose address is the number of rows of an outer block, which is used
/// instead of the form's (shared_code.h). If the emitter cannot express the kernel, the error says why, and no function
/// is made.
runtime::Error emitKernel(mlir::OpBuilder &builder, llvm::StringRef symbol, const KernelInfo &info,
                          const VectorTarget &target, llvm::StringRef rows, const KernelTuning &tuning);

} // namespace tcc::cpu
