// Collectives: ops that all ranks of a run come to together. They move bytes; what they are in memory.
#include "ir/lanes.h"
#include "ir/ops/control.h"
#include "ir/tensor_bytes.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace tcc {
namespace {

bool isF32(Value value) {
  return tensorType(value).getElementType().isF32();
}

/// The ranks of shard and of all_gather, or an error.
LogicalResult verifyRanks(Operation *op, uint64_t ranks, StringRef rule) {
  if (ranks >= 1 && ranks <= static_cast<uint64_t>(mostLanes))
    return success();
  return op->emitOpError() << "is of " << static_cast<int64_t>(ranks) << " ranks; 1 to " << mostLanes
                           << " are possible (" << rule << ")";
}

/// The op that waits for a collective in flight.
Operation *waitOf(Operation *op) {
  for (Operation *user : op->getUsers())
    if (isa<WaitOp>(user))
      return user;
  return nullptr;
}

unsigned streamOf(std::optional<uint64_t> flight) {
  return flight ? static_cast<unsigned>(*flight) : 0;
}

LogicalResult verifyFlight(Operation *op, std::optional<uint64_t> flight, StringRef rule) {
  constexpr uint64_t mostFlights = 1 << 20;
  if (!flight || (*flight >= 1 && *flight <= mostFlights))
    return success();
  return op->emitOpError() << "has flight " << static_cast<int64_t>(*flight) << "; 1 to " << mostFlights
                           << " are possible (" << rule << ")";
}

} // namespace

//===- shard ---------------------------------------------------------------------------------------------------===//

LogicalResult ShardOp::verify() {
  if (failed(verifyRanks(*this, getRanks(), "shard_c1")))
    return failure();
  RankedTensorType whole = tensorType(getX()), part = tensorType(getResult());
  const auto ranks = static_cast<int64_t>(getRanks());
  const bool fits = whole.getRank() > 0 && whole.getRank() == part.getRank() &&
                    whole.getElementType() == part.getElementType() &&
                    whole.getShape().drop_front() == part.getShape().drop_front();
  const int64_t all = fits ? whole.getDimSize(0) : 0, own = fits ? part.getDimSize(0) : 0;
  if (!fits || own < 1 || (own != all / ranks && own != (all + ranks - 1) / ranks))
    return emitOpError() << "gives " << typeText(part) << " of " << typeText(whole) << " on " << ranks
                         << " ranks; each has its share of the first size, and at least 1 (shard_c1)";
  return success();
}

int64_t ShardOp::rankCount() {
  return static_cast<int64_t>(getRanks());
}

//===- all_to_all ----------------------------------------------------------------------------------------------===//

LogicalResult AllToAllOp::verify() {
  ArrayRef<int64_t> pieces = getPieces();
  const auto own = static_cast<int64_t>(getOwn());
  const bool isKnown = llvm::all_of(pieces, [](int64_t count) { return count >= 1 && count <= mostLanes; }) &&
                       llvm::is_contained(pieces, own) && static_cast<int64_t>(pieces.size()) <= mostLanes;
  if (!isKnown)
    return emitOpError() << "has " << own << " pieces of its own; the ranks have 1 piece or more each, and one of them "
                         << "has as many (all_to_all_c1)";
  const size_t each = getValues().size() / static_cast<size_t>(own);
  bool areEqual = each > 0 && each * static_cast<size_t>(own) == getValues().size() && llvm::all_of(getValues(), isF32);
  for (size_t i = each; areEqual && i < getValues().size(); ++i)
    areEqual = getValues()[i].getType() == getValues()[i - each].getType();
  if (!areEqual)
    return emitOpError() << "has " << getValues().size() << " operands for " << own
                         << " pieces; each piece has as many, of f32 and of equal types (all_to_all_c2)";
  const int64_t elements = packedPlaces(getValues().take_front(each).getTypes()).back();
  RankedTensorType type = tensorType(getResult());
  const bool fits = type.getRank() == 2 && isF32(getResult()) && type.getDimSize(0) == llvm::sum_of(pieces) &&
                    type.getDimSize(1) * static_cast<int64_t>(pieces.size()) >= elements;
  if (!fits)
    return emitOpError() << "gives " << typeText(type) << " for pieces of " << elements
                         << " elements; a row for each of the " << llvm::sum_of(pieces)
                         << " pieces, of a rank's part of a piece, is expected (all_to_all_c3)";
  return verifyFlight(*this, getFlight(), "all_to_all_c4");
}

