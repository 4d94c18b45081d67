// Finds the operands' dims that a growing dim comes from, copies ops in the longer size, and masks the added elements.
#include "passes/grown_dims.h"
#include "ir/emit.h"
#include "ir/kernel_space.h"
#include <limits>

using namespace mlir;

namespace tcc {
namespace {

int64_t elementsBefore(ArrayRef<int64_t> shape, int64_t dim) {
  int64_t count = 1;
  for (int64_t size : shape.take_front(dim))
    count *= size;
  return count;
}

/// For a view that keeps the row-major order, from shape `from` to shape `to`: the operand's dim that is dim `dim` of
/// the result. The two have one size and as many elements before them.
std::optional<int64_t> dimBelow(ArrayRef<int64_t> from, ArrayRef<int64_t> to, int64_t dim) {
  for (int64_t i = 0, e = from.size(); i < e; ++i)
    if (from[i] == to[dim] && elementsBefore(from, i) == elementsBefore(to, dim))
      return i;
  return std::nullopt;
}

/// sourceDims() for the result of a view.
std::optional<SmallVector<ValueDim, 3>> viewedSources(ViewOpInterface view, int64_t dim) {
  using Dims = SmallVector<ValueDim, 3>;
  Value operand = view->getOperand(0);
  ArrayRef<int64_t> from = tensorType(operand).getShape(), to = tensorType(view->getResult(0)).getShape();
  std::optional<SmallVector<ViewedDim>> dims = view.viewedDims();
  if (!dims) {
    std::optional<int64_t> below = dimBelow(from, to, dim);
    return below ? std::optional(Dims{{operand, *below}}) : std::nullopt;
  }
  if (llvm::any_of(*dims,
                   [&](const ViewedDim &viewed) { return viewed.inner && (viewed.dim == dim || viewed.inner == dim); }))
    return std::nullopt;
  for (auto [below, viewed] : llvm::enumerate(*dims))
    if (viewed.dim == dim)
      return from[below] == to[dim] && viewed.stride == 1 ? std::optional(Dims{{operand, below}}) : std::nullopt;
  return Dims();
}

RankedTensorType withSize(RankedTensorType type, int64_t dim, int64_t size) {
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = size;
  return withShape(type, shape);
}

/// sourceDims() of a dim that may grow; such a dim always has them.
SmallVector<ValueDim, 3> knownSources(ValueDim at) {
  return *sourceDims(at.first, at.second);
}

/// A copy of `op` whose result has `size` elements along `dim`, computed from `operands`.
Value longerCopy(Operation *op, int64_t dim, int64_t size, ArrayRef<Value> operands) {
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  RankedTensorType type = withSize(tensorType(op->getResult(0)), dim, size);
  if (auto literal = dyn_cast<ConstantOp>(op)) {
    Attribute element = cast<DenseElementsAttr>(literal.getValue()).getSplatValue<Attribute>();
    return ConstantOp::create(builder, op->getLoc(), DenseElementsAttr::get(type, element));
  }
  Operation *copy = builder.clone(*op);
  for (auto [i, operand] : llvm::enumerate(operands))
    copy->setOperand(i, operand);
  copy->getResult(0).setType(type);
  if (auto slice = dyn_cast<SliceOp>(copy)) {
    SmallVector<int64_t> limits(slice.getLimits());
    limits[dim] = size;
    slice.setLimits(limits);
  }
  return copy->getResult(0);
}

} // namespace

std::optional<SmallVector<ValueDim, 3>> sourceDims(Value value, int64_t dim) {
  using Dims = SmallVector<ValueDim, 3>;
  Operation *op = value.getDefiningOp();
  if (!op)
    return std::nullopt;
  if (isa<ElementwiseOpInterface>(op)) {
    Dims dims;
    for (Value operand : op->getOperands())
      dims.push_back({operand, dim});
    return dims;
  }
  if (auto literal = dyn_cast<ConstantOp>(op))
    return cast<DenseElementsAttr>(literal.getValue()).isSplat() ? std::optional(Dims()) : std::nullopt;
  if (isa<IotaOp>(op))
    return Dims();
  if (auto view = dyn_cast<ViewOpInterface>(op))
    return viewedSources(view, dim);
  if (isReduction(op))
    return llvm::is_contained(reducedAxes(op), dim) ? std::nullopt : std::optional(Dims{{op->getOperand(0), dim}});
  if (auto scatter = dyn_cast<ScatterAddOp>(op)) // an index beyond the size changes no element before it
    return dim == 0 ? std::optional(Dims{{scatter.getBase(), 0}}) : std::nullopt;
  return std::nullopt;
}

GrownDims::GrownDims(Block &block, const DenseMap<int64_t, int64_t> &sizes) : block(block), sizes(sizes) {
  for (Operation &op : block) {
    order[&op] = ops.size();
    ops.push_back(&op);
  }
}

void GrownDims::visit(Operation *op) {
  for (Value result : op->getResults())
    for (auto [dim, size] : llvm::enumerate(tensorType(result).getShape())) {
      if (!sizes.contains(size))
        continue;
      ValueDim at(result, dim);
      std::optional<SmallVector<ValueDim, 3>> sources = sourceDims(result, dim);
      if (!sources)
        continue;
      if (llvm::any_of(*sources, [&](ValueDim source) { return reached.contains(source); }))
        reached.insert(at);
      else if (llvm::all_of(*sources, [&](ValueDim source) { return free.contains(source); }))
        free.insert(at);
    }
}

void GrownDims::cutProduct(Operation *product, Value longer, ArrayRef<int64_t> dims) {
  Value result = product->getResult(0);
  OpBuilder builder(product->getContext());
  builder.setInsertionPointAfter(product);
  Emit emit(builder, product->getLoc());
  ArrayRef<int64_t> shape = tensorType(result).getShape();
  SmallVector<int64_t> starts(shape.size(), 0);
  Value cut = emit.slice(longer, starts, shape);
  result.replaceAllUsesWith(cut);
  for (int64_t dim : dims) {
    SmallVector<int64_t> limits(shape);
    limits[dim] = tensorType(longer).getDimSize(dim);
    cuts[{cut, dim}] = emit.slice(longer, starts, limits);
    reached.insert({cut, dim});
  }
}

Value GrownDims::withZerosAfter(Value value, int64_t dim) {
  RankedTensorType type = tensorType(value);
  SmallVector<int64_t> low(type.getRank(), 0), high(type.getRank(), 0);
  high[dim] = sizes.lookup(type.getDimSize(dim)) - type.getDimSize(dim);
  OpBuilder builder(value.getContext());
  builder.setInsertionPointAfterValue(value);
  return Emit(builder, value.getLoc()).pad(value, low, high);
}

Value GrownDims::padded(Value value, int64_t dim) {
  if (Value known = withZeros.lookup({value, dim}))
    return known;
  Value result;
  std::optional<SmallVector<ValueDim, 3>> below = sourceDims(value, dim);
  if (Operation *op = value.getDefiningOp(); isa_and_nonnull<ReshapeOp, TransposeOp>(op) && below) {
    Value longer = padded((*below)[0].first, (*below)[0].second); // what is stored is below the view
    result = longerCopy(op, dim, sizes.lookup(tensorType(value).getDimSize(dim)), longer);
  } else if (reached.contains({value, dim})) {
    result = masked(grow(value, dim), dim, tensorType(value).getDimSize(dim), 0);
  } else {
    result = withZerosAfter(value, dim);
  }
  return withZeros[{value, dim}] = result;
}

Value GrownDims::masked(Value longer, int64_t dim, int64_t size, double fill) {
  RankedTensorType type = tensorType(longer);
  OpBuilder builder(longer.getContext());
  Emit emit(builder, longer.getLoc());
  Value &isInside = insides[{withElement(type, emit.i32()), {dim, size}}];
  if (!isInside) {
    builder.setInsertionPointToStart(&block);
    Value index = emit.iota(dim, type.getShape(), emit.i32());
    isInside = emit.compare(Predicate::lt, index, emit.constant(static_cast<double>(size), tensorType(index)));
  }
  builder.setInsertionPointAfterValue(longer);
  return emit.select(isInside, longer, emit.constant(fill, type));
}

/// Without recursion: chains between matmuls can be as long as the function.
Value GrownDims::grow(Value value, int64_t dim) {
  SmallVector<ValueDim> work{{value, dim}}, cone;
  llvm::DenseSet<ValueDim> seen;
  while (!work.empty()) {
    ValueDim at = work.pop_back_val();
    if (!seen.insert(at).second || grown.contains(at))
      continue;
    if (cuts.contains(at)) {
      read.insert(at);
      continue;
    }
    cone.push_back(at);
    for (ValueDim source : knownSources(at))
      if (mayGrow(source))
        work.push_back(source);
  }
  llvm::sort(cone, [&](ValueDim a, ValueDim b) {
    return order.lookup(a.first.getDefiningOp()) < order.lookup(b.first.getDefiningOp());
  });
  for (ValueDim at : cone) {
    grown[at] = growOne(at);
    made.push_back(at);
  }
  return cuts.contains({value, dim}) ? cuts.lookup({value, dim}) : grown.lookup({value, dim});
}

/// The longer form of a value whose sources have grown.
Value GrownDims::growOne(ValueDim at) {
  SmallVector<Value> operands;
  for (ValueDim source : knownSources(at)) {
    Value longer = cuts.contains(source) ? cuts.lookup(source) : grown.lookup(source);
    operands.push_back(longer ? longer : padded(source.first, source.second));
  }
  return longerCopy(at.first.getDefiningOp(), at.second, sizes.lookup(tensorType(at.first).getDimSize(at.second)),
                    operands);
}

/// A computation on a grown value joins it, or it would be a kernel over another space; so does a scatter-add to a
/// matmul, which otherwise could not be done in place. Other readers of leading rows lose nothing.
void GrownDims::growReader(Operation *op) {
  if (op->getNumResults() != 1 || tensorType(op->getResult(0)).getRank() == 0)
    return;
  Value result = op->getResult(0);
  auto scatter = dyn_cast<ScatterAddOp>(op);
  int64_t dim = scatter ? 0 : tensorType(result).getRank() - 1;
  if (!reached.contains({result, dim}) || grown.contains({result, dim}))
    return;
  auto joins = [&](ValueDim source) { return isGrown(source) || (scatter && cuts.contains(source)); };
  if (llvm::any_of(knownSources({result, dim}), joins))
    grow(result, dim);
}

void GrownDims::maskReduction(Operation *op) {
  Value x = op->getOperand(0);
  if (!tensorType(x).getElementType().isF32())
    return;
  for (int64_t axis : reducedAxes(op))
    if (isGrown({x, axis})) {
      Value longer = cuts.contains({x, axis}) ? cuts.lookup({x, axis}) : grown.lookup({x, axis});
      double neutral = isa<ReduceMaxOp>(op) ? -std::numeric_limits<double>::infinity() : isa<ReduceProdOp>(op) ? 1 : 0;
      op->setOperand(0, masked(longer, axis, tensorType(x).getDimSize(axis), neutral));
      return;
    }
}

void GrownDims::finish() {
  for (Operation *op : ops)
    growReader(op);
  for (Operation *op : ops)
    if (isReduction(op))
      maskReduction(op);
  for (ValueDim at : made) {
    if (free.contains(at) || at.first.use_empty())
      continue;
    Value longer = grown.lookup(at);
    OpBuilder builder(longer.getContext());
    builder.setInsertionPointAfterValue(longer);
    ArrayRef<int64_t> shape = tensorType(at.first).getShape();
    Value cut = Emit(builder, longer.getLoc()).slice(longer, SmallVector<int64_t>(shape.size(), 0), shape);
    // What grows along another dim may read the value in front of its cut.
    Operation *cutOp = cut.getDefiningOp();
    at.first.replaceUsesWithIf(cut, [&](OpOperand &use) { return cutOp->isBeforeInBlock(use.getOwner()); });
  }
}

} // namespace tcc
