// How passes work on the bodies of cond and repeat: each body is a function for as long as a pass runs on it.
#pragma once
#include "ir/dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tcc {

inline constexpr llvm::StringLiteral arenasAttr = "tcc.arenas"; // on an op with bodies: the arena bytes of each body

/// A body as a function. Its tcc.yield is the function's return; carried arguments are states that its results update;
/// all other arguments are inputs. The destructor gives the body back to the op.
class BodyFunction {
public:
  BodyFunction(BodyOpInterface op, unsigned number);
  BodyFunction(const BodyFunction &) = delete;
  BodyFunction &operator=(const BodyFunction &) = delete;
  ~BodyFunction();

  mlir::func::FuncOp get() const { return function; }
  /// Whether `function` is a body; a body's function stands in no module.
  static bool is(mlir::func::FuncOp function) { return !function->getBlock(); }

private:
  BodyOpInterface op;
  unsigned number;
  mlir::func::FuncOp function;
};

/// Runs `pass` on each body in the function, inner ones first, then on the function.
mlir::LogicalResult runOnBodies(mlir::func::FuncOp function,
                                llvm::function_ref<mlir::LogicalResult(mlir::func::FuncOp)> pass);

/// Removes unused results of conds and inputs that no body reads. An input that is a splat becomes a literal inside the
/// body, unless gradients with respect to it are wanted.
void pruneBodies(mlir::func::FuncOp function);

/// Whether the op is a kernel and nothing reads what it gives: its results are where carried values begin whose loops
/// write them unseen. Such a kernel does not run.
bool isUnreadKernel(mlir::Operation *op);

/// Writes loops out turn by turn, and replaces each cond by both of its bodies and a select. Only references use this,
/// whose sizes are small.
void inlineBodies(mlir::func::FuncOp function);

/// The arena bytes that an op with planned bodies needs: first its slices (parts of operands that are copied for a
/// body) in order, each at a multiple of `alignment`, then one arena that all its bodies share.
struct BodyMemory {
  llvm::SmallVector<int64_t> slices; // the offset of each
  int64_t arena = 0;                 // the offset of the bodies' arena
  int64_t bytes = 0;                 // of slices and arena together
};
BodyMemory memoryOfBodies(BodyOpInterface op, int64_t alignment);

} // namespace tcc
