// The matcher. It walks from the softmax in both directions, one op at a time, and refuses at the first op that it does
// not know; what it has passed is given up only if nothing else reads it.
#include "passes/attention_pattern.h"
#include "ir/ops/numbers.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace mlir;

namespace tcc {
namespace {

Type elementOf(Value value) {
  return tensorType(value).getElementType();
}

bool isWideOr16(Type element) {
  return element.isF32() || element.isBF16() || element.isF16();
}

std::string shownName(Operation *op) {
  return "'" + op->getName().getStringRef().str() + "'";
}

/// The operand of a reduction over one axis alone.
template <typename Reduction>
Value reducedAlong(Value value, int64_t axis) {
  auto op = value.getDefiningOp<Reduction>();
  return op && op.getAxes() == ArrayRef<int64_t>(axis) ? op.getX() : Value();
}

} // namespace

//===- the softmax -----------------------------------------------------------------------------------------------===//

/// The value that `value`, of type `full`, repeats along `axis`: `full`'s shape but for a 1 there.
Value AttentionMatcher::rowStatistic(Value value, RankedTensorType full, int64_t axis) {
  SmallVector<int64_t> wanted(full.getShape());
  wanted[axis] = 1;
  if (auto broadcast = value.getDefiningOp<BroadcastOp>()) {
    chain.insert(broadcast);
    value = broadcast.getX();
  }
  RankedTensorType type = tensorType(value);
  if (type.getRank() > full.getRank())
    return {};
  SmallVector<int64_t> aligned(full.getRank() - type.getRank(), 1);
  llvm::append_range(aligned, type.getShape());
  if (aligned != wanted)
    return {};
  return belowReshapes(value); // row-major order is kept, and so is the shape in the end
}

/// Without the reshapes on top; what the chain has of them is given up with it.
Value AttentionMatcher::belowReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>()) {
    chain.insert(reshape);
    value = reshape.getX();
  }
  return value;
}

/// Without a detach on top: a softmax does not depend on its maximum, so no gradient goes there.
Value AttentionMatcher::belowDetach(Value value) {
  auto detach = value.getDefiningOp<DetachOp>();
  if (!detach)
    return value;
  chain.insert(detach);
  return detach.getX();
}

/// What the exponentials are divided by, as a value of one number a row; null for anything but a quotient or a product
/// with a reciprocal.
Value AttentionMatcher::divisorOf(Operation *division, Value divisor, RankedTensorType type, int64_t axis) {
  if (isa<DivOp>(division))
    return rowStatistic(divisor, type, axis);
  auto reciprocal = divisor.getDefiningOp<DivOp>();
  bool ofRows = !reciprocal; // one reciprocal a row, else one an element
  if (ofRows)
    if (Value row = rowStatistic(divisor, type, axis))
      reciprocal = row.getDefiningOp<DivOp>();
  if (!reciprocal || rows.uniform(reciprocal.getLhs()) != 1)
    return {};
  chain.insert(reciprocal);
  return ofRows ? belowReshapes(reciprocal.getRhs()) : rowStatistic(reciprocal.getRhs(), type, axis);
}

bool AttentionMatcher::matchSoftmax(ExpOp e, Operation *division, Value &x, int64_t &axis) {
  Value divisor = division->getOperand(division->getOperand(0) == e ? 1 : 0);
  RankedTensorType type = tensorType(e);
  ReduceSumOp sum;
  for (Operation *user : e->getUsers())
    if (auto candidate = dyn_cast<ReduceSumOp>(user))
      sum = candidate;
  if (!sum || sum.getAxes().size() != 1)
    return refuse("a softmax over one dim is expected");
  axis = sum.getAxes()[0];
  if (!type.getElementType().isF32())
    return refuse("the softmax is computed in 16 bits; attention's is in f32");
  for (Operation *op : {division, e.getOperation(), sum.getOperation()})
    chain.insert(op);
  if (divisorOf(division, divisor, type, axis) != sum.getResult())
    return refuse("the exponentials are not divided by their own sum alone, as where a softmax has a sink");
  auto shift = e.getX().getDefiningOp<SubOp>();
  Value top = shift ? rowStatistic(belowDetach(shift.getRhs()), type, axis) : Value();
  if (top)
    top = belowReshapes(belowDetach(top));
  Value reduced = top ? reducedAlong<ReduceMaxOp>(top, axis) : Value();
  if (!reduced)
    return refuse("the row's maximum is not taken off before exp; attention would not overflow where this does");
  chain.insert(shift);
  chain.insert(top.getDefiningOp());
  x = shift.getLhs();
  return belowDetach(reduced) == x || refuse("what is taken off before exp is not the maximum of the same scores");
}

