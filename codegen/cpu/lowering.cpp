#include "codegen/cpu/lowering.h"
#include "ir/dialect.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/DialectConversion.h"

using namespace mlir;

namespace tcc::cpu {

void registerEmitterDialects(DialectRegistry &registry) {
  registry.insert<arith::ArithDialect, math::MathDialect, scf::SCFDialect, cf::ControlFlowDialect, LLVM::LLVMDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

// One conversion for all dialects: each pass over the IR costs as much as the patterns it applies.
LogicalResult lowerToLLVMDialect(ModuleOp module) {
  MLIRContext *context = module.getContext();
  LLVMTypeConverter converter(context);
  RewritePatternSet patterns(context);
  populateSCFToControlFlowConversionPatterns(patterns);
  arith::populateArithToLLVMConversionPatterns(converter, patterns);
  populateMathToLLVMConversionPatterns(converter, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
  LLVMConversionTarget target(*context);
  target.addLegalOp<ModuleOp>();
  target.addIllegalDialect<scf::SCFDialect, cf::ControlFlowDialect, arith::ArithDialect, math::MathDialect>();
  return applyFullConversion(module, target, std::move(patterns));
}

std::unique_ptr<llvm::Module> translateToLLVM(ModuleOp module, llvm::LLVMContext &context) {
  return translateModuleToLLVMIR(module, context, "kernels", /*disableVerification=*/true);
}

} // namespace tcc::cpu
