// Attention as one op, forward and backward, and both in terms of primitives for a target without kernels for a case.
#include "ir/ops/attention.h"
#include "ir/ops/dropout.h"
#include "ir/ops/expansion.h"
#include "ir/ops/numbers.h"
#include "ir/ops/shapes.h"
#include <limits>

using namespace mlir;

namespace tcc {

//===- sizes and masks -----------------------------------------------------------------------------------------===//

std::pair<int64_t, int64_t> AttentionMask::visibleKeys(int64_t t, int64_t keys) const {
  if (!diagonal)
    return {0, keys};
  auto key = [&](__int128 number) { return static_cast<int64_t>(std::clamp<__int128>(number, 0, keys)); };
  const __int128 end = __int128{t} + *diagonal + 1;
  return {window ? key(end - *window) : 0, key(end)};
}

std::pair<int64_t, int64_t> AttentionMask::bounds(int64_t queries, int64_t keys) const {
  const int64_t pairs = queries + keys;
  if (!diagonal)
    return {-pairs, pairs};
  auto clamp = [&](__int128 bound) { return static_cast<int64_t>(std::clamp<__int128>(bound, -pairs, pairs)); };
  const __int128 last = *diagonal;
  return {window ? clamp(last - *window) : -pairs, clamp(last)};
}

int64_t AttentionMask::visiblePairs(int64_t queries, int64_t keys) const {
  int64_t pairs = 0;
  for (int64_t t = 0; t < queries; ++t) {
    auto [first, end] = visibleKeys(t, keys);
    pairs += std::max<int64_t>(0, end - first);
  }
  return pairs;
}

bool AttentionMask::hidesWholeRows(int64_t queries, int64_t keys) const {
  auto isEmpty = [&](int64_t t) {
    auto [first, end] = visibleKeys(t, keys);
    return first >= end;
  };
  return queries > 0 && (isEmpty(0) || isEmpty(queries - 1)); // the visible range moves one way
}

namespace {

template <typename Op>
AttentionSizes sizesOf(Op op) {
  ArrayRef<int64_t> q = tensorType(op.getQ()).getShape(), k = tensorType(op.getK()).getShape();
  return {q[0], q[1], k[1], q[2], k[2], q[3]};
}

template <typename Op>
AttentionMask maskOf(Op op) {
  return {op.getDiagonal(), op.getWindow()};
}

/// Rate 0 where the op has none.
template <typename Op>
Dropout dropoutOf(Op op) {
  if (!op.getRate())
    return {};
  return {op.getRate()->convertToDouble(), op.getSeed(), *op.getStream(), op.getFirst()};
}

/// Checks the operands and attributes of either op; its constraints are called `prefix` and a number.
template <typename Adaptor>
LogicalResult verifyOperands(std::optional<Location> loc, Adaptor adaptor, StringRef name) {
  RankedTensorType q = tensorType(adaptor.getQ()), k = tensorType(adaptor.getK()), v = tensorType(adaptor.getV());
  bool fits = q.getRank() == 4 && k.getRank() == 4 && k == v && q.getElementType() == k.getElementType() &&
              sameSize(q.getDimSize(0), k.getDimSize(0)) && sameSize(q.getDimSize(3), k.getDimSize(3));
  if (!fits)
    return emitOptionalError(loc, "'", name, "' q is ", typeText(q), ", k ", typeText(k), ", v ", typeText(v),
                             "; q [B, T, H, d] needs k and v of one type [B, S, G, d] (flash_attention_c1)");
  int64_t heads = q.getDimSize(2), keyHeads = k.getDimSize(2);
  bool known = !ShapedType::isDynamic(heads) && !ShapedType::isDynamic(keyHeads);
  if (known && (keyHeads == 0 ? heads != 0 : heads % keyHeads != 0))
    return emitOptionalError(loc, "'", name, "' has ", heads, " heads of q and ", keyHeads,
                             " of k; k's must divide q's (flash_attention_c2)");
  if (adaptor.getWindow() && (!adaptor.getDiagonal() || static_cast<int64_t>(*adaptor.getWindow()) <= 0))
    return emitOptionalError(loc, "'", name, "' has window ", static_cast<int64_t>(*adaptor.getWindow()),
                             adaptor.getDiagonal() ? "" : " and no diagonal",
                             "; a window is positive and needs a diagonal (flash_attention_c3)");
  bool hasRate = adaptor.getRate().has_value();
  if (hasRate != adaptor.getStream().has_value() || hasRate != static_cast<bool>(adaptor.getSeed()) ||
      (adaptor.getFirst() && !hasRate))
    return emitOptionalError(loc, "'", name,
                             "' has some of rate, stream, seed and first; dropout needs the first "
                             "three, and `first` needs dropout (flash_attention_c4)");
  if (double rate = hasRate ? adaptor.getRate()->convertToDouble() : 0; !(rate >= 0 && rate < 1))
    return emitOptionalError(loc, "'", name, "' has rate ", rate, ", outside 0 <= rate < 1 (flash_attention_c4)");
  if (double scale = adaptor.getScale().convertToDouble(); !isFiniteF32(scale))
    return emitOptionalError(loc, "'", name, "' has scale ", numberText(scale), ", which ", beyondF32,
                             " (flash_attention_c5)");
  if (Value bias = adaptor.getBias()) {
    ArrayRef<int64_t> shape = tensorType(bias).getShape();
    const int64_t wanted[] = {q.getDimSize(0), heads, q.getDimSize(1), k.getDimSize(1)};
    if (shape.size() != 4 || !llvm::all_of(llvm::zip(shape, wanted),
                                           [](auto sizes) { return sameSize(std::get<0>(sizes), std::get<1>(sizes)); }))
      return emitOptionalError(loc, "'", name, "' has the bias ", typeText(tensorType(bias)), " for q ", typeText(q),
                               " and k ", typeText(k), "; it is f32 [B, H, T, S] (flash_attention_c6)");
  }
  return success();
}

RankedTensorType lseType(RankedTensorType q) {
  return RankedTensorType::get({q.getDimSize(0), q.getDimSize(2), q.getDimSize(1)}, Float32Type::get(q.getContext()));
}

//===- in terms of primitives ----------------------------------------------------------------------------------===//

/// Attention by materialised scores. Heads of a group stand as rows of one matrix, so keys are never repeated:
/// [B, T, H, d] becomes [B, G, group·T, d].
class Expansion {
public:
  Expansion(Emit &b, Value q, Value k, Value v, Value bias, double scale, AttentionSizes sizes, AttentionMask mask,
            const Dropout &dropout)
      : b(b), sizes(sizes), mask(mask), dropout(dropout), scale(scale), element(tensorType(q).getElementType()),
        q(byGroup(q)), k(b.transpose(k, {0, 2, 1, 3})), v(b.transpose(v, {0, 2, 1, 3})) {
    scores = byHead(b.mul(b.matmul(this->q, this->k, false, true, b.f32()), scale));
    if (bias)
      scores = b.add(scores, bias);
    rowsMayBeEmpty = bias || sizes.keys == 0 || mask.hidesWholeRows(sizes.queries, sizes.keys);
    if (mask.diagonal)
      visible = visiblePairs();
  }

