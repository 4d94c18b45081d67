// When the ops of a block run, where some are in flight beside others: what is over before what begins.
#pragma once
#include "ir/streams.h"
#include "llvm/ADT/DenseMap.h"

namespace tcc {

/// How long bytes are used: positions in a block's order, both included. Bytes that ops of one stream alone use are
/// free for that stream's later ops as soon as the last of them stands there, for all others when it has been waited
/// for.
struct LiveRange {
  unsigned first = 0, last = 0;
  unsigned stream = 0, lastOnStream = 0;
  bool isShared = false; ///< by several streams: then `stream` says nothing

  /// Also used by what the other range is of.
  void include(const LiveRange &other);
  /// Whether the bytes of the two must not be the same.
  bool meets(const LiveRange &other) const {
    if (!isShared && !other.isShared && stream == other.stream)
      return first <= other.lastOnStream && other.first <= lastOnStream;
    return first <= other.last && other.first <= last;
  }
};

class StreamOrder {
public:
  /// Positions of the block's ops; ops that run as one have one (joined_kernels.h). An error at the op that does not
  /// keep InFlightOpInterface's rules.
  static mlir::FailureOr<StreamOrder> of(mlir::Block &block);

  unsigned position(mlir::Operation *op) const { return positions.lookup(op); }
  /// The range of bytes that this op alone uses.
  LiveRange range(mlir::Operation *op) const;
  /// Whether `before` is done when `after` begins.
  bool isDone(mlir::Operation *before, mlir::Operation *after) const {
    return !range(before).meets(range(after)) && position(before) < position(after);
  }

private:
  /// A user of the op's results, also through views, on another stream and before position `wait`; or null.
  mlir::Operation *earlyUser(mlir::Operation *op, unsigned stream, unsigned wait) const;

  llvm::DenseMap<mlir::Operation *, unsigned> positions;
};

/// The stream that an op runs on.
unsigned streamOf(mlir::Operation *op);

} // namespace tcc
