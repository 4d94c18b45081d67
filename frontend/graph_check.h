// checkOutline: finds mistakes in the names of a .graph text: values, ops, element types. It needs only the text's
// outline, so it can find several mistakes in one text, each at its place.
#pragma once
#include "frontend/graph_outline.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <string>
#include <vector>

namespace mlir {
class MLIRContext;
}

namespace tcc {

struct GraphNote {
  TextRange range; ///< {0, 0}: where the problem is
  std::string message;
};

/// A mistake at a place of the text.
struct GraphProblem {
  TextRange range;
  std::string message;
  std::vector<GraphNote> notes;
};

/// All mistakes, in no order: values that are not defined, or only by a later statement; names that are defined twice;
/// unknown ops; words that are no element type or shape; a missing return.
std::vector<GraphProblem> checkOutline(llvm::StringRef text, const GraphOutline &outline, mlir::MLIRContext &context);

/// Whether tensors hold elements of a type of this spelling.
bool isElementType(llvm::StringRef name);

/// "; did you mean 'eps'?" with the word of `known` that is nearest to `name`; empty if none is near.
std::string didYouMean(llvm::StringRef name, llvm::ArrayRef<std::string> known);

/// "`tcc.softmax %x : tensor<…>`": how an op is written, from its definition; empty for an unknown op.
std::string opSyntax(llvm::StringRef op, mlir::MLIRContext &context);

} // namespace tcc