  /// out and lse.
  SmallVector<Value> forward() {
    RankedTensorType type = tensorType(scores);
    Value masked = hide(scores, -std::numeric_limits<double>::infinity());
    Value top = b.reduceMax(b.detach(masked), {3});
    if (rowsMayBeEmpty)
      top = b.select(b.isFinite(top), top, b.zeros(tensorType(top)));
    Value e = b.exp(b.sub(masked, b.broadcast(top, type.getShape())));
    Value sum = b.reduceSum(e, {3});
    Value lse = b.add(b.log(sum), top);
    if (rowsMayBeEmpty)
      sum = b.select(b.compare(Predicate::eq, sum, b.zeros(tensorType(sum))), b.constant(1, tensorType(sum)), sum);
    Value p = b.div(e, b.broadcast(sum, type.getShape()));
    Value out = fromGroup(b.matmul(byRows(b.cast(dropped(p), element)), v));
    return {out, b.reshape(lse, {sizes.batch, sizes.heads, sizes.queries})};
  }

  /// exp(scores - lse), 0 where hidden; [B, H, T, S] f32. Scores are hidden before the exponential too: its own
  /// gradient would be 0 times what a hidden score overflows to.
  Value probabilities(Value lse) {
    ArrayRef<int64_t> shape = tensorType(scores).getShape();
    if (rowsMayBeEmpty)
      lse = b.select(b.isFinite(lse), lse, b.zeros(tensorType(lse)));
    Value masked = hide(scores, -std::numeric_limits<double>::infinity());
    return hide(b.exp(b.sub(masked, b.broadcast(column(lse), shape))), 0);
  }

