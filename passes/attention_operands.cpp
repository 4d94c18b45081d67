// Operands of a matched attention, written as views of what the user has.
#include "passes/attention_operands.h"
#include "ir/emit.h"
#include "ir/ops/numbers.h"
#include <cmath>
#include <numeric>

using namespace mlir;

namespace tcc {
namespace {

/// A matrix of each head: [batch..., rows, d], or [batch..., d, rows].
struct HeadMatrices {
  Value value;
  bool swapped; // the width stands before the rows
};

HeadMatrices queriesOf(const AttentionPattern &pattern) {
  MatmulOp op = pattern.scores;
  return pattern.queriesAreLhs ? HeadMatrices{op.getA(), op.getTransposeA()}
                               : HeadMatrices{op.getB(), !op.getTransposeB()};
}
HeadMatrices keysOf(const AttentionPattern &pattern) {
  MatmulOp op = pattern.scores;
  return pattern.queriesAreLhs ? HeadMatrices{op.getB(), !op.getTransposeB()}
                               : HeadMatrices{op.getA(), op.getTransposeA()};
}
HeadMatrices valuesOf(const AttentionPattern &pattern) {
  MatmulOp op = pattern.mix;
  return pattern.probabilitiesAreLhs ? HeadMatrices{op.getB(), op.getTransposeB()}
                                     : HeadMatrices{op.getA(), !op.getTransposeA()};
}

bool isNamedByGradient(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) { return isa<GradientOp>(user); });
}

int64_t productOf(ArrayRef<int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
}

SmallVector<int64_t> swapOfLastDims(int64_t rank) {
  SmallVector<int64_t> permutation = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  std::swap(permutation[rank - 2], permutation[rank - 1]);
  return permutation;
}

/// How the batch dims of the matmuls are B and H. One dim is split where the queries were merged from two, so that
/// operands stay views of what they were merged from.
std::pair<int64_t, int64_t> batchAndHeads(const AttentionPattern &pattern) {
  Value q = queriesOf(pattern).value;
  ArrayRef<int64_t> batch = tensorType(q).getShape().drop_back(2);
  if (batch.empty())
    return {1, 1};
  if (batch.size() > 1)
    return {batch[0], productOf(batch.drop_front())};
  Axes axes;
  AxisLayout layout = axes.fresh(tensorType(q).getShape());
  AxisRun heads = layout[0];
  for (Operation *op = q.getDefiningOp(); isa_and_nonnull<ReshapeOp, TransposeOp>(op);
       op = op->getOperand(0).getDefiningOp()) {
    if (auto transpose = dyn_cast<TransposeOp>(op)) {
      layout = beforeTranspose(layout, transpose.getPermutation());
      continue;
    }
    std::optional<AxisLayout> before = axes.reshaped(layout, tensorType(op->getOperand(0)).getShape());
    if (!before)
      break;
    layout = *before;
  }
  AxisRun parts = axes.leaves(heads);
  int64_t first = parts.size() > 1 ? std::max<int64_t>(axes.size(parts[0]), 1) : 1;
  return {first, batch[0] / first};
}

/// [B, rows, H, d].
Value tokensFirst(Emit &emit, HeadMatrices x, std::pair<int64_t, int64_t> batch) {
  int64_t rank = tensorType(x.value).getRank();
  Value matrices = x.swapped ? emit.transpose(x.value, swapOfLastDims(rank)) : x.value;
  ArrayRef<int64_t> shape = tensorType(matrices).getShape();
  return emit.transpose(emit.reshape(matrices, {batch.first, batch.second, shape[rank - 2], shape[rank - 1]}),
                        {0, 2, 1, 3});
}

//===- repeated heads --------------------------------------------------------------------------------------------===//

/// Heads of which each stands for `times` neighbours: a value and its layout by the axes below.
struct RepeatedHeads {
  int64_t times = 1;
  Value value;
  AxisLayout layout;
  AxisRun order; // axes of B, rows, heads, d
};