unsigned AllToAllOp::stream() {
  return streamOf(getFlight());
}

Operation *AllToAllOp::waitingOp() {
  return waitOf(*this);
}

int64_t AllToAllOp::rankCount() {
  return static_cast<int64_t>(getPieces().size());
}

SmallVector<int64_t> AllToAllOp::placesInScratch() {
  if (!sendsOnePiece())
    return {};
  SmallVector<int64_t> places = packedPlaces(getValues().getTypes());
  places.pop_back();
  for (int64_t &place : places)
    place *= 4; // f32
  return places;
}

//===- all_gather ----------------------------------------------------------------------------------------------===//

LogicalResult AllGatherOp::verify() {
  if (failed(verifyRanks(*this, getRanks(), "all_gather_c1")))
    return failure();
  RankedTensorType part = tensorType(getX()), whole = tensorType(getResult());
  const bool fits = part.getRank() == 1 && whole.getRank() == 1 && part.getElementType() == whole.getElementType() &&
                    whole.getDimSize(0) == part.getDimSize(0) * static_cast<int64_t>(getRanks());
  if (!fits)
    return emitOpError() << "gives " << typeText(whole) << " of " << typeText(part) << " on " << getRanks()
                         << " ranks; the values of all ranks one after another are expected (all_gather_c1)";
  return verifyFlight(*this, getFlight(), "all_gather_c2");
}

unsigned AllGatherOp::stream() {
  return streamOf(getFlight());
}

Operation *AllGatherOp::waitingOp() {
  return waitOf(*this);
}

int64_t AllGatherOp::rankCount() {
  return static_cast<int64_t>(getRanks());
}

//===- all_reduce ----------------------------------------------------------------------------------------------===//

LogicalResult AllReduceOp::verify() {
  if (failed(verifyRanks(*this, getRanks(), "all_reduce_c1")))
    return failure();
  if (getValues().empty() || getValues().getTypes() != getResultTypes() || !llvm::all_of(getValues(), isF32))
    return emitOpError("takes f32 values, and its results have their types (all_reduce_c1)");
  return verifyFlight(*this, getFlight(), "all_reduce_c2");
}

unsigned AllReduceOp::stream() {
  return streamOf(getFlight());
}

Operation *AllReduceOp::waitingOp() {
  return waitOf(*this);
}

int64_t AllReduceOp::rankCount() {
  return static_cast<int64_t>(getRanks());
}

/// Each sum may stand where this rank's value did.
llvm::BitVector AllReduceOp::sharedBuffers() {
  return sharedPairs(*this);
}

int64_t AllReduceOp::flops() {
  int64_t flops = 0;
  for (Value value : getValues())
    flops += tensorType(value).getNumElements();
  return flops;
}

//===- unpack --------------------------------------------------------------------------------------------------===//

LogicalResult UnpackOp::verify() {
  const RankedTensorType whole = tensorType(getX());
  const auto isOfIt = [&](Type type) {
    return cast<RankedTensorType>(type).getElementType() == whole.getElementType();
  };
  if (whole.getRank() != 1 || getResults().empty() || !llvm::all_of(getResultTypes(), isOfIt))
    return emitOpError() << "takes " << typeText(whole)
                         << "; a value of one dim, and results of its element type are expected (unpack_c1)";
  if (const int64_t end = packedPlaces(getResultTypes()).back(); end > whole.getNumElements())
    return emitOpError() << "takes " << end << " elements out of " << typeText(whole) << " (unpack_c2)";
  return success();
}

int64_t UnpackOp::bytes(const ViewLimits &) {
  return 0;
}

//===- wait ----------------------------------------------------------------------------------------------------===//

LogicalResult WaitOp::verify() {
  Operation *started = getValues().empty() ? nullptr : getValues().front().getDefiningOp();
  auto flying = dyn_cast_if_present<InFlightOpInterface>(started);
  if (!flying || flying.stream() == 0 || getValues() != started->getResults())
    return emitOpError("waits for all results of one collective that is in flight (wait_c1)");
  return success();
}

/// A wait moves nothing itself.
int64_t WaitOp::bytes(const ViewLimits &) {
  return 0;
}

} // namespace tcc