  /// dQ, dK, dV of P and of the gradient with respect to P, where `delta` [B, H, T] is taken off each row of the
  /// latter. Without dOut: dQ and dK alone, dP being 0.
  SmallVector<Value> backward(Value p, Value dOut, Value delta) {
    Value grouped = dOut ? byGroup(dOut) : Value();
    Value dS = byRows(b.cast(gradientOfScores(p, grouped, delta), element));
    Value dQ = fromGroup(scaled(b.matmul(dS, k, false, false, b.f32())));
    Value dK = b.transpose(scaled(b.matmul(dS, q, true, false, b.f32())), {0, 2, 1, 3});
    if (!dOut)
      return {dQ, dK, Value()};
    Value dV = b.transpose(b.matmul(byRows(b.cast(dropped(p), element)), grouped, true), {0, 2, 1, 3});
    return {dQ, dK, dV};
  }
  /// The gradient of the bias, from the same values.
  Value gradientOfBias(Value p, Value dOut, Value delta) {
    return gradientOfScores(p, dOut ? byGroup(dOut) : Value(), delta);
  }

private:
  Emit &b;
  AttentionSizes sizes;
  AttentionMask mask;
  Dropout dropout;
  double scale;
  Type element;
  Value q, k, v; // [B, G, group·T, d], [B, G, S, d]
  Value scores;  // [B, H, T, S], scaled
  Value visible; // null: all pairs
  bool rowsMayBeEmpty;

  Value byGroup(Value x) {
    return b.reshape(b.transpose(x, {0, 2, 1, 3}),
                     {sizes.batch, sizes.keyHeads, sizes.group() * sizes.queries, sizes.width});
  }
  Value fromGroup(Value x) {
    return b.transpose(b.reshape(x, {sizes.batch, sizes.heads, sizes.queries, sizes.width}), {0, 2, 1, 3});
  }
  Value byHead(Value x) { return b.reshape(x, {sizes.batch, sizes.heads, sizes.queries, sizes.keys}); }
  Value byRows(Value x) {
    return b.reshape(x, {sizes.batch, sizes.keyHeads, sizes.group() * sizes.queries, sizes.keys});
  }
  Value gradientOfScores(Value p, Value groupedDOut, Value delta) {
    Value shift = b.broadcast(column(delta), tensorType(scores).getShape());
    return b.mul(p, groupedDOut ? b.sub(dropped(byHead(b.matmul(groupedDOut, v, false, true, b.f32()))), shift)
                                : b.neg(shift));
  }
  Value column(Value rows) { return b.reshape(rows, {sizes.batch, sizes.heads, sizes.queries, 1}); }
  Value dropped(Value x) { return dropout.rate > 0 ? dropOut(b, x, dropout) : x; }
  Value scaled(Value x) { return b.cast(b.mul(x, scale), element); }
  Value hide(Value x, double with) { return visible ? b.select(visible, x, b.constant(with, tensorType(x))) : x; }

