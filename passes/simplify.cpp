// simplify: folding, algebra, common subexpressions and dead code, until nothing changes.
// Each rule is exact for NaN, infinities and signed zeros, or moves a sum or writes a small power as products: those
// may change by rounding. Sums are moved in f32 alone: a 16-bit one would overflow or lose its small terms. None is
// moved among the ops whose bits must be those of other functions (stages.h): what stands before a sum depends on where
// such a function begins. Never: splitting a difference whose halves may cancel, approximations, literals that are no
// splat and over 1 KiB, CSE across kernels.
#include "ir/emit.h"
#include "ir/known_traits.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/bodies.h"
#include "passes/dead_ops.h"
#include "passes/known_computations.h"
#include "passes/passes.h"
#include "passes/stages.h"

using namespace mlir;

namespace tcc {
namespace {

bool isF32(Value value) {
  return tensorType(value).getElementType().isF32();
}

bool isZero(Value value) {
  auto literal = value.getDefiningOp<ConstantOp>();
  if (!literal || !literal.getValue().isSplat() || !isa<FloatType>(literal.getValue().getElementType()))
    return false;
  return literal.getValue().getSplatValue<APFloat>().isZero();
}

/// The value that `x` repeats along all of `axes`, in the shape that a sum over them has; null if x does not.
Value invariantAlong(Value x, ArrayRef<int64_t> axes, PatternRewriter &rewriter, bool build) {
  auto broadcast = x.getDefiningOp<BroadcastOp>();
  if (!broadcast)
    return {};
  RankedTensorType from = tensorType(broadcast.getX()), to = tensorType(x);
  int64_t leading = to.getRank() - from.getRank();
  SmallVector<int64_t> shape(to.getShape());
  for (int64_t axis : axes) {
    if (axis >= leading && from.getDimSize(axis - leading) != 1)
      return {};
    shape[axis] = 1;
  }
  if (!build)
    return x;
  Emit emit(rewriter, x.getLoc());
  SmallVector<int64_t> aligned(leading, 1);
  llvm::append_range(aligned, from.getShape());
  return emit.broadcast(emit.reshape(broadcast.getX(), aligned), shape);
}

double countAlong(Value x, ArrayRef<int64_t> axes) {
  double count = 1;
  for (int64_t axis : axes)
    count *= tensorType(x).getDimSize(axis);
  return count;
}

/// sum(x · row) = sum(x) · row, sum(x / row) = sum(x) / row: factors that the sum does not run over move out.
struct MoveFactorOutOfSum : OpRewritePattern<ReduceSumOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReduceSumOp sum, PatternRewriter &rewriter) const override {
    Operation *op = sum.getX().getDefiningOp();
    if (!isa_and_nonnull<MulOp, DivOp>(op) || !isF32(sum.getX()))
      return rewriter.notifyMatchFailure(sum, "expected an f32 sum of products or quotients");
    if (tensorType(sum.getX()).getNumElements() == 0)
      return rewriter.notifyMatchFailure(sum, "expected a sum of some elements; 0 times an infinite factor is no 0");
    unsigned last = isa<MulOp>(op) ? 2 : 1;
    for (unsigned kept = 0; kept < last; ++kept) {
      Value factor = op->getOperand(1 - kept);
      if (!invariantAlong(factor, sum.getAxes(), rewriter, false))
        continue;
      Value inner = ReduceSumOp::create(rewriter, sum.getLoc(), op->getOperand(kept), sum.getAxes());
      Value row = invariantAlong(factor, sum.getAxes(), rewriter, true);
      if (isa<MulOp>(op))
        rewriter.replaceOpWithNewOp<MulOp>(sum, inner, row);
      else
        rewriter.replaceOpWithNewOp<DivOp>(sum, inner, row);
      return success();
    }
    return rewriter.notifyMatchFailure(sum, "expected a factor that is equal along the summed axes");
  }
};

