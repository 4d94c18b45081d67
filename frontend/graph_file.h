// Reads and writes .graph files, which hold MLIR assembly of the tcc dialect with one public func.func. A text is
// scanned for limits before it is parsed. Printing what was parsed gives the same text again.
#pragma once
#include "frontend/diagnostics.h"
#include "frontend/graph_scan.h"
#include "ir/dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/error.h"

namespace tcc {

/// Reads a file, "-" for stdin, of at most `limit` bytes. Errors name the path and the system's reason.
runtime::Expected<std::string> readText(const std::string &path, int64_t limit);

/// Parses and checks `text`, called `name` in diagnostics. Null after at least one printed error; several mistakes are
/// several errors (graph_explain.h).
mlir::OwningOpRef<mlir::ModuleOp> parseGraph(llvm::StringRef text, llvm::StringRef name, mlir::MLIRContext &context,
                                             DiagnosticPrinter &printer, const GraphLimits &limits = {});

struct OutlinedText;

/// Checks what a module must fulfil to be compiled. Errors are MLIR diagnostics; if the module's text is given in
/// `source`, they are at the names and attributes there.
/// function_c1: exactly one function, public, with a body. function_c2: one block of tcc ops and func.return.
/// function_c3: names of arguments are unique, and so are names of results. function_c4: tcc.updates names a state of
/// the result's type, at most once. function_c5: ops, arguments, results and the function have no attribute that
/// nothing reads.
mlir::LogicalResult verifyGraph(mlir::ModuleOp module, const OutlinedText *source = nullptr);

/// The first custom op that is a function of this process, which no text can hold; null where there is none.
CustomOp findHostCode(mlir::ModuleOp module);

/// Canonical text, without locations.
void printGraph(mlir::ModuleOp module, llvm::raw_ostream &os);
std::string graphText(mlir::ModuleOp module);

} // namespace tcc