  Value visiblePairs() {
    ArrayRef<int64_t> shape = tensorType(scores).getShape();
    Value last = b.iota(2, shape, b.i32()), key = b.iota(3, shape, b.i32());
    auto [firstBound, lastBound] = mask.bounds(sizes.queries, sizes.keys); // 32 bits hold these
    if (lastBound != 0)
      last = b.add(last, static_cast<double>(lastBound));
    Value seen = b.compare(Predicate::le, key, last);
    if (mask.window) {
      Value before = b.sub(last, static_cast<double>(lastBound - firstBound));
      seen = b.logicalAnd(seen, b.compare(Predicate::gt, key, before));
    }
    return seen;
  }
};

template <typename Op>
Expansion expansionOf(Emit &b, Op op) {
  return Expansion(b, op.getQ(), op.getK(), op.getV(), op.getBias(), op.getScale().convertToDouble(), sizesOf(op),
                   maskOf(op), dropoutOf(op));
}

} // namespace

Value attentionBias(Operation *op) {
  if (auto forward = dyn_cast<FlashAttentionOp>(op))
    return forward.getBias();
  if (auto backward = dyn_cast<FlashAttentionBackwardOp>(op))
    return backward.getBias();
  return cast<FlashAttentionPackedGradientOp>(op).getBias();
}

AttentionSizes attentionSizes(FlashAttentionOp op) {
  return sizesOf(op);
}
AttentionSizes attentionSizes(FlashAttentionBackwardOp op) {
  return sizesOf(op);
}
AttentionMask attentionMask(FlashAttentionOp op) {
  return maskOf(op);
}
AttentionMask attentionMask(FlashAttentionBackwardOp op) {
  return maskOf(op);
}
AttentionSizes attentionSizes(FlashAttentionPackedGradientOp op) {
  return sizesOf(op);
}
AttentionMask attentionMask(FlashAttentionPackedGradientOp op) {
  return maskOf(op);
}

//===- flash_attention -----------------------------------------------------------------------------------------===//

LogicalResult FlashAttentionOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                                 SmallVectorImpl<Type> &types) {
  if (failed(verifyOperands(loc, adaptor, "tcc.flash_attention")))
    return failure();
  RankedTensorType q = tensorType(adaptor.getQ());
  types.append({q, lseType(q)});
  return success();
}

SmallVector<Value> FlashAttentionOp::expand(Emit &b) {
  return expansionOf(b, *this).forward();
}

/// The rows' sums of dOut · out, [B, H, T].
static Value sumsOfProducts(Emit &b, Value dOut, Value out, AttentionSizes sizes) {
  Value products = b.mul(b.cast(dOut, b.f32()), b.cast(out, b.f32()));
  return b.transpose(b.reshape(b.reduceSum(products, {3}), {sizes.batch, sizes.queries, sizes.heads}), {0, 2, 1});
}

// The log-sum-exp's own gradient g has d lse / d scores = P, so it goes through materialised probabilities, as the
// bias's does: what models have in their losses is out alone, and their masks are constants.
SmallVector<Value> FlashAttentionOp::gradient(Emit &b, ValueRange dResults) {
  SmallVector<Value> shares;
  if (Value dOut = dResults[0]) {
    auto backward = FlashAttentionBackwardOp::create(
        b.builder, b.loc, getQ(), getK(), getV(), getOut(), getLse(), dOut, getBias(), getSeed(), getFirst(),
        getScaleAttr(), getDiagonalAttr(), getWindowAttr(), getRateAttr(), getStreamAttr());
    shares.assign(backward->result_begin(), backward->result_end());
  }
  shares.resize(getNumOperands()); // none to seed and first
  if (Value dLse = dResults[1]) {
    Expansion expansion = expansionOf(b, *this);
    SmallVector<Value> more = expansion.backward(expansion.probabilities(getLse()), Value(), b.neg(dLse));
    for (unsigned i : {0u, 1u})
      shares[i] = shares[i] ? b.add(shares[i], more[i]) : more[i];
  }
  if (getBias()) {
    Value delta = dResults[0] ? sumsOfProducts(b, dResults[0], getOut(), sizesOf(*this)) : Value();
    if (Value dLse = dResults[1])
      delta = delta ? b.sub(delta, dLse) : b.neg(dLse);
    Expansion expansion = expansionOf(b, *this);
    shares[3] = expansion.gradientOfBias(expansion.probabilities(getLse()), dResults[0], delta);
  }
  return shares;
}

