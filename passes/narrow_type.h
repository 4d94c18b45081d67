// What passes share that choose element types: the 16-bit type, other types below views, and values that are read as
// f32 though stored in 16 bits.
#pragma once
#include "ir/dialect.h"
#include "passes/pipeline.h"

namespace tcc {

/// The 16-bit type of products; null where they are as written.
mlir::Type narrowType(ProductType products, mlir::MLIRContext *context);

/// Values with another element type: cast below their views, once each, so that what is stored has that type and
/// whoever reads a view of it reads it in place.
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

/// Makes the product round its result to `narrow`; those that read it as it was read a cast of that.
void narrowResult(MatmulOp product, mlir::Type narrow);

/// Lets every user of `value` read `stored` instead, through a cast to the type `wide`; users that cast to the type of
/// `stored` are replaced by it.
void readNarrow(mlir::Value value, mlir::Value stored, mlir::Type wide);

} // namespace tcc
