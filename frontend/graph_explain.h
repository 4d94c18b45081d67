// explainGraph: says why a .graph text is refused. It names every mistake once, at its place, in the words of this
// project.
#pragma once
#include "frontend/diagnostics.h"
#include "frontend/graph_check.h"

namespace tcc {

/// A text with its outline, for messages that point into it.
struct OutlinedText {
  std::string file;
  llvm::StringRef text;
  LineIndex lines;
  GraphOutline outline;
};

/// A diagnostic of MLIR about `source`, at `offset`, in the words of this project. `statement` is the statement to
/// which it belongs, or null.
GraphProblem inOurWords(llvm::StringRef message, size_t offset, const OutlineStatement *statement,
                        const OutlinedText &source, mlir::MLIRContext &context);

/// Prints the mistakes of a text that parseGraph refuses, in the order of their places; at most 20. It parses the text
/// again and again, each time without the statements that are known to be wrong and those that depend on them, so that
/// one mistake is one error and several are found in one run. Prints nothing where it finds nothing.
void explainGraph(llvm::StringRef text, llvm::StringRef name, mlir::MLIRContext &context, DiagnosticPrinter &printer);

} // namespace tcc
