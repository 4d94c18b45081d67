// Reads and prints the operands of an op with isolated regions: "(%x = %a : type, ...)" names a block argument for each
// operand.
#pragma once
#include "ir/dialect.h"

namespace tcc {

/// A region's arguments and the operands that they stand for, as they were read.
struct Bindings {
  llvm::SmallVector<mlir::OpAsmParser::Argument> arguments; // of the operands' types
  llvm::SmallVector<mlir::OpAsmParser::UnresolvedOperand> operands;
  llvm::SmallVector<mlir::Type> types; // of the operands
};

/// Reads "(%x = %a : type, ...)".
mlir::ParseResult parseBindings(mlir::OpAsmParser &parser, Bindings &bindings);
/// Adds the operands to the op that is read.
mlir::ParseResult resolveBindings(mlir::OpAsmParser &parser, const Bindings &bindings, mlir::OperationState &result);
void printBindings(mlir::OpAsmPrinter &printer, mlir::ValueRange arguments, mlir::ValueRange operands);

} // namespace tcc
