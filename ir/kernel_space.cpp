// Which iteration space a region has.
#include "ir/kernel_space.h"

using namespace mlir;

namespace tcc {

bool isReduction(Operation *op) {
  return isa<ReduceSumOp, ReduceMaxOp, ReduceProdOp>(op);
}

Reduction reductionOf(Operation *op) {
  if (isa<ReduceSumOp>(op))
    return Reduction::sum;
  return isa<ReduceMaxOp>(op) ? Reduction::maximum : Reduction::product;
}

ArrayRef<int64_t> reducedAxes(Operation *op) {
  if (auto sum = dyn_cast<ReduceSumOp>(op))
    return sum.getAxes();
  if (auto product = dyn_cast<ReduceProdOp>(op))
    return product.getAxes();
  return cast<ReduceMaxOp>(op).getAxes();
}

ReductionShape reductionShape(Operation *op) {
  ArrayRef<int64_t> shape = tensorType(op->getOperand(0)).getShape(), axes = reducedAxes(op);
  ReductionShape result;
  bool seenReduced = false, seenAfter = false;
  for (auto [i, size] : llvm::enumerate(shape)) {
    if (size == 1)
      continue;
    if (llvm::is_contained(axes, static_cast<int64_t>(i))) {
      result.adjacent &= !seenAfter;
      result.reduced *= size;
      seenReduced = true;
    } else {
      (seenReduced ? result.after : result.before) *= size;
      seenAfter |= seenReduced;
    }
  }
  return result;
}

/// The spaces of a region without reductions, the flattest first: one row, then rows of each suffix of a shape.
static void choosePointwiseSpaces(ArrayRef<Operation *> ops, ArrayRef<Value> results,
                                  SmallVectorImpl<KernelSpace> &candidates) {
  int64_t elements = 0;
  bool equal = true;
  for (Value result : results) {
    int64_t count = tensorType(result).getNumElements();
    equal &= count == tensorType(results[0]).getNumElements();
    elements = std::max(elements, count);
  }
  if (elements == 0) { // no rows: nothing is computed once a row either
    candidates.push_back({1, 0, 1});
    return;
  }
  std::set<int64_t, std::greater<>> sizes;
  auto addSuffixes = [&](Value value) {
    int64_t product = 1;
    for (int64_t size : llvm::reverse(tensorType(value).getShape())) {
      product *= size;
      if (product > 0 && elements % product == 0)
        sizes.insert(product);
    }
  };
  for (Operation *op : ops) {
    addSuffixes(op->getResult(0));
    for (Value operand : op->getOperands())
      addSuffixes(operand);
  }
  for (Value result : results)
    addSuffixes(result);
  if (equal)
    candidates.push_back({1, 1, elements});
  for (int64_t size : sizes)
    if (!(equal && size == elements))
      candidates.push_back({1, elements / size, size});
  if (candidates.empty())
    candidates.push_back({1, elements, 1});
}

bool chooseSpaces(ArrayRef<Operation *> ops, ArrayRef<Value> results, SmallVectorImpl<KernelSpace> &candidates,
                  std::string &refusal) {
  auto refuse = [&](StringRef why) {
    refusal = why;
    return false;
  };
  std::optional<KernelSpace> columns; // of column results
  int64_t rowSize = -1, rowElements = -1;
  for (Operation *op : ops) {
    if (auto scatter = dyn_cast<ScatterAddOp>(op)) {
      int64_t rows = tensorType(scatter.getIndex()).getNumElements();
      int64_t size = 1;
      for (int64_t dim : tensorType(scatter.getBase()).getShape().drop_front())
        size *= dim;
      KernelSpace space{1, size == 0 ? 0 : rows, size};
      if (columns && *columns != space)
        return refuse("expected sums over the rows of tensors of one size");
      columns = space;
      continue;
    }
    if (!isReduction(op))
      continue;
    ReductionShape shape = reductionShape(op);
    if (shape.isIdentity())
      continue;
    if (shape.reduced == 0)
      return refuse("expected a reduction over at least one element");
    if (!shape.adjacent)
      return refuse("expected the reduced axes to be neighbours");
    if (shape.isTrailing()) {
      int64_t elements = shape.before * shape.reduced;
      if (rowSize >= 0 && (rowSize != shape.reduced || rowElements != elements))
        return refuse("expected row reductions over rows of one size");
      rowSize = shape.reduced;
      rowElements = elements;
      continue;
    }
    KernelSpace space{shape.before, shape.after == 0 ? 0 : shape.reduced, shape.after};
    if (columns && *columns != space)
      return refuse("expected sums over the rows of tensors of one size");
    columns = space;
  }
  if (columns) {
    if (rowSize >= 0 && (columns->columns != rowSize || columns->elements() != rowElements))
      return refuse("expected sums along rows and over rows of tensors of one size");
    candidates.push_back(*columns);
    return true;
  }
  if (rowSize >= 0) {
    candidates.push_back({1, rowElements / rowSize, rowSize});
    return true;
  }
  choosePointwiseSpaces(ops, results, candidates);
  return true;
}

} // namespace tcc
