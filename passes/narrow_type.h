// Helpers of the passes that choose 16-bit element types (autocast, narrow-activations, fuse-gelu).
#pragma once
#include "ir/dialect.h"
#include "passes/pipeline.h"

namespace tcc {

/// The 16-bit type that matmuls multiply in; null where they multiply what the user wrote.
mlir::Type narrowType(ProductType products, mlir::MLIRContext *context);

/// Gives a value with another element type. If the value is a view, the cast goes before the view, onto the stored
/// tensor: this is then stored once in the new type, and every reader of a view reads it in place. A second call for
/// the same value gives the same result.
class CastBelowViews {
public:
  explicit CastBelowViews(mlir::Type element) : element(element) {}
  mlir::Value operator()(mlir::Value value);

private:
  mlir::Type element;
  llvm::DenseMap<mlir::Value, mlir::Value> known;

  mlir::Value castOf(mlir::Value root);
};

/// Whether `op` is a cast to tensors of `element`.
bool isCastTo(mlir::Operation *op, mlir::Type element);

/// Makes the matmul round its result to `narrow`; its users read that result cast back to the type that it had.
void narrowResult(MatmulOp product, mlir::Type narrow);

/// Lets every user of `value` read `stored` instead, through a cast to the type `wide`. A user that casts `value` to
/// the type of `stored` is replaced by `stored` itself.
void readNarrow(mlir::Value value, mlir::Value stored, mlir::Type wide);

} // namespace tcc