/// Whether kernels can read the view [B, T, H, d]: heads lie densely along their last dim; other dims have strides of
/// their own, since q, k and v are taken out of one packed tensor. As in a dense tensor, each head starts at a multiple
/// of the largest power of two that divides d, up to 8 elements: kernels read vectors.
static bool isReadableAsHeads(const StridedView &view) {
  constexpr int64_t longestVector = 8;
  const int64_t width = view.sizes.back() | longestVector, alignment = width & -width;
  auto isReadable = [&](auto dim) {
    auto [size, stride] = dim;
    return size == 1 || (stride != 0 && stride % alignment == 0);
  };
  bool dense = view.sizes.back() == 1 || view.strides.back() == 1;
  return dense && view.offset % alignment == 0 &&
         llvm::all_of(llvm::drop_end(llvm::zip_equal(view.sizes, view.strides)), isReadable);
}

/// q, k, v, out and dOut are heads; the log-sum-exp is read as it was written, one number after another, and the bias
/// by rows of keys.
static SmallVector<StridedView, 2> viewsOfHeads(OperandRange operands, Value bias) {
  SmallVector<StridedView, 2> views;
  for (Value operand : operands) {
    if (tensorType(operand).getRank() == 0) { // of the dropout
      views.push_back(denseView(operand));
      continue;
    }
    StridedView view = stridedView(operand);
    if (operand == bias) {
      views.push_back(view.sizes.back() <= 1 || view.strides.back() == 1 ? view : denseView(operand));
      continue;
    }
    bool isHeads = tensorType(operand).getRank() == 4;
    bool readable = isHeads ? isReadableAsHeads(view) : isDense(view);
    views.push_back(readable ? view : denseView(operand));
  }
  return views;
}

SmallVector<StridedView, 2> FlashAttentionOp::operandViews(const ViewLimits &) {
  return viewsOfHeads(getOperands(), getBias());
}

SmallVector<StridedView, 2> FlashAttentionBackwardOp::operandViews(const ViewLimits &) {
  return viewsOfHeads(getOperands(), getBias());
}

int64_t FlashAttentionOp::flops() {
  AttentionSizes sizes = sizesOf(*this);
  return 4 * sizes.width * sizes.batch * sizes.heads * maskOf(*this).visiblePairs(sizes.queries, sizes.keys);
}

//===- flash_attention_backward --------------------------------------------------------------------------------===//

namespace {

/// What both forms of the gradient ask of their operands; `name` without the dialect's.
template <typename Adaptor>
LogicalResult verifyGradientOperands(std::optional<Location> loc, Adaptor adaptor, StringRef name) {
  if (failed(verifyOperands(loc, adaptor, ("tcc." + name).str())))
    return failure();
  RankedTensorType q = tensorType(adaptor.getQ());
  RankedTensorType out = tensorType(adaptor.getOut()), lse = tensorType(adaptor.getLse());
  if (out != q || tensorType(adaptor.getDOut()) != q || lse != lseType(q))
    return emitOptionalError(loc, "'tcc.", name, "' out is ", typeText(out), ", dOut ",
                             typeText(tensorType(adaptor.getDOut())), ", lse ", typeText(lse), " for q ", typeText(q),
                             "; out and dOut need q's type, lse f32 [B, H, T] (", name, "_c1)");
  return success();
}

template <typename Op>
int64_t gradientFlops(Op op) {
  AttentionSizes sizes = sizesOf(op);
  return 10 * sizes.width * sizes.batch * sizes.heads * maskOf(op).visiblePairs(sizes.queries, sizes.keys);
}

} // namespace