/// True if a factor moves out of the sum of x, or of each part of x.
bool hasFactor(Value x, ArrayRef<int64_t> axes, PatternRewriter &rewriter, int depth = 0) {
  constexpr int deepest = 8;
  Operation *op = x.getDefiningOp();
  if (isa_and_nonnull<AddOp, SubOp>(op))
    return depth < deepest &&
           llvm::all_of(op->getOperands(), [&](Value part) { return hasFactor(part, axes, rewriter, depth + 1); });
  return isa_and_nonnull<MulOp>(op) && llvm::any_of(op->getOperands(), [&](Value operand) {
           return bool(invariantAlong(operand, axes, rewriter, false));
         });
}

/// sum(a·r ± b·s) = sum(a)·r ± sum(b)·s where both factors r and s move out, so that sums of one row share a stage, as
/// in the gradients of norms. Not sum(x ± r): where x is near r, the parts are large and their difference small.
struct SplitSum : OpRewritePattern<ReduceSumOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReduceSumOp sum, PatternRewriter &rewriter) const override {
    Operation *op = sum.getX().getDefiningOp();
    if (!isa_and_nonnull<AddOp, SubOp>(op) || !isF32(sum.getX()))
      return rewriter.notifyMatchFailure(sum, "expected an f32 sum of sums");
    auto haveFactors = [&](OperandRange parts) {
      return llvm::all_of(parts, [&](Value part) { return hasFactor(part, sum.getAxes(), rewriter); });
    };
    if (!haveFactors(op->getOperands()))
      return rewriter.notifyMatchFailure(sum, "expected two parts with factors that are equal along the summed axes");
    Value a = ReduceSumOp::create(rewriter, sum.getLoc(), op->getOperand(0), sum.getAxes());
    Value b = ReduceSumOp::create(rewriter, sum.getLoc(), op->getOperand(1), sum.getAxes());
    if (isa<AddOp>(op))
      rewriter.replaceOpWithNewOp<AddOp>(sum, a, b);
    else
      rewriter.replaceOpWithNewOp<SubOp>(sum, a, b);
    return success();
  }
};

/// sum of a value repeated along the axes = the value · count.
struct SumOfBroadcast : OpRewritePattern<ReduceSumOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReduceSumOp sum, PatternRewriter &rewriter) const override {
    if (!isF32(sum.getX()))
      return rewriter.notifyMatchFailure(sum, "expected f32");
    double count = countAlong(sum.getX(), sum.getAxes());
    Value row = count > 0 ? invariantAlong(sum.getX(), sum.getAxes(), rewriter, true) : Value();
    if (!row)
      return rewriter.notifyMatchFailure(sum, "expected a value that is equal along the summed axes");
    Emit emit(rewriter, sum.getLoc());
    rewriter.replaceOp(sum, emit.mul(row, count));
    return success();
  }
};

/// The sum of the deviations from the mean is 0, which f32 misses by its rounding alone: with m the mean of n elements,
/// sum(x - m) = sum(x) - n · m = 0. Where the mean is not finite, the sum is NaN: infinity - infinity, or NaN, is among
/// the deviations. So sum(x - m) = 0 · m, as in the gradient of a norm by each row's mean.
struct SumOfDeviations : OpRewritePattern<ReduceSumOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReduceSumOp sum, PatternRewriter &rewriter) const override {
    auto deviation = sum.getX().getDefiningOp<SubOp>();
    if (!deviation || !isF32(sum.getX()))
      return rewriter.notifyMatchFailure(sum, "expected an f32 sum of differences");
    auto repeated = deviation.getRhs().getDefiningOp<BroadcastOp>();
    auto mean = repeated ? repeated.getX().getDefiningOp<DivOp>() : DivOp();
    auto total = mean ? mean.getLhs().getDefiningOp<ReduceSumOp>() : ReduceSumOp();
    if (!total || total.getX() != deviation.getLhs() || total.getAxes() != sum.getAxes())
      return rewriter.notifyMatchFailure(sum, "expected differences to the mean of the same elements");
    double count = countAlong(sum.getX(), sum.getAxes());
    auto divisor = mean.getRhs().getDefiningOp<ConstantOp>();
    if (!divisor || !divisor.getValue().isSplat() ||
        cast<DenseElementsAttr>(divisor.getValue()).getSplatValue<APFloat>().convertToDouble() != count)
      return rewriter.notifyMatchFailure(sum, "expected the sum divided by the number of its elements");
    Emit emit(rewriter, sum.getLoc());
    rewriter.replaceOp(sum, emit.mul(mean, 0));
    return success();
  }
};

