// Mistakes in the names of a .graph text: values, ops, element types. Found by the outline alone, so that one text can
// have several, each at its place.
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

/// All of them, in no order. Values that no statement defines or a later one does, names defined twice, unknown ops,
/// element types and shapes that are none, a missing return.
std::vector<GraphProblem> checkOutline(llvm::StringRef text, const GraphOutline &outline, mlir::MLIRContext &context);

/// Whether tensors hold elements of a type of this spelling.
bool isElementType(llvm::StringRef name);

/// "; did you mean 'eps'?", or nothing where none of `known` is near `name`.
std::string didYouMean(llvm::StringRef name, llvm::ArrayRef<std::string> known);

/// "`tcc.softmax %x : tensor<…>`": how an op is written, from its definition; empty for an unknown op.
std::string opSyntax(llvm::StringRef op, mlir::MLIRContext &context);

} // namespace tcc
