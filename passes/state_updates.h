// What ranks share out of a step beside its lanes (--zero): a part of distribute.
#pragma once
#include "ir/emit.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/pipeline.h"
#include "passes/rank_parts.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace tcc {

using OpSet = llvm::SetVector<mlir::Operation *>;
/// The part that this rank has of a value, the sum over lanes, which is nowhere whole yet.
using KnownParts = llvm::MapVector<mlir::Value, mlir::Value>;

/// Which results are next values of which states.
class StateUpdates {
public:
  StateUpdates(mlir::func::FuncOp function, const PipelineOptions &options);

  mutable mlir::func::FuncOp function; ///< a handle, whose questions are not const
  mlir::Block &block;
  const RankShare &ranks;
  const RankParts parts;
  const int64_t bucketBytes;
  llvm::SmallVector<mlir::BlockArgument> states; ///< that have a next value, in order

  mlir::Operation *end() const { return block.getTerminator(); }
  mlir::Value next(mlir::Value state) const { return end()->getOperand(result.lookup(state)); }
  void setNext(mlir::Value state, mlir::Value value) const { end()->setOperand(result.lookup(state), value); }

  /// Adds what is computed from `value`, up to next values of states. Gives the first op that `mayStand` refuses or
  /// that gives another result, or null.
  mlir::Operation *follow(mlir::Value value, llvm::function_ref<bool(mlir::Operation *)> mayStand, OpSet &ops) const;

  void remark(mlir::BlockArgument state, Remark::Kind kind, const std::string &text) const;

private:
  Remarks *remarks;
  llvm::DenseMap<mlir::Value, unsigned> result;
};

/// Shares out states and updates (state_parts.cpp), and makes whole what else is read of `known`.
void shareOutStates(mlir::func::FuncOp function, const PipelineOptions &options, const KnownParts &known);

/// Computes on one rank alone each update that is not elementwise and whose states are worth it (state_owners.cpp).
/// `updating`: what is computed in parts.
void giveOwners(const StateUpdates &updates, const OpSet &updating);

} // namespace tcc