/// broadcast(r) · c = broadcast(r · c) for a literal c: once a row.
struct LiteralTimesBroadcast : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp mul, PatternRewriter &rewriter) const override {
    for (unsigned side = 0; side < 2; ++side) {
      auto repeated = mul->getOperand(side).getDefiningOp<BroadcastOp>();
      auto literal = mul->getOperand(1 - side).getDefiningOp<ConstantOp>();
      if (!repeated || !literal || !literal.getValue().isSplat() ||
          tensorType(repeated.getX()).getNumElements() >= tensorType(mul.getResult()).getNumElements())
        continue;
      Attribute element = cast<DenseElementsAttr>(literal.getValue()).getSplatValue<Attribute>();
      Value once =
          ConstantOp::create(rewriter, literal.getLoc(), DenseElementsAttr::get(tensorType(repeated.getX()), element));
      Value scaled = MulOp::create(rewriter, mul.getLoc(), repeated.getX(), once);
      rewriter.replaceOpWithNewOp<BroadcastOp>(mul, mul.getType(), scaled, Value());
      return success();
    }
    return rewriter.notifyMatchFailure(mul, "expected a literal times a repeated value");
  }
};

/// Whether `x` is a matrix times its own transpose, or such a matrix in another type.
bool isSymmetric(Value x) {
  while (auto cast = x.getDefiningOp<CastOp>())
    x = cast.getX();
  auto product = x.getDefiningOp<MatmulOp>();
  return product && product.getA() == product.getB() && product.getTransposeA() != product.getTransposeB() &&
         !product.hasEpilogue();
}

/// s · s = s · sᵀ for a symmetric s, as in Muon's iteration: such a product is symmetric too, of which a library may
/// compute half.
struct SquareOfSymmetric : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp product, PatternRewriter &rewriter) const override {
    if (product.getA() != product.getB() || product.getTransposeA() != product.getTransposeB() ||
        !isSymmetric(product.getA()))
      return rewriter.notifyMatchFailure(product, "expected a symmetric matrix times itself");
    rewriter.modifyOpInPlace(product, [&] {
      product.setTransposeA(false);
      product.setTransposeB(true);
    });
    return success();
  }
};

/// scatter_add(0, i, rows) + x = scatter_add(x, i, rows): the tied embedding's gradient adds into the head's.
struct ScatterIntoSum : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AddOp add, PatternRewriter &rewriter) const override {
    if (!isF32(add.getResult()))
      return rewriter.notifyMatchFailure(add, "expected f32");
    for (unsigned side = 0; side < 2; ++side) {
      auto scatter = add->getOperand(side).getDefiningOp<ScatterAddOp>();
      if (!scatter || !scatter->hasOneUse() || !isZero(scatter.getBase()))
        continue;
      Value other = add->getOperand(1 - side);
      if (other == scatter.getResult())
        continue;
      rewriter.replaceOpWithNewOp<ScatterAddOp>(add, add.getType(), other, scatter.getIndex(), scatter.getRows());
      return success();
    }
    return rewriter.notifyMatchFailure(add, "expected a scatter_add into zeros with no other use");
  }
};

/// a + (-b) = a - b and a - (-b) = a + b.
struct AddNegated : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AddOp add, PatternRewriter &rewriter) const override {
    for (unsigned side = 0; side < 2; ++side)
      if (auto neg = add->getOperand(side).getDefiningOp<NegOp>()) {
        rewriter.replaceOpWithNewOp<SubOp>(add, add->getOperand(1 - side), neg.getX());
        return success();
      }
    return rewriter.notifyMatchFailure(add, "expected a negated operand");
  }
};
struct SubNegated : OpRewritePattern<SubOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SubOp sub, PatternRewriter &rewriter) const override {
    auto neg = sub.getRhs().getDefiningOp<NegOp>();
    if (!neg)
      return rewriter.notifyMatchFailure(sub, "expected a negated right operand");
    rewriter.replaceOpWithNewOp<AddOp>(sub, sub.getLhs(), neg.getX());
    return success();
  }
};