/// What `broadcast` repeats, if that is the innermost part of the heads' axis and nothing else.
bool readBroadcast(BroadcastOp broadcast, const AxisLayout &layout, const Axes &axes, ArrayRef<AxisRun> dims,
                   RepeatedHeads &heads) {
  ArrayRef<int64_t> from = tensorType(broadcast.getX()).getShape(), to = tensorType(broadcast.getResult()).getShape();
  size_t leading = to.size() - from.size();
  AxisRun stretched;
  heads.layout.clear();
  for (size_t d = 0; d < to.size(); ++d) {
    bool isStretched = d < leading || from[d - leading] != to[d];
    if (isStretched)
      stretched.append(axes.leaves(layout[d]));
    if (d >= leading)
      heads.layout.push_back(isStretched ? AxisRun() : layout[d]);
  }
  AxisRun own = axes.leaves(dims[1]), repeated;
  while (!own.empty() && llvm::is_contained(stretched, own.back())) {
    repeated.push_back(own.pop_back_val());
    heads.times *= axes.size(repeated.back());
  }
  if (repeated.empty() || repeated.size() != stretched.size())
    return false;
  heads.value = broadcast.getX();
  for (const AxisRun &run : {axes.leaves(dims[0]), axes.leaves(dims[2]), own, axes.leaves(dims[3])})
    heads.order.append(run);
  return true;
}

/// The heads below the repetition for groups, as Llama writes it: a broadcast along a dim that is then merged with the
/// heads'. Values that a gradient is asked for are not passed over.
std::optional<RepeatedHeads> belowRepetition(Axes &axes, HeadMatrices x, std::pair<int64_t, int64_t> batch) {
  ArrayRef<int64_t> shape = tensorType(x.value).getShape();
  int64_t rows = shape[shape.size() - (x.swapped ? 1 : 2)], width = shape[shape.size() - (x.swapped ? 2 : 1)];
  AxisLayout dims = axes.fresh({batch.first, batch.second, rows, width});
  AxisLayout ordered = x.swapped ? afterTranspose(dims, {0, 1, 3, 2}) : dims;
  std::optional<AxisLayout> layout = axes.reshaped(ordered, shape);
  for (Value value = x.value; layout && !isNamedByGradient(value);) {
    Operation *op = value.getDefiningOp();
    if (auto broadcast = dyn_cast_or_null<BroadcastOp>(op)) {
      RepeatedHeads heads;
      return readBroadcast(broadcast, *layout, axes, dims, heads) ? std::optional(heads) : std::nullopt;
    }
    if (!isa_and_nonnull<ReshapeOp, TransposeOp>(op))
      return std::nullopt;
    value = op->getOperand(0);
    if (auto transpose = dyn_cast<TransposeOp>(op))
      layout = beforeTranspose(*layout, transpose.getPermutation());
    else
      layout = axes.reshaped(*layout, tensorType(value).getShape());
  }
  return std::nullopt;
}

/// [B, rows, H / times, d]: each axis a dim of its own, in order, and merged again.
Value tokensFirst(Emit &emit, const Axes &axes, const RepeatedHeads &heads, ArrayRef<int64_t> shape) {
  AxisRun have = axes.leaves(heads.layout);
  SmallVector<int64_t> sizes = llvm::map_to_vector(have, [&](unsigned axis) { return axes.size(axis); });
  SmallVector<int64_t> permutation = llvm::map_to_vector(
      heads.order, [&](unsigned axis) { return static_cast<int64_t>(llvm::find(have, axis) - have.begin()); });
  return emit.reshape(emit.transpose(emit.reshape(heads.value, sizes), permutation), shape);
}

