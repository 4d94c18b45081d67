// StreamOrder: which ops of a block are done before which others begin, if some ops are in flight beside others.
#pragma once
#include "ir/dialect.h"
#include "llvm/ADT/DenseMap.h"

namespace tcc {

/// How long bytes are used, as positions in a block's order, both included. If ops of one stream alone use the bytes,
/// then they are free for later ops of that stream after `lastOnStream`, and for other ops only after `last`, where the
/// stream has been waited for.
struct LiveRange {
  unsigned first = 0, last = 0;
  unsigned stream = 0, lastOnStream = 0;
  bool isShared = false; ///< whether several streams use the bytes; `stream` then has no meaning

  /// Makes this the range of bytes that are used during `other` as well.
  void include(const LiveRange &other);
  /// Whether bytes with these two ranges must not share a place.
  bool meets(const LiveRange &other) const {
    if (first > other.last || other.first > last) // true of most, and quickly said
      return false;
    if (!isShared && !other.isShared && stream == other.stream)
      return first <= other.lastOnStream && other.first <= lastOnStream;
    return true;
  }
};

class StreamOrder {
public:
  /// The order of the block's ops. Joined kernels (joined_kernels.h) share one position. Reports an error at the first
  /// op that breaks a rule of InFlightOpInterface.
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
