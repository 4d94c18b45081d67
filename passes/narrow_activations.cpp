// narrow-activations: what a kernel or a matmul stores for later matmuls is stored in 16 bits.
//   1. an activation is an f32 value of several elements from which a matmul, an attention or a scatter-add is
//      computed: found from those operands upwards, never through a value of one element (a norm, a loss, a scale).
//      Gradients of weights lead to norm and update alone, so they stay f32;
//   2. left out are values that the caller or other ranks get, sums and maxima and what is computed of those alone
//      (means, deviations, log-sum-exps), and what is f32 by an op's definition;
//   3. matmuls of 16 bits that make activations round them on their way out;
//   4. what a matmul reads rounded all others read so, too: it is stored once;
//   5. fusion is asked what its kernels would store. An activation among that is rounded where it is made, and all read
//      the rounded one: forward and backward see the same value. Again until nothing is added. Lanes are left as they
//      are then: a rank's last one has the exchanges in it, beside which fusion would store other values.
// The casts are ordinary ops: recomputing, or other kernels than those that were foreseen, never rounds elsewhere, and
// the rounding is the same at every -O level. Between loads and stores of a kernel all is f32.
#include "ir/dialect.h"
#include "passes/bodies.h"
#include "passes/fusion.h"
#include "passes/narrow_type.h"
#include "passes/passes.h"
#include "passes/stages.h"

using namespace mlir;

namespace tcc {
namespace {

constexpr int mostRounds = 4; // of asking fusion

/// Whether the function is the body of a loop that ranks run: its values are the same on any number of them.
bool isLane(func::FuncOp function) {
  return function->hasAttr(steadyAttr) && BodyFunction::is(function);
}

class Activations {
public:
  Activations(func::FuncOp function, const PipelineOptions &options)
      : function(function), block(function.getBody().front()), options(options),
        narrow(narrowType(options.products, function.getContext())) {}

  LogicalResult run() {
    find();
    for (MatmulOp product : llvm::make_early_inc_range(block.getOps<MatmulOp>())) {
      if (!activations.erase(product.getResult()))
        continue;
      if (tensorType(product.getA()).getElementType() == narrow)
        narrowResult(product, narrow);
      else // no library rounds it
        store(product.getResult());
    }
    SmallVector<Value> rounded; // for a matmul
    for (CastOp cast : block.getOps<CastOp>())
      if (isCastTo(cast, narrow) && activations.erase(cast.getX()))
        rounded.push_back(cast.getX());
    llvm::for_each(rounded, [&](Value value) { store(value); });
    if (isLane(function))
      return success();
    for (int round = 0; round < mostRounds; ++round) {
      FailureOr<SmallVector<Value>> stored = storedByKernels(function, options, activations);
      if (failed(stored))
        return failure();
      bool changed = false;
      for (Value value : *stored)
        if (activations.erase(value)) {
          store(value);
          changed = true;
        }
      if (!changed)
        break;
    }
    return success();
  }

private:
  func::FuncOp function;
  Block &block;
  const PipelineOptions &options;
  Type narrow;
  llvm::DenseSet<Value> activations;

  void find() {
    llvm::DenseSet<Value> needed, statistics;
    llvm::DenseSet<Operation *> gathered; // collectives, and what only arranges their results
    for (Operation &op : block) {
      if (isExchange(op) || (isArrangement(op) && llvm::all_of(op.getOperands(), [&](Value operand) {
                               return gathered.contains(operand.getDefiningOp());
                             })))
        gathered.insert(&op);
      bool isStatistic = isa<ReduceSumOp, ReduceMaxOp>(op) || isOfStatistics(op, statistics);
      if (isStatistic)
        statistics.insert(op.result_begin(), op.result_end());
    }
    for (Operation &op : llvm::reverse(block)) {
      if (gathered.contains(&op)) // what ranks exchange is no activation: sums of gradients, rows of parameters
        continue;
      if (isa<StructuredOpInterface>(op) && !isa<BodyOpInterface>(op)) // what a body reads keeps its type
        needed.insert(op.operand_begin(), op.operand_end());
      if (auto scatter = dyn_cast<ScatterAddOp>(op))
        needed.insert(scatter.getRows());
      for (Value result : op.getResults())
        if (needed.contains(result) && tensorType(result).getNumElements() > 1) {
          needed.insert(op.operand_begin(), op.operand_end());
          if (mayBeNarrow(result) && !statistics.contains(result))
            activations.insert(result);
        }
    }
  }

  static bool isExchange(Operation &op) { return isa<CollectiveOpInterface, WaitOp>(op); }

  static bool isArrangement(Operation &op) {
    return isa<ReshapeOp, SliceOp, ConcatOp, PadOp>(op) && op.getNumOperands() > 0;
  }

  static bool isExchanged(Value value) {
    return llvm::any_of(value.getUsers(), [](Operation *user) {
      return isExchange(*user) || (isArrangement(*user) && isExchanged(user->getResult(0)));
    });
  }

  /// Whether the value is a result of the function. What one process returns from a lane, a rank exchanges, or adds to
  /// other lanes in a loop of one turn (distribute); in both the value must be the same.
  static bool isResult(Value value) {
    return isExchanged(value) || llvm::any_of(value.getUsers(), [](Operation *user) {
             auto loop = dyn_cast<RepeatOp>(user);
             return isa<func::ReturnOp>(user) || (loop && loop.getCount() == 1);
           });
  }

  /// Elementwise or a view of statistics and literals alone, at least one of the former.
  static bool isOfStatistics(Operation &op, const llvm::DenseSet<Value> &statistics) {
    bool any = false;
    if (!isa<ElementwiseOpInterface>(op) && !op.hasTrait<ViewOp>())
      return false;
    for (Value operand : op.getOperands()) {
      if (statistics.contains(operand))
        any = true;
      else if (!isUniform(operand))
        return false;
    }
    return any && !isa<BroadcastOp>(op);
  }

  static bool isUniform(Value value) {
    auto repeated = value.getDefiningOp<BroadcastOp>();
    return value.getDefiningOp<ConstantOp>() || tensorType(value).getNumElements() == 1 ||
           (repeated && tensorType(repeated.getX()).getNumElements() == 1);
  }

  static bool mayBeNarrow(Value value) {
    Operation *op = value.getDefiningOp();
    bool chosen = isa<MatmulOp, GatherOp, ElementwiseOpInterface>(op) || op->hasTrait<ViewOp>();
    return chosen && !isResult(value) && tensorType(value).getElementType().isF32();
  }

  void store(Value value) {
    OpBuilder builder(value.getContext());
    builder.setInsertionPointAfterValue(value);
    auto stored = CastOp::create(builder, value.getLoc(), tensorType(value).clone(narrow), value);
    readNarrow(value, stored, value.getType());
  }
};

} // namespace

/// Whether the function is a step around loops over lanes. Ranks share out what it computes of the lanes' sums, such as
/// the matmuls of Muon, so that fusion would store other values on each of them. In the loops all compute the same.
static bool isSharedOut(func::FuncOp function) {
  return function->hasAttr(steadyAttr) && !BodyFunction::is(function) && !function.getOps<RepeatOp>().empty();
}

LogicalResult narrowActivations(func::FuncOp function, const PipelineOptions &options) {
  if (options.products == ProductType::asWritten || isSharedOut(function))
    return success();
  return Activations(function, options).run();
}

} // namespace tcc
