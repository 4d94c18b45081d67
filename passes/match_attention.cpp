// match-attention: attention that is written by hand becomes tcc.flash_attention, which keeps no value of queries ×
// keys in memory, and whose gradient does not either.
//   1. each division of exponentials by their sum is taken for the softmax of an attention, and what stands around it
//      is read op by op (attention_pattern.h); its mask is evaluated element by element (attention_mask.h);
//   2. key heads that were repeated for groups are read below the repetition, and factors of queries and keys join the
//      scale (attention_operands.h);
//   3. flash_attention takes the place of the matmul with the values, if the target has kernels for it and for its
//      gradient; -fmatch-attention takes it without, and expand-unsupported writes it out again;
//   4. what nothing reads any more is removed.
// It runs on primitives, so that a softmax by name is one more spelling, and before autodiff, so that the
// gradient is attention's too. Three things may change and no other: a NaN or infinity among keys that a mask hides may
// vanish, scores may no longer be rounded to 16 bits, and what is differentiated twice keeps its form. Each refusal is
// a remark.
#include "ir/emit.h"
#include "passes/attention_operands.h"
#include "passes/attention_pattern.h"
#include "passes/dead_ops.h"
#include "passes/narrow_type.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace tcc {
namespace {

struct Candidate {
  ExpOp exponentials;
  Operation *division;
};

/// Exponentials that are summed and divided (or multiplied, by a reciprocal): each a softmax, perhaps.
SmallVector<Candidate> candidatesOf(func::FuncOp function) {
  SmallVector<Candidate> candidates;
  for (ExpOp e : function.getBody().front().getOps<ExpOp>()) {
    Operation *division = nullptr;
    bool summed = false;
    for (Operation *user : e->getUsers()) {
      summed |= isa<ReduceSumOp>(user);
      if (isa<MulOp>(user) || (isa<DivOp>(user) && user->getOperand(0) == e))
        division = user;
    }
    if (summed && division)
      candidates.push_back({e, division});
  }
  return candidates;
}

/// How exponentials that are no candidate make a softmax all the same, and what is expected; empty where they make
/// none.
std::string otherSpelling(ExpOp e) {
  const auto sums = llvm::count_if(e->getUsers(), [](Operation *user) { return isa<ReduceSumOp>(user); });
  if (sums > 0 && sums < std::distance(e->user_begin(), e->user_end()))
    return "the product with the values is divided by the sum of the exponentials; a division before the product is "
           "expected";
  auto shift = e.getX().getDefiningOp<SubOp>();
  Operation *taken = shift ? shift.getRhs().getDefiningOp() : nullptr;
  while (isa_and_nonnull<BroadcastOp, ReshapeOp, DetachOp>(taken))
    taken = taken->getOperand(0).getDefiningOp();
  auto isLogOfSum = [](Operation *op) {
    auto log = dyn_cast_or_null<LogOp>(op);
    return log && log.getX().getDefiningOp<ReduceSumOp>();
  };
  const bool isSoftmax =
      isLogOfSum(taken) || (isa_and_nonnull<AddOp>(taken) &&
                            llvm::any_of(taken->getOperands(), [&](Value v) { return isLogOfSum(v.getDefiningOp()); }));
  return isSoftmax ? "its softmax is exp(x - logsumexp(x)); exp(x - max) / sum is expected" : "";
}

/// The ops that a gradient of a gradient differentiates twice: flash_attention's gradient has none of its own.
DenseSet<Operation *> differentiatedTwice(func::FuncOp function) {
  DenseSet<Operation *> twice;
  SmallVector<GradientOp> gradients(function.getBody().front().getOps<GradientOp>());
  for (GradientOp inner : gradients) {
    DenseSet<Operation *> dependent = {inner};
    bool isInner = false;
    for (Operation *op = inner->getNextNode(); op; op = op->getNextNode())
      if (llvm::any_of(op->getOperands(), [&](Value v) { return dependent.contains(v.getDefiningOp()); })) {
        dependent.insert(op);
        isInner |= isa<GradientOp>(op);
      }
    SmallVector<Operation *> work = {isInner ? inner.getOperation() : nullptr};
    while (!work.empty())
      if (Operation *op = work.pop_back_val(); op && twice.insert(op).second)
        for (Value operand : op->getOperands())
          work.push_back(operand.getDefiningOp());
  }
  return twice;
}

class MatchAttention {
  static constexpr llvm::StringLiteral passName = "match-attention";

public:
  MatchAttention(func::FuncOp function, const PipelineOptions &options)
      : function(function), options(options), twice(differentiatedTwice(function)) {
    auto given = options.passes.find(passName.str());
    force = given != options.passes.end() && given->second;
    isDifferentiated = !function.getBody().front().getOps<GradientOp>().empty();
  }

  void run() {
    bool changed = false;
    DenseSet<Operation *> seen;
    for (Candidate candidate : candidatesOf(function)) {
      seen.insert(candidate.exponentials);
      AttentionMatcher matcher(rows, masks);
      std::optional<AttentionPattern> pattern = matcher.match(candidate.exponentials, candidate.division);
      Operation *at = matcher.mix ? matcher.mix.getOperation() : candidate.division;
      if (!pattern) {
        if (dependsOnProduct(candidate.exponentials.getX()) && feedsProduct(candidate.division->getResult(0)))
          miss(at, matcher.why);
      } else if (twice.contains(pattern->mix)) {
        miss(at, "it is differentiated twice");
      } else {
        changed |= replace(*pattern);
      }
    }
    for (ExpOp e : function.getBody().front().getOps<ExpOp>())
      if (std::string why = otherSpelling(e);
          !why.empty() && !seen.contains(e) && dependsOnProduct(e.getX()) && feedsProduct(e.getResult()))
        miss(e, why);
    // Only now: the values of removed ops must not come back as others' while literals are remembered by value.
    if (changed)
      eraseDeadOps(function);
  }

private:
  func::FuncOp function;
  const PipelineOptions &options;
  LiteralRows rows;
  MaskReader masks{rows};
  DenseSet<Operation *> twice;
  bool force = false, isDifferentiated = false;