//===- from the softmax to the values ----------------------------------------------------------------------------===//

/// What drops out the value, if that is the value's one use.
static std::optional<Dropout> dropoutOf(Value value) {
  auto onlyUser = [](Value of) { return of.hasOneUse() ? *of.getUsers().begin() : nullptr; };
  auto scaled = dyn_cast_or_null<MulOp>(onlyUser(value));
  auto select = scaled ? dyn_cast_or_null<SelectOp>(onlyUser(scaled)) : SelectOp();
  std::optional<DroppedOut> found = select ? matchDropOut(select) : std::nullopt;
  return found && found->x == value ? std::optional(found->dropout) : std::nullopt;
}

/// Goes on with what the dropout leaves of the value.
bool AttentionMatcher::takeDropout(Value &value, const Dropout &dropout, const AxisLayout &layout) {
  if (pattern.dropout)
    return refuse("the probabilities are dropped out twice");
  pattern.dropout = dropout;
  dropLayout = layout;
  for (int i = 0; i < 2; ++i) { // the factor and the choice
    Operation *user = *value.getUsers().begin();
    chain.insert(user);
    value = user->getResult(0);
  }
  return true;
}

/// Random bits are by outer index, row and column: attention's are head, query and key.
bool AttentionMatcher::checkDropout() {
  if (!pattern.dropout)
    return true;
  AxisRun heads, ofFirst; // all leading dims; all but the first of them
  for (auto [dim, run] : llvm::enumerate(ArrayRef(dropLayout).drop_back(std::min<size_t>(2, dropLayout.size())))) {
    heads.append(axes.leaves(run));
    if (dim > 0)
      ofFirst.append(axes.leaves(run));
  }
  size_t rank = dropLayout.size();
  if (rank < 2 || heads != axes.leaves(roles.batch) ||
      axes.leaves(dropLayout[rank - 2]) != axes.leaves(roles.queries) ||
      axes.leaves(dropLayout[rank - 1]) != axes.leaves(roles.keys))
    return refuse("dropout is on transposed or reshaped probabilities, whose random bits belong to other coordinates "
                  "than head, query and key");
  if (pattern.dropout->first && rank == 2)
    return refuse("the dropout's `first` counts queries; a batch is expected");
  pattern.headsOfFirst = axes.size(ofFirst);
  return true;
}

bool AttentionMatcher::matchAfter(Value value, AxisLayout layout) {
  Type narrow; // of the cast that has taken place
  for (;;) {
    if (!value.hasOneUse()) {
      for (Operation *user : value.getUsers())
        if (isa<GradientOp>(user))
          return refuse("a gradient with respect to the probabilities is asked for");
      for (Operation *user : value.getUsers())
        if (isa<func::ReturnOp>(user))
          return refuse("the probabilities are returned");
      return refuse("the probabilities are used by several ops; the product with the values alone is expected");
    }
    Operation *user = *value.getUsers().begin();
    if (isa<func::ReturnOp>(user))
      return refuse("the probabilities are returned");
    if (auto product = dyn_cast<MatmulOp>(user)) {
      if (narrow && elementOf(value) != narrow)
        return refuse("the probabilities are rounded and then widened again");
      return matchMix(product, value, layout);
    }
    if (std::optional<Dropout> dropout = dropoutOf(value)) {
      if (!takeDropout(value, *dropout, layout))
        return false;
      continue;
    }
    chain.insert(user);
    if (auto cast = dyn_cast<CastOp>(user)) {
      Type to = elementOf(cast);
      if (narrow && to != narrow && !(to.isF32() && dropoutOf(cast))) // a dropout of 16 bits widens and rounds again
        return refuse("the probabilities are rounded and then widened again");
      if (!to.isF32())
        narrow = to;
    } else if (auto transpose = dyn_cast<TransposeOp>(user)) {
      layout = afterTranspose(layout, transpose.getPermutation());
    } else if (auto reshape = dyn_cast<ReshapeOp>(user)) {
      std::optional<AxisLayout> after = axes.reshaped(layout, tensorType(reshape).getShape());
      if (!after)
        return refuse("the probabilities are reshaped across their dims");
      layout = *after;
    } else {
      bool masks = isa<SelectOp>(user) || (isa<MulOp>(user) && llvm::any_of(user->getOperands(), [&](Value operand) {
                                             return operand != value && rows.isLiteral(operand);
                                           }));
      return refuse(masks ? "the probabilities are masked or scaled after the softmax"
                          : "the probabilities go through " + shownName(user) + " before they multiply the values");
    }
    value = user->getResult(0);
  }
}

