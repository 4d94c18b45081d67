// The op table: for each op sample functions over shapes, element types, attributes and special values, and malformed
// text with the constraint that must refuse it. It is data: the interpreter's tests, the gradient tests and the
// compiled-against-interpreter test all iterate it.
#pragma once
#include "ir/reference/compare.h"
#include "ir/reference/interpreter.h"
#include "mlir/IR/OwningOpRef.h"

namespace tcc::test {

/// Values of one argument: uniform in [low, high), or the constant `low` where the two are equal. Integers are
/// truncated towards -inf; i1 is a coin unless constant.
struct Domain {
  double low = -2, high = 2;
};

enum class Specials : uint8_t {
  none,
  all,  // every element of the float arguments is special, in all pairs over two arguments
  some, // about one element in a hundred, so that sums and rows without any exist
};

struct OpCase {
  std::string name; // unique within the table: "matmul/7x17·17x33/f32"
  std::string text; // a module with one function @main, static shapes
  std::vector<Domain> domains;
  Specials specials = Specials::none;
  std::vector<double> values; // the special ones
  bool differentiable = true; // false: no gradient check, for the reason that the case's row gives
  Tolerance tolerance;        // of compiled code; wider than usual only with a reason beside it
};

struct ErrorCase {
  std::string label; // "matmul_c1": stands in the op's description and in the message
  std::string text;  // a module that must be refused
};

struct OpRow {
  std::string op; // "tcc.matmul"
  std::vector<OpCase> cases;
  std::vector<ErrorCase> errors;
};

/// One row an op, in the order of Ops.td.
llvm::ArrayRef<OpRow> opTable();

/// The rows of ops with bodies (control_rows.cpp), part of the table.
std::vector<OpRow> controlRows();
/// Those of lanes and collectives (collective_rows.cpp).
std::vector<OpRow> collectiveRows();

/// Malformed uses of the structural ops (kernel, gradient), which have no row.
llvm::ArrayRef<ErrorCase> structuralErrors();

/// A context with every dialect of a tcc module loaded.
std::unique_ptr<mlir::MLIRContext> makeContext();

/// Parses and verifies module text. On failure null, and the diagnostics in `messages`.
mlir::OwningOpRef<mlir::ModuleOp> parseText(mlir::MLIRContext &context, llvm::StringRef text, std::string &messages);

/// The function @main of a module.
mlir::func::FuncOp mainOf(mlir::ModuleOp module);

/// Arguments for a case: by seed, the same everywhere, rounded to their element types.
std::vector<RefTensor> makeInputs(mlir::func::FuncOp function, const OpCase &opCase, uint64_t seed);

} // namespace tcc::test
