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

bool isColumnReduction(Operation *op) {
  if (!isReduction(op))
    return false;
  const ReductionShape shape = reductionShape(op);
  return !shape.isIdentity() && !shape.isTrailing();
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

static bool refuse(std::string &refusal, StringRef why) {
  refusal = why;
  return false;
}

bool DemandedSpace::add(Operation *op, std::string &refusal) {
  if (auto scatter = dyn_cast<ScatterAddOp>(op)) {
    int64_t rows = tensorType(scatter.getIndex()).getNumElements();
    int64_t size = 1;
    for (int64_t dim : tensorType(scatter.getBase()).getShape().drop_front())
      size *= dim;
    return addColumns({1, size == 0 ? 0 : rows, size}, refusal);
  }
  if (!isReduction(op))
    return true;
  ReductionShape shape = reductionShape(op);
  if (shape.isIdentity())
    return true;
  if (shape.reduced == 0)
    return refuse(refusal, "expected a reduction over at least one element");
  if (!shape.adjacent)
    return refuse(refusal, "expected the reduced axes to be neighbours");
  if (shape.isTrailing())
    return addRows({1, shape.before, shape.reduced}, refusal);
  return addColumns({shape.before, shape.after == 0 ? 0 : shape.reduced, shape.after}, refusal);
}

bool DemandedSpace::add(const DemandedSpace &other, std::string &refusal) {
  return (!other.columns || addColumns(*other.columns, refusal)) && (!other.rows || addRows(*other.rows, refusal));
}

bool DemandedSpace::addColumns(const KernelSpace &space, std::string &refusal) {
  if (columns && *columns != space)
    return refuse(refusal, "expected sums over the rows of tensors of one size");
  columns = space;
  return true;
}

bool DemandedSpace::addRows(const KernelSpace &space, std::string &refusal) {
  if (rows && *rows != space)
    return refuse(refusal, "expected row reductions over rows of one size");
  rows = space;
  return true;
}

bool DemandedSpace::agree(std::string &refusal) const {
  return !columns || !rows || (columns->columns == rows->columns && columns->elements() == rows->elements()) ||
         refuse(refusal, "expected sums along rows and over rows of tensors of one size");
}

bool chooseSpaces(ArrayRef<Operation *> ops, ArrayRef<Value> results, SmallVectorImpl<KernelSpace> &candidates,
                  std::string &refusal) {
  DemandedSpace demanded;
  if (!llvm::all_of(ops, [&](Operation *op) { return demanded.add(op, refusal); }) || !demanded.agree(refusal))
    return false;
  if (std::optional<KernelSpace> space = demanded.space())
    candidates.push_back(*space);
  else
    choosePointwiseSpaces(ops, results, candidates);
  return true;
}

} // namespace tcc