bool AttentionMatcher::matchMix(MatmulOp op, Value probabilities, const AxisLayout &layout) {
  pattern.mix = mix = op;
  chain.insert(op);
  pattern.probabilitiesAreLhs = op.getA() == probabilities;
  if (op.getA() == op.getB())
    return refuse("the probabilities multiply themselves");
  if (tensorType(op.getA()).getRank() != tensorType(op.getB()).getRank())
    return refuse("one matrix stands for the values or probabilities of all heads");
  size_t rank = layout.size();
  bool isLhs = pattern.probabilitiesAreLhs, transposed = isLhs ? op.getTransposeA() : op.getTransposeB();
  size_t contracted = isLhs != transposed ? rank - 1 : rank - 2, kept = isLhs != transposed ? rank - 2 : rank - 1;
  if (axes.leaves(layout[contracted]) != axes.leaves(roles.keys))
    return refuse("the softmax runs over another dim than the product with the values; over the keys is expected");
  roles.keys = axes.leaves(roles.keys);
  roles.queries = layout[kept];
  roles.batch.clear();
  for (const AxisRun &run : ArrayRef(layout).drop_back(2))
    roles.batch.append(run);
  return true;
}

//===- from the softmax to q·kᵀ ----------------------------------------------------------------------------------===//

bool AttentionMatcher::addSelect(SelectOp op, const AxisLayout &layout, Value &next) {
  if (matchDropOut(op))
    return refuse("scores are dropped out; attention drops probabilities");
  if (!rows.isLiteral(op.getCondition()))
    return refuse("the mask is data; one computed from iota, comparisons and literals is expected");
  bool keepsTrue = rows.isLiteral(op.getOnFalse());
  Value fill = keepsTrue ? op.getOnFalse() : op.getOnTrue();
  next = keepsTrue ? op.getOnTrue() : op.getOnFalse();
  std::optional<double> number = rows.uniform(fill);
  if (!number)
    return refuse("masked scores become no one number; a literal is expected");
  steps.push_back({MaskStep::Kind::select, op, op.getCondition(), keepsTrue, *number, pattern.scale, layout});
  return true;
}

/// One op of arithmetic with a literal: a scale, or a step of a mask. `next` is the operand that scores come by.
bool AttentionMatcher::addLiteralStep(Operation *op, const AxisLayout &layout, Value &next) {
  unsigned literal = rows.isLiteral(op->getOperand(1)) ? 1 : 0;
  Value number = op->getOperand(literal);
  next = op->getOperand(1 - literal);
  bool isProduct = isa<MulOp, DivOp>(op);
  if (!rows.isLiteral(number))
    return refuse(isProduct ? "scores are multiplied or divided by data, as by a learned scale; a literal is expected"
                            : "a bias or mask that is data is added to the scores; one computed from iota, comparisons "
                              "and literals is expected");
  if (literal == 0 && isa<DivOp, SubOp>(op))
    return refuse("scores are taken off a literal or divide one");
  if (!isProduct) {
    double sign = isa<SubOp>(op) ? -1 : 1;
    steps.push_back({MaskStep::Kind::add, op, number, true, 0, sign * pattern.scale, layout});
    return true;
  }
  if (std::optional<double> scale = rows.uniform(number)) {
    pattern.scale = isa<MulOp>(op) ? pattern.scale * *scale : pattern.scale / *scale;
    return isFiniteF32(pattern.scale) || refuse("the scale is not finite in f32");
  }
  if (isa<DivOp>(op))
    return refuse("scores are divided by several numbers, as by a scale for each head; one is expected");
  steps.push_back({MaskStep::Kind::multiply, op, number, true, 0, pattern.scale, layout});
  return true;
}