/// Writes k and v below their repetition, if both have the same.
bool ungroup(Emit &emit, HeadMatrices k, HeadMatrices v, std::pair<int64_t, int64_t> batch,
             AttentionOperands &operands) {
  Axes axesOfK, axesOfV;
  std::optional<RepeatedHeads> keys = belowRepetition(axesOfK, k, batch);
  std::optional<RepeatedHeads> values = belowRepetition(axesOfV, v, batch);
  if (!keys || !values || keys->times != values->times || keys->times == 0)
    return false;
  ArrayRef<int64_t> shape = tensorType(k.value).getShape();
  int64_t width = shape[shape.size() - (k.swapped ? 2 : 1)], rows = shape[shape.size() - (k.swapped ? 1 : 2)];
  int64_t heads = batch.second / keys->times;
  operands.k = tokensFirst(emit, axesOfK, *keys, {batch.first, rows, heads, width});
  operands.v = tokensFirst(emit, axesOfV, *values, {batch.first, rows, heads, width});
  return true;
}

//===- factors of queries and keys -------------------------------------------------------------------------------===//

bool isPowerOfTwo(double value) {
  int exponent = 0;
  return std::abs(std::frexp(value, &exponent)) == 0.5;
}

/// x without a literal factor, which goes into `scale`: below the views on top, which are written again. 16-bit values
/// keep a factor that rounds.
Value withoutFactor(Emit &emit, LiteralRows &rows, Value x, double &scale) {
  SmallVector<Operation *> views;
  Operation *op = x.getDefiningOp();
  for (; isa_and_nonnull<ReshapeOp, TransposeOp>(op) && !isNamedByGradient(op->getResult(0));
       op = op->getOperand(0).getDefiningOp())
    views.push_back(op);
  if (!isa_and_nonnull<MulOp, DivOp>(op) || isNamedByGradient(op->getResult(0)))
    return x;
  unsigned literal = isa<DivOp>(op) || rows.isLiteral(op->getOperand(1)) ? 1 : 0;
  std::optional<double> factor = rows.uniform(op->getOperand(literal));
  bool isExact = factor && isPowerOfTwo(*factor);
  if (!factor || !(isExact || tensorType(x).getElementType().isF32()))
    return x;
  double joined = isa<MulOp>(op) ? scale * *factor : scale / *factor;
  if (!isFiniteF32(joined) || isNamedByGradient(op->getOperand(literal)))
    return x;
  scale = joined;
  Value result = op->getOperand(1 - literal);
  for (Operation *view : llvm::reverse(views)) {
    Operation *again = emit.builder.clone(*view);
    again->setOperand(0, result);
    result = again->getResult(0);
  }
  return result;
}

} // namespace

AttentionOperands attentionOperands(Emit &emit, LiteralRows &rows, const AttentionPattern &pattern) {
  std::pair<int64_t, int64_t> batch = batchAndHeads(pattern);
  HeadMatrices queries = queriesOf(pattern), keys = keysOf(pattern);
  double scale = pattern.scale;
  queries.value = withoutFactor(emit, rows, queries.value, scale);
  keys.value = withoutFactor(emit, rows, keys.value, scale);
  AttentionOperands operands;
  operands.scale = scale;
  operands.q = tokensFirst(emit, queries, batch);
  if (!ungroup(emit, keys, valuesOf(pattern), batch, operands)) {
    operands.k = tokensFirst(emit, keys, batch);
    operands.v = tokensFirst(emit, valuesOf(pattern), batch);
  }
  return operands;
}

Value mixOf(Emit &emit, const AttentionPattern &pattern, Value out) {
  MatmulOp mix = pattern.mix;
  RankedTensorType type = tensorType(mix.getResult());
  SmallVector<int64_t> shape(type.getShape());
  if (!pattern.probabilitiesAreLhs)
    std::swap(shape[shape.size() - 2], shape.back());
  Value mixed = emit.reshape(emit.transpose(out, {0, 2, 1, 3}), shape);
  return pattern.probabilitiesAreLhs ? mixed : emit.transpose(mixed, swapOfLastDims(type.getRank()));
}

} // namespace tcc