/// sum(-x) = -sum(x), so that the sum of x can be shared.
struct NegOutOfSum : OpRewritePattern<ReduceSumOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReduceSumOp sum, PatternRewriter &rewriter) const override {
    auto neg = sum.getX().getDefiningOp<NegOp>();
    if (!neg)
      return rewriter.notifyMatchFailure(sum, "expected a sum of negated values");
    Value inner = ReduceSumOp::create(rewriter, sum.getLoc(), neg.getX(), sum.getAxes());
    rewriter.replaceOpWithNewOp<NegOp>(sum, inner);
    return success();
  }
};

/// x^2 = x · x, x^3 = x · x · x and x^-1 = 1 / x, which have pow's special values.
struct SmallPower : OpRewritePattern<PowOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(PowOp pow, PatternRewriter &rewriter) const override {
    auto literal = pow.getRhs().getDefiningOp<ConstantOp>();
    if (!literal || !literal.getValue().isSplat())
      return rewriter.notifyMatchFailure(pow, "expected a literal exponent");
    const double exponent = literal.getValue().getSplatValue<APFloat>().convertToDouble();
    const bool roundsOnce = exponent == 2 || exponent == -1;
    if (!roundsOnce && (exponent != 3 || !isF32(pow.getResult())))
      return rewriter.notifyMatchFailure(pow, "expected the exponent 2, -1, or in f32 3");
    Emit emit(rewriter, pow.getLoc());
    Value x = pow.getLhs();
    if (exponent == -1)
      rewriter.replaceOp(pow, emit.div(emit.constant(1, tensorType(x)), x));
    else
      rewriter.replaceOp(pow, exponent == 2 ? emit.mul(x, x) : emit.mul(emit.mul(x, x), x));
    return success();
  }
};

/// broadcast(broadcast(x)) = broadcast(x).
struct BroadcastTwice : OpRewritePattern<BroadcastOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(BroadcastOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getX().getDefiningOp<BroadcastOp>();
    if (!inner)
      return rewriter.notifyMatchFailure(op, "expected a broadcast of a broadcast");
    rewriter.replaceOpWithNewOp<BroadcastOp>(op, op.getType(), inner.getX(), Value());
    return success();
  }
};

} // namespace

namespace {

constexpr int mostRounds = 20;

GreedyRewriteConfig configOf(int rounds) {
  GreedyRewriteConfig config;
  config.setMaxIterations(rounds);
  config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled); // there is one block, and no dead op stays
  return config;
}

LogicalResult refuseMoreRounds(func::FuncOp function) {
  return function.emitError() << "simplify did not come to an end in " << mostRounds << " rounds";
}

/// Whether an op with a result has no other effect. An op of the dialect that may run at any time has none (Pure),
/// which is known of its kind; all others are asked.
bool onlyComputes(Operation &op) {
  return op.getNumResults() > 0 &&
         ((isa_and_present<TccDialect>(op.getDialect()) && knownTrait<OpTrait::AlwaysSpeculatableImplTrait>(&op)) ||
          isMemoryEffectFree(&op));
}

bool hasRegions(func::FuncOp function) {
  return llvm::any_of(function.getBody().front(), [](Operation &op) { return op.getNumRegions() > 0; });
}

/// Common subexpressions, with the result of MLIR's pass, which costs four times as much in one block without regions.
/// `readers` (where given, and without regions) takes the ops that read another op's result now.
void shareSubexpressions(func::FuncOp function, bool &merged, llvm::DenseSet<Operation *> *readers = nullptr) {
  Block &block = function.getBody().front();
  if (hasRegions(function)) {
    IRRewriter rewriter(function.getContext());
    DominanceInfo dominance(function);
    eliminateCommonSubExpressions(rewriter, dominance, function, &merged);
    return;
  }
  KnownComputations known;
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator()))
    if (onlyComputes(op))
      merged |= known.share(op, readers);
}

/// Whether rules have written ops, of which some may now be equal; taking ops away makes none equal.
struct WrittenOps : RewriterBase::Listener {
  bool any = false;
  void notifyOperationInserted(Operation *, OpBuilder::InsertPoint) override { any = true; }
  void notifyOperationModified(Operation *) override { any = true; }
  void notifyOperationReplaced(Operation *, ValueRange) override { any = true; }
};

