// Lowers the emitter's MLIR (scf, arith, math, LLVM dialect) to an LLVM module.
#pragma once
#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/Module.h"

namespace tcc::cpu {

/// Registers the dialects and translations that emitted modules need.
void registerEmitterDialects(mlir::DialectRegistry &registry);

/// Converts every op of the module to the LLVM dialect, by passes of MLIR, which report failures as diagnostics.
mlir::LogicalResult lowerToLLVMDialect(mlir::ModuleOp module);

/// The module in LLVM IR, or null.
std::unique_ptr<llvm::Module> translateToLLVM(mlir::ModuleOp module, llvm::LLVMContext &context);

} // namespace tcc::cpu