bool AttentionMatcher::matchBefore(Value value, AxisLayout layout) {
  for (;;) {
    Operation *op = value.getDefiningOp();
    if (!op)
      return refuse("the scores are an argument; a product of queries and keys is expected");
    chain.insert(op);
    Value next = op->getNumOperands() > 0 ? op->getOperand(0) : Value();
    if (auto product = dyn_cast<MatmulOp>(op))
      return matchScores(product, layout, roles.keys);
    if (isa<CastOp>(op)) {
      if (!isWideOr16(elementOf(next)))
        return refuse("scores are rounded to 8 bits");
    } else if (auto transpose = dyn_cast<TransposeOp>(op)) {
      layout = beforeTranspose(layout, transpose.getPermutation());
    } else if (isa<ReshapeOp>(op)) {
      std::optional<AxisLayout> before = axes.reshaped(layout, tensorType(next).getShape());
      if (!before)
        return refuse("the scores are reshaped across their dims");
      layout = *before;
    } else if (isa<NegOp>(op)) {
      pattern.scale = -pattern.scale;
    } else if (auto select = dyn_cast<SelectOp>(op)) {
      if (!addSelect(select, layout, next))
        return false;
    } else if (op->getNumOperands() == 2 && (isa<AddOp, SubOp>(op) || isa<MulOp, DivOp>(op))) {
      if (!addLiteralStep(op, layout, next))
        return false;
    } else {
      return refuse("the scores go through " + shownName(op) +
                    "; scale, mask, casts and views alone are expected between q·kᵀ and the softmax");
    }
    value = next;
  }
}

bool AttentionMatcher::matchScores(MatmulOp op, const AxisLayout &layout, const AxisRun &keys) {
  pattern.scores = op;
  if (tensorType(op.getA()).getRank() != tensorType(op.getB()).getRank())
    return refuse("one matrix stands for the queries or keys of all heads");
  size_t rank = layout.size();
  AxisRun last = axes.leaves(layout[rank - 1]), second = axes.leaves(layout[rank - 2]);
  AxisRun queries = axes.leaves(roles.queries);
  if (last == axes.leaves(keys) && second == queries)
    pattern.queriesAreLhs = true;
  else if (second == axes.leaves(keys) && last == queries)
    pattern.queriesAreLhs = false;
  else
    return refuse("the rows and columns of q·kᵀ are not the queries and keys of the softmax");
  AxisRun batch;
  for (const AxisRun &run : ArrayRef(layout).drop_back(2))
    batch.append(axes.leaves(run));
  return batch == axes.leaves(roles.batch) ||
         refuse("q·kᵀ and the product with the values have their heads in another order");
}

//===- the whole -------------------------------------------------------------------------------------------------===//

bool AttentionMatcher::checkSizes() {
  MatmulOp scores = pattern.scores;
  Type element = elementOf(scores.getA());
  if (!isWideOr16(elementOf(scores.getResult())))
    return refuse("scores are rounded to 8 bits");
  Value values = pattern.probabilitiesAreLhs ? mix.getB() : mix.getA();
  if (elementOf(values) != element || elementOf(mix.getResult()) != element)
    return refuse("queries, keys, values and the result have not one element type");
  auto widthOf = [](Value value, bool second) { return *(tensorType(value).getShape().rbegin() + (second ? 1 : 0)); };
  int64_t width = widthOf(scores.getA(), scores.getTransposeA());
  int64_t ofValues =
      pattern.probabilitiesAreLhs ? widthOf(values, mix.getTransposeB()) : widthOf(values, !mix.getTransposeA());
  if (width != ofValues)
    return refuse(llvm::formatv("values have width {0} and keys {1}; equal ones are expected", ofValues, width));
  return true;
}