  void tell(Remark::Kind kind, Location loc, std::string text, int64_t bytes = 0) {
    if (options.remarks)
      options.remarks->push_back({kind, passName.str(), loc, std::move(text), bytes});
  }
  void miss(Operation *at, const std::string &why) {
    tell(Remark::Kind::missed, at->getLoc(), "attention stays as it is written: " + why);
  }

  /// The op on operands of another element type.
  FlashAttentionOp withElements(OpBuilder &builder, FlashAttentionOp op, Type element, SmallVector<Operation *> &made) {
    SmallVector<Value> operands;
    for (Value operand : {op.getQ(), op.getK(), op.getV()}) {
      made.push_back(CastOp::create(builder, op.getLoc(), withElement(tensorType(operand), element), operand));
      operands.push_back(made.back()->getResult(0));
    }
    auto other = FlashAttentionOp::create(builder, op.getLoc(), operands[0], operands[1], operands[2], op.getBias(),
                                          op.getSeed(), op.getFirst(), op.getScaleAttr(), op.getDiagonalAttr(),
                                          op.getWindowAttr(), op.getRateAttr(), op.getStreamAttr());
    made.push_back(other);
    return other;
  }

  /// Whether the target runs the op, as autocast will make it, and, where gradients are taken, its gradient.
  bool hasKernels(OpBuilder &builder, FlashAttentionOp op) {
    if (!options.queries)
      return false;
    SmallVector<Operation *> made;
    Type narrow = narrowType(options.products, function.getContext());
    if (narrow && tensorType(op.getQ()).getElementType().isF32())
      op = withElements(builder, op, narrow, made);
    bool has = options.queries->hasKernel(op);
    if (has && isDifferentiated) {
      made.push_back(FlashAttentionBackwardOp::create(builder, op.getLoc(), op.getQ(), op.getK(), op.getV(),
                                                      op.getOut(), op.getLse(), op.getOut(), op.getBias(), op.getSeed(),
                                                      op.getFirst(), op.getScaleAttr(), op.getDiagonalAttr(),
                                                      op.getWindowAttr(), op.getRateAttr(), op.getStreamAttr()));
      has = options.queries->hasKernel(made.back());
    }
    for (Operation *probe : llvm::reverse(made))
      probe->erase();
    return has;
  }

  bool replace(const AttentionPattern &pattern) {
    Operation *before = pattern.mix->getPrevNode();
    OpBuilder builder(pattern.mix);
    Emit emit(builder, pattern.mix->getLoc());
    AttentionOperands operands = attentionOperands(emit, rows, pattern);
    auto number = [&](std::optional<int64_t> value) {
      return value ? builder.getI64IntegerAttr(*value) : IntegerAttr();
    };
    const Dropout dropout = pattern.dropout.value_or(Dropout());
    auto op = FlashAttentionOp::create(
        builder, emit.loc, operands.q, operands.k, operands.v, Value(), dropout.seed, dropout.first,
        builder.getF64FloatAttr(operands.scale), number(pattern.mask.diagonal), number(pattern.mask.window),
        dropout.seed ? builder.getF64FloatAttr(dropout.rate) : FloatAttr(),
        dropout.seed ? builder.getI64IntegerAttr(static_cast<int64_t>(dropout.stream)) : IntegerAttr());
    AttentionSizes sizes = attentionSizes(op);
    std::string why;
    if (dropout.first && pattern.headsOfFirst != sizes.heads)
      why = "the dropout's `first` counts other rows than those of the batch";
    else if (!force && !hasKernels(builder, op))
      why = "target '" + options.target.name + "' has no kernels for this case";
    if (!why.empty()) {
      while (pattern.mix->getPrevNode() != before)
        pattern.mix->getPrevNode()->erase();
      miss(pattern.mix, why);
      return false;
    }
    int64_t elements = sizes.batch * sizes.heads * sizes.queries * sizes.keys;
    int64_t bytes = 2 * elements * tensorType(op.getQ()).getElementTypeBitWidth() / 8; // written once and read once
    tell(Remark::Kind::passed, op.getLoc(), describe(sizes, pattern), bytes);
    pattern.mix->replaceAllUsesWith(ValueRange(mixOf(emit, pattern, op.getOut())));
    return true;
  }

  static std::string describe(const AttentionSizes &sizes, const AttentionPattern &pattern) {
    const AttentionMask &mask = pattern.mask;
    std::string text = llvm::formatv("attention of {0} heads of width {1}, {2} queries and {3} keys", sizes.heads,
                                     sizes.width, sizes.queries, sizes.keys);
    if (sizes.keyHeads != sizes.heads)
      text += llvm::formatv(", {0} key heads", sizes.keyHeads);
    if (mask.diagonal)
      text += llvm::formatv(", diagonal {0}", *mask.diagonal);
    if (mask.window)
      text += llvm::formatv(", window {0}", *mask.window);
    if (pattern.dropout)
      text += llvm::formatv(", dropout {0:f2}", pattern.dropout->rate);
    return text + "; its probabilities need no memory";
  }
};

} // namespace

LogicalResult matchAttention(func::FuncOp function, const PipelineOptions &options) {
  MatchAttention(function, options).run();
  return success();
}

} // namespace tcc
