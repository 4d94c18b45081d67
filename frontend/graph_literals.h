// Finds numbers in dense<...> literals that their element type cannot hold. MLIR would silently round such floats to
// infinity, and cut such integers to their low bits. If that is meant, the number must be written by its bits, 0x....
#pragma once
#include "frontend/graph_outline.h"
#include "ir/dialect.h"

namespace tcc {

struct LiteralProblem {
  TextRange range;
  std::string message;
};

/// The first number of the literal that is beyond its type; `text` is what the op was parsed from.
std::optional<LiteralProblem> numberBeyondType(ConstantOp op, llvm::StringRef text, const LineIndex &lines);

/// "'70000.0' is beyond f16, whose largest number is 6.55e+04".
std::string beyondType(llvm::StringRef number, mlir::Type element);

} // namespace tcc
