// Values with more elements along a dim than they have: what pad-shapes makes of the computations between two products
// whose sizes it pads. A dim grows through every op whose elements along it stay apart, so that a kernel keeps one
// iteration space; what stands behind the size is anything until it is masked.
#pragma once
#include "ir/dialect.h"

namespace tcc {

using ValueDim = std::pair<mlir::Value, int64_t>;

/// The dims of operands that `dim` of an op's result is, element by element; none for what has elements of its own at
/// every place (a splat, coordinates, a repetition). Nothing where elements mix along the dim or the op is no such one.
std::optional<llvm::SmallVector<ValueDim, 3>> sourceDims(mlir::Value value, int64_t dim);

/// Given the block's ops in order, each once: a product's result as a cut of a longer one by `cutProduct`, everything
/// else by `visit`. `finish` then lets the other readers of grown values have them, too.
class GrownDims {
public:
  /// `sizes`: those that may grow, with the sizes that they get.
  GrownDims(mlir::Block &block, const llvm::DenseMap<int64_t, int64_t> &sizes);

  void visit(mlir::Operation *op);
  /// Lets all read `longer`'s first elements instead of `product`'s result, which had the smaller size along `dims`.
  void cutProduct(mlir::Operation *product, mlir::Value longer, llvm::ArrayRef<int64_t> dims);
  /// The value with zeros behind its elements along `dim`.
  mlir::Value padded(mlir::Value value, int64_t dim);
  /// Computes what depends on grown values in their size, reductions over what is behind it left out.
  void finish();

private:
  mlir::Block &block;
  const llvm::DenseMap<int64_t, int64_t> &sizes;
  std::vector<mlir::Operation *> ops; // as they were
  llvm::DenseMap<mlir::Operation *, unsigned> order;
  llvm::DenseSet<ValueDim> reached; // depends on a longer product
  llvm::DenseSet<ValueDim> free;    // depends on no memory along the dim
  llvm::DenseSet<ValueDim> read;    // cuts of products that a grown value depends on
  llvm::DenseMap<ValueDim, mlir::Value> cuts, grown, withZeros;
  llvm::DenseMap<std::pair<mlir::Type, std::pair<int64_t, int64_t>>, mlir::Value> insides; // by shape, dim, size
  std::vector<ValueDim> made; // the keys of `grown`, in order

  bool mayGrow(ValueDim at) const { return reached.contains(at) || free.contains(at); }
  bool isGrown(ValueDim at) const { return grown.contains(at) || (cuts.contains(at) && read.contains(at)); }
  mlir::Value behind(mlir::Value value, int64_t dim);
  mlir::Value grow(mlir::Value value, int64_t dim);
  mlir::Value growOne(ValueDim at);
  mlir::Value masked(mlir::Value longer, int64_t dim, int64_t size, double fill);
  void growReader(mlir::Operation *op);
  void maskReduction(mlir::Operation *op);
};

} // namespace tcc