/// Everything between q·kᵀ and the values is given up, so nothing else may read it, nor may a gradient name it.
bool AttentionMatcher::checkUses() {
  for (Operation *op : chain)
    for (Operation *user : op->getResult(0).getUsers()) {
      if (op == mix || chain.contains(user))
        continue;
      if (isa<GradientOp>(user))
        return refuse("a gradient with respect to the result of " + shownName(op) +
                      ", scores or probabilities, is asked "
                      "for");
      return refuse("the result of " + shownName(op) + ", scores or probabilities, is used by " + shownName(user) +
                    " too");
    }
  SmallVector<Value> work; // masks and scales: constants to every gradient but one that names them
  for (Operation *op : chain)
    if (op != pattern.scores && op != mix)
      llvm::append_range(work, op->getOperands());
  DenseSet<Value> seen;
  while (!work.empty()) {
    Value value = work.pop_back_val();
    if (!rows.isLiteral(value) || !seen.insert(value).second)
      continue;
    if (llvm::any_of(value.getUsers(), [](Operation *user) { return isa<GradientOp>(user); }))
      return refuse("a gradient with respect to the mask or scale is asked for");
    llvm::append_range(work, value.getDefiningOp()->getOperands());
  }
  return true;
}

std::optional<AttentionPattern> AttentionMatcher::match(ExpOp e, Operation *division) {
  RankedTensorType type = tensorType(division->getResult(0));
  Value x;
  int64_t axis = 0;
  if (type.getRank() < 2 || type.getNumElements() == 0) {
    why = "scores of at least one query and one key are expected";
    return std::nullopt;
  }
  if (!matchSoftmax(e, division, x, axis))
    return std::nullopt;
  AxisLayout layout = axes.fresh(type.getShape());
  roles.keys = layout[axis];
  if (!matchAfter(division->getResult(0), layout) || !matchBefore(x, layout) || !checkDropout() || !checkSizes() ||
      !checkUses())
    return std::nullopt;
  for (AxisRun *run : {&roles.batch, &roles.queries, &roles.keys})
    *run = axes.leaves(*run);
  std::optional<AttentionMask> mask = masks.read(steps, axes, roles, pattern.scale, maskAt, why);
  if (!mask)
    return std::nullopt;
  pattern.mask = *mask;
  return pattern;
}

//===- what is near to attention ---------------------------------------------------------------------------------===//

namespace {

constexpr size_t fewOps = 64;

bool reaches(Value from, llvm::function_ref<void(Value, SmallVectorImpl<Operation *> &)> neighbours) {
  llvm::SetVector<Operation *> seen;
  SmallVector<Operation *> next;
  neighbours(from, next);
  seen.insert(next.begin(), next.end());
  for (size_t i = 0; i < seen.size() && i < fewOps; ++i) {
    if (isa<MatmulOp>(seen[i]))
      return true;
    if (seen[i]->getNumResults() != 1)
      continue;
    next.clear();
    neighbours(seen[i]->getResult(0), next);
    seen.insert(next.begin(), next.end());
  }
  return false;
}

} // namespace

bool dependsOnProduct(Value value) {
  return reaches(value, [](Value at, SmallVectorImpl<Operation *> &next) {
    SmallVector<Value> operands = {at};
    if (Operation *op = at.getDefiningOp())
      for (Value operand : op->getOperands())
        operands.push_back(operand);
    for (Value operand : operands)
      if (Operation *op = operand.getDefiningOp())
        next.push_back(op);
  });
}

bool feedsProduct(Value value) {
  return reaches(value, [](Value at, SmallVectorImpl<Operation *> &next) { llvm::append_range(next, at.getUsers()); });
}

} // namespace tcc
