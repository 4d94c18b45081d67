// A part of distribute for --zero: dividing states and their updates among ranks, in addition to the lanes of a step.
#pragma once
#include "ir/emit.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/pipeline.h"
#include "passes/rank_parts.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace tcc {

using OpSet = llvm::SetVector<mlir::Operation *>;
/// Maps a value, which is a sum over lanes, to the part of it that this rank has. No rank has the whole value yet.
using KnownParts = llvm::MapVector<mlir::Value, mlir::Value>;

/// Whether the op is elementwise, and all its operands have this shape.
bool isElementwise(mlir::Operation *op, llvm::ArrayRef<int64_t> shape);

/// Which results of the function are the next values of which states.
class StateUpdates {
public:
  StateUpdates(mlir::func::FuncOp function, const PipelineOptions &options);

  mutable mlir::func::FuncOp function; ///< mutable since the getters of this handle are not const
  mlir::Block &block;
  const RankShare &ranks;
  const RankParts parts;
  const int64_t bucketBytes;
  llvm::SmallVector<mlir::BlockArgument> states; ///< the states that have a next value, in order

  mlir::Operation *end() const { return block.getTerminator(); }
  mlir::Value next(mlir::Value state) const { return end()->getOperand(result.lookup(state)); }
  void setNext(mlir::Value state, mlir::Value value) const { end()->setOperand(result.lookup(state), value); }

  /// Adds to `ops` the ops that compute something from `value`, up to the next values of states. Gives the first op
  /// that `mayStand` refuses or that gives another result of the function, or null if there is none.
  mlir::Operation *follow(mlir::Value value, llvm::function_ref<bool(mlir::Operation *)> mayStand, OpSet &ops) const;

  /// Whether the state is kept in parts: all that is computed from it is elementwise, up to next values of states. Adds
  /// these ops to `ops` if so.
  bool isKeptInParts(mlir::BlockArgument state, OpSet &ops) const;

  void remark(mlir::BlockArgument state, Remark::Kind kind, const std::string &text) const;

private:
  Remarks *remarks;
  llvm::DenseMap<mlir::Value, unsigned> result;
};

/// Parameters that are kept in parts (--zero=3).
struct ParameterParts {
  llvm::MapVector<mlir::BlockArgument, mlir::Value> own; ///< this rank's rows of each, cut from it
  KnownParts wholes;                                     ///< values that are whole parameters, and this rank's rows
};

/// Lets lanes read this rank's rows of parameters, and gather them where they need them whole (parameter_parts.cpp).
/// The parameters themselves stay whole until shareOutStates() replaces them by their rows.
ParameterParts shareOutParameters(mlir::func::FuncOp function, const PipelineOptions &options);

/// Divides states and updates among ranks (state_parts.cpp). Values of `known` that other ops read are made whole.
void shareOutStates(mlir::func::FuncOp function, const PipelineOptions &options, const KnownParts &known,
                    const ParameterParts &parameters);

/// Lets a single rank compute each update that is not elementwise, if its states are large enough (state_owners.cpp).
/// `updating` are the ops that are computed in parts.
void giveOwners(const StateUpdates &updates, const OpSet &updating);

} // namespace tcc
