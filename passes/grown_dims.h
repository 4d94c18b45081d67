// GrownDims: gives values more elements along a dim than they have. pad-shapes uses it for what is computed between two
// matmuls whose sizes it pads. A dim grows through every op that does not mix elements along it, so that a kernel keeps
// one iteration space. The elements after the old size hold anything until they are masked.
#pragma once
#include "ir/dialect.h"

namespace tcc {

using ValueDim = std::pair<mlir::Value, int64_t>;

/// The dims of operands from which `dim` of `value` comes element by element. The list is empty for values that read no
/// operand along the dim (a splat, coordinates, a repetition). Gives nothing where elements mix along the dim or where
/// the op cannot grow.
std::optional<llvm::SmallVector<ValueDim, 3>> sourceDims(mlir::Value value, int64_t dim);

/// The caller hands over the block's ops in order, each once: with `cutProduct` a matmul that it has made longer, with
/// `visit` every other op. `finish` then lets the remaining readers of grown values read these.
class GrownDims {
public:
  /// `sizes` maps each size that may grow to the size that it gets.
  GrownDims(mlir::Block &block, const llvm::DenseMap<int64_t, int64_t> &sizes);

  void visit(mlir::Operation *op);
  /// Replaces the result of `product` by the first elements of `longer`, which has larger sizes along `dims`.
  void cutProduct(mlir::Operation *product, mlir::Value longer, llvm::ArrayRef<int64_t> dims);
  /// The value with zeros after its elements along `dim`.
  mlir::Value padded(mlir::Value value, int64_t dim);
  /// Computes everything that depends on grown values in the longer size; reductions leave the added elements out.
  void finish();

private:
  mlir::Block &block;
  const llvm::DenseMap<int64_t, int64_t> &sizes;
  std::vector<mlir::Operation *> ops; // the block's ops before anything has grown
  llvm::DenseMap<mlir::Operation *, unsigned> order;
  llvm::DenseSet<ValueDim> reached; // depends on a longer matmul
  llvm::DenseSet<ValueDim> free;    // depends on no memory along the dim
  llvm::DenseSet<ValueDim> read;    // cuts of matmuls that a grown value depends on
  llvm::DenseMap<ValueDim, mlir::Value> cuts, grown, withZeros;
  llvm::DenseMap<std::pair<mlir::Type, std::pair<int64_t, int64_t>>, mlir::Value> insides; // masks by shape, dim, size
  std::vector<ValueDim> made; // the keys of `grown`, in order

  bool mayGrow(ValueDim at) const { return reached.contains(at) || free.contains(at); }
  bool isGrown(ValueDim at) const { return grown.contains(at) || (cuts.contains(at) && read.contains(at)); }
  mlir::Value withZerosAfter(mlir::Value value, int64_t dim);
  mlir::Value grow(mlir::Value value, int64_t dim);
  mlir::Value growOne(ValueDim at);
  mlir::Value masked(mlir::Value longer, int64_t dim, int64_t size, double fill);
  void growReader(mlir::Operation *op);
  void maskReduction(mlir::Operation *op);
};

} // namespace tcc