/// The ops at which rules may find something after `readers` have got other operands, the last one first: those, and
/// the ops whose rules look further than at what makes their operands, or count its readers.
SmallVector<Operation *> opsToTryAgain(func::FuncOp function, const llvm::DenseSet<Operation *> &readers) {
  SmallVector<Operation *> ops;
  for (Operation &op : llvm::reverse(function.getBody().front().without_terminator()))
    if (readers.contains(&op) || isa<ReduceSumOp>(op) ||
        (isa<AddOp>(op) && llvm::any_of(op.getOperands(), [](Value x) { return x.getDefiningOp<ScatterAddOp>(); })))
      ops.push_back(&op);
  return ops;
}

/// Rounds of rules, each followed by common subexpressions if it wrote any op, until a round finds nothing. The first
/// one is over all ops. It leaves none at which a rule finds something by a look at what makes its operands, so the
/// later ones are over the ops that the sharing has changed, and those of which more is asked.
LogicalResult simplifyWhole(func::FuncOp function, const FrozenRewritePatternSet &rules) {
  const bool everywhere = hasRegions(function);
  llvm::DenseSet<Operation *> readers;
  for (int round = 0; round < mostRounds; ++round) {
    WrittenOps written;
    bool changed = false, merged = false;
    if (round == 0 || everywhere) {
      GreedyRewriteConfig config = configOf(1);
      config.setListener(&written);
      // It is no failure that one round has not come to an end.
      changed = failed(applyPatternsGreedily(function, rules, config));
    } else {
      GreedyRewriteConfig config = configOf(mostRounds);
      config.setListener(&written);
      if (failed(applyOpPatternsGreedily(opsToTryAgain(function, readers), rules, config, &changed)))
        return refuseMoreRounds(function);
    }
    readers.clear();
    if (written.any || round == 0)
      shareSubexpressions(function, merged, &readers);
    if (merged)
      eraseDeadOps(function);
    if (!changed && !merged)
      return success();
  }
  return refuseMoreRounds(function);
}

/// Where some ops must stay as they are, those have the exact rules alone.
LogicalResult simplifyOthers(func::FuncOp function, const FrozenRewritePatternSet &exact,
                             const FrozenRewritePatternSet &all) {
  for (int round = 0; round < 4; ++round) {
    bool changed = false, merged = false;
    if (failed(applyPatternsGreedily(function, exact, configOf(mostRounds), &changed)))
      return refuseMoreRounds(function);
    const llvm::DenseSet<Operation *> steady = steadyOps(function);
    SmallVector<Operation *> others;
    for (Operation &op : function.getBody().front().without_terminator())
      if (!steady.contains(&op))
        others.push_back(&op);
    GreedyRewriteConfig config = configOf(mostRounds);
    config.setStrictness(GreedyRewriteStrictness::ExistingAndNewOps);
    bool othersChanged = false;
    if (failed(applyOpPatternsGreedily(others, all, config, &othersChanged)))
      return refuseMoreRounds(function);
    shareSubexpressions(function, merged);
    if (!merged && !changed && !othersChanged) // no rule that has come to its end can be used again
      break;
  }
  return success();
}

} // namespace

LogicalResult simplify(func::FuncOp function, const PipelineOptions &) {
  MLIRContext *context = function.getContext();
  RewritePatternSet exact(context), all(context);
  for (RewritePatternSet *patterns : {&exact, &all})
    patterns->add<LiteralTimesBroadcast, AddNegated, SubNegated, BroadcastTwice>(context);
  all.add<MoveFactorOutOfSum, SplitSum, SumOfBroadcast, SumOfDeviations, ScatterIntoSum, NegOutOfSum, SmallPower,
          SquareOfSymmetric>(context);
  const FrozenRewritePatternSet exactRules(std::move(exact)), allRules(std::move(all));
  pruneBodies(function);
  return steadyOps(function).empty() ? simplifyWhole(function, allRules)
                                     : simplifyOthers(function, exactRules, allRules);
}

} // namespace tcc
