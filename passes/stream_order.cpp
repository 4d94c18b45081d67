// Positions are those of the block's order, in which ops are started. What is on stream 0 is done when the next op of
// it starts; what is in flight when the op that waits for it is reached.
#include "passes/stream_order.h"
#include "passes/joined_kernels.h"

using namespace mlir;

namespace tcc {

unsigned streamOf(Operation *op) {
  auto flying = dyn_cast<InFlightOpInterface>(op);
  return flying ? flying.stream() : 0;
}

void LiveRange::include(const LiveRange &other) {
  first = std::min(first, other.first);
  last = std::max(last, other.last);
  isShared |= other.isShared || stream != other.stream;
  lastOnStream = std::max(lastOnStream, other.lastOnStream);
}

LiveRange StreamOrder::range(Operation *op) const {
  const unsigned at = position(op), stream = streamOf(op);
  const unsigned end = stream ? position(cast<InFlightOpInterface>(op).waitingOp()) : at;
  return {at, end, stream, at, false};
}

Operation *StreamOrder::earlyUser(Operation *op, unsigned stream, unsigned wait) const {
  for (Operation *user : op->getUsers()) {
    if (user->hasTrait<ViewOp>()) { // it touches nothing itself
      if (Operation *early = earlyUser(user, stream, wait))
        return early;
    } else if (position(user) < wait && streamOf(user) != stream) {
      return user;
    }
  }
  return nullptr;
}

FailureOr<StreamOrder> StreamOrder::of(Block &block) {
  StreamOrder order;
  unsigned next = 0;
  for (Operation &op : block) {
    bool joined = next > 0 && joinedGroup(&op) && joinedGroup(&op) == joinedGroup(op.getPrevNode());
    order.positions[&op] = joined ? next - 1 : next++;
  }
  for (Operation &op : block) {
    const unsigned stream = streamOf(&op);
    if (stream == 0)
      continue;
    Operation *wait = cast<InFlightOpInterface>(op).waitingOp();
    if (!wait || wait->getBlock() != &block || order.position(wait) <= order.position(&op) || streamOf(wait) != 0)
      return op.emitOpError() << "is in flight on stream " << stream
                              << "; an op of stream 0 that stands after it waits for it (in_flight_c1)";
    if (Operation *user = order.earlyUser(&op, stream, order.position(wait)))
      return user->emitOpError() << "uses a value of stream " << stream
                                 << " before the op that waits for it (in_flight_c2)";
  }
  return order;
}

} // namespace tcc
