// Emit: an OpBuilder with a location and a short spelling for each primitive, used by decompositions, gradients and
// passes. Shapes are static and equal unless a function says otherwise; results carry their inferred types.
#pragma once
#include "ir/dialect.h"
#include "mlir/IR/Builders.h"

namespace tcc {

class Emit {
public:
  Emit(mlir::OpBuilder &builder, mlir::Location loc) : builder(builder), loc(loc) {}

  mlir::OpBuilder &builder;
  mlir::Location loc;

  template <typename Op, typename... Args>
  mlir::Value create(Args &&...args) {
    return Op::create(builder, loc, std::forward<Args>(args)...);
  }

  // sources
  mlir::Value constant(double value, mlir::RankedTensorType type);
  mlir::Value zeros(mlir::RankedTensorType type) { return constant(0, type); }
  mlir::Value iota(int64_t dim, llvm::ArrayRef<int64_t> shape, mlir::Type element);

  // one function for each op that is known by its operands and plain attributes, generated from Ops.td
  // (generate_ops.cpp)
#include "ir/emit_functions.h.inc"

  // elementwise
  mlir::Value compare(Predicate predicate, mlir::Value a, mlir::Value b);
  /// x converted to `element`; x itself when it has that element type.
  mlir::Value cast(mlir::Value x, mlir::Type element);

  // the same with a literal on the right, splat to x's type
  mlir::Value add(mlir::Value x, double literal) { return add(x, constant(literal, tensorType(x))); }
  mlir::Value sub(mlir::Value x, double literal) { return sub(x, constant(literal, tensorType(x))); }
  mlir::Value mul(mlir::Value x, double literal) { return mul(x, constant(literal, tensorType(x))); }
  mlir::Value div(mlir::Value x, double literal) { return div(x, constant(literal, tensorType(x))); }

  // views; each gives x itself if the view would change nothing
  mlir::Value broadcast(mlir::Value x, llvm::ArrayRef<int64_t> shape);
  mlir::Value reshape(mlir::Value x, llvm::ArrayRef<int64_t> shape);
  mlir::Value transpose(mlir::Value x, llvm::ArrayRef<int64_t> permutation);
  mlir::Value slice(mlir::Value x, llvm::ArrayRef<int64_t> starts, llvm::ArrayRef<int64_t> limits);
  mlir::Value pad(mlir::Value x, llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> high, double value = 0);
  /// x with `step` - 1 zeros between its elements along `dim`.
  mlir::Value spread(mlir::Value x, int64_t dim, int64_t step);

  // reductions; axes stay as size 1
  mlir::Value reduceSum(mlir::Value x, llvm::ArrayRef<int64_t> axes);
  mlir::Value reduceMax(mlir::Value x, llvm::ArrayRef<int64_t> axes);
  /// Sums x over the dims that `broadcast` from `shape` to x's shape stretches; the result has `shape`.
  mlir::Value sumTo(mlir::Value x, llvm::ArrayRef<int64_t> shape);

  mlir::Value matmul(mlir::Value a, mlir::Value b, bool transposeA = false, bool transposeB = false,
                     mlir::Type dtype = {});

  mlir::Type f32() { return builder.getF32Type(); }
  mlir::Type i32() { return builder.getI32Type(); }
};

/// A literal whose elements are all `value`, rounded to the element type.
mlir::DenseElementsAttr splatOf(mlir::RankedTensorType type, double value);

/// `type` with another shape or element type.
mlir::RankedTensorType withShape(mlir::RankedTensorType type, llvm::ArrayRef<int64_t> shape);
mlir::RankedTensorType withElement(mlir::RankedTensorType type, mlir::Type element);

} // namespace tcc
