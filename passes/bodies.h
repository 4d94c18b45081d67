// Bodies of cond and repeat as passes see them: each one a function for as long as a pass runs on it.
#pragma once
#include "ir/dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tcc {

inline constexpr llvm::StringLiteral arenasAttr = "tcc.arenas"; // on an op with bodies: arena bytes of each

/// A body as a function: tcc.yield is its return, carried arguments are states that its results update, the others are
/// inputs. The op has the body again when this object goes.
class BodyFunction {
public:
  BodyFunction(BodyOpInterface op, unsigned number);
  BodyFunction(const BodyFunction &) = delete;
  BodyFunction &operator=(const BodyFunction &) = delete;
  ~BodyFunction();

  mlir::func::FuncOp get() const { return function; }
  /// Whether it is such a function: they stand in no module.
  static bool is(mlir::func::FuncOp function) { return !function->getBlock(); }

private:
  BodyOpInterface op;
  unsigned number;
  mlir::func::FuncOp function;
};

/// Runs `pass` on each body in the function, inner ones first, then on the function.
mlir::LogicalResult runOnBodies(mlir::func::FuncOp function,
                                llvm::function_ref<mlir::LogicalResult(mlir::func::FuncOp)> pass);

/// Drops what nobody needs: results of a cond that are not used, inputs that no body reads. An input that is a splat
/// becomes a literal of the body, unless gradients with respect to it are wanted.
void pruneBodies(mlir::func::FuncOp function);

/// Loops written out turn by turn, and both bodies of each cond with a select: for references, whose sizes are small.
void inlineBodies(mlir::func::FuncOp function);

/// Bytes of the arena that an op with planned bodies needs: its slices in order, each at a multiple of `alignment`,
/// then the bodies' own, which share their place.
struct BodyMemory {
  llvm::SmallVector<int64_t> slices; // offsets
  int64_t arena = 0;                 // offset
  int64_t bytes = 0;                 // of it all
};
BodyMemory memoryOfBodies(BodyOpInterface op, int64_t alignment);

} // namespace tcc