LogicalResult FlashAttentionBackwardOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                                         SmallVectorImpl<Type> &types) {
  if (failed(verifyGradientOperands(loc, adaptor, "flash_attention_backward")))
    return failure();
  Type q = adaptor.getQ().getType(), k = adaptor.getK().getType();
  types.append({q, k, k});
  return success();
}

SmallVector<Value> FlashAttentionBackwardOp::expand(Emit &b) {
  Expansion expansion = expansionOf(b, *this);
  Value delta = sumsOfProducts(b, getDOut(), getOut(), sizesOf(*this));
  return expansion.backward(expansion.probabilities(getLse()), getDOut(), delta);
}

SmallVector<Value> FlashAttentionBackwardOp::gradient(Emit &b, ValueRange dResults) {
  return gradientOfExpansion(b, *this, dResults);
}

void FlashAttentionOp::keepResultType() {} // out has q's type, whatever that is
void FlashAttentionBackwardOp::keepResultType() {}
void FlashAttentionPackedGradientOp::keepResultType() {}

bool FlashAttentionOp::narrows(unsigned operand) {
  return operand < 3; // q, k, v
}
bool FlashAttentionBackwardOp::narrows(unsigned operand) {
  Value value = getOperation()->getOperand(operand);
  return operand < 6 && value != getLse(); // q, k, v, out, dOut
}

int64_t FlashAttentionBackwardOp::flops() {
  return gradientFlops(*this);
}

//===- flash_attention_packed_gradient -------------------------------------------------------------------------===//

LogicalResult FlashAttentionPackedGradientOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc,
                                                               Adaptor adaptor, SmallVectorImpl<Type> &types) {
  StringRef name = "flash_attention_packed_gradient";
  if (failed(verifyGradientOperands(loc, adaptor, name)))
    return failure();
  RankedTensorType q = tensorType(adaptor.getQ()), k = tensorType(adaptor.getK());
  if (!sameSize(q.getDimSize(1), k.getDimSize(1)))
    return emitOptionalError(loc, "'tcc.", name, "' q is ", typeText(q), " and k ", typeText(k),
                             "; side by side their gradients need as many rows (", name, "_c2)");
  SmallVector<int64_t> shape(q.getShape());
  bool known = !ShapedType::isDynamic(shape[2]) && !ShapedType::isDynamic(k.getDimSize(2));
  shape[2] = known ? shape[2] + 2 * k.getDimSize(2) : ShapedType::kDynamic;
  types.push_back(RankedTensorType::get(shape, q.getElementType()));
  return success();
}

SmallVector<Value> FlashAttentionPackedGradientOp::expand(Emit &b) {
  auto parts = FlashAttentionBackwardOp::create(b.builder, b.loc, getQ(), getK(), getV(), getOut(), getLse(), getDOut(),
                                                getBias(), getSeed(), getFirst(), getScaleAttr(), getDiagonalAttr(),
                                                getWindowAttr(), getRateAttr(), getStreamAttr());
  return {b.create<ConcatOp>(parts->getResults(), 2)};
}

SmallVector<Value> FlashAttentionPackedGradientOp::gradient(Emit &b, ValueRange dResults) {
  return gradientOfExpansion(b, *this, dResults);
}

SmallVector<StridedView, 2> FlashAttentionPackedGradientOp::operandViews(const ViewLimits &) {
  return viewsOfHeads(getOperands(), getBias());
}

bool FlashAttentionPackedGradientOp::narrows(unsigned operand) {
  return operand < 6 && getOperation()->getOperand(operand) != getLse(); // q, k, v, out, dOut
}

int64_t FlashAttentionPackedGradientOp::flops() {
  return gradientFlops(*this);
}

} // namespace tcc
