// plan-memory: gives every stored value a place.
//   1. results of the function are written straight to their output or, where every reader of the old value is done,
//      over the state they update; what cannot be is copied at the end;
//   2. a value that dies where a result of its size is written, and may be written over, has the result's output
//   before;
//   3. a structured op's result takes over the buffer of an operand that dies there, where the op's facts allow it;
//   4. the results of tcc.unpack lie in its operand, and operands that an op would copy to its scratch (those of
//      tcc.all_to_all) lie there;
//   5. kernels whose results only begin loops that do not read them get no memory (isUnreadKernel());
//   6. all other values and scratch, an op's planned bodies too, get offsets in one arena: largest first, at the lowest
//      offset that is free over their live range.
// What an op in flight reads or writes is live until the op that waits for it; what one stream has used another uses
// only after such a wait (stream_order.h). The function stays tensor SSA; places are attributes. It never moves an op.
#include "passes/bodies.h"
#include "passes/joined_kernels.h"
#include "passes/memory_places.h"
#include "passes/memory_uses.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include "passes/stages.h"
#include "passes/stream_order.h"

using namespace mlir;

namespace tcc {
namespace {

/// A range of arena bytes over a range of time.
struct Part {
  int64_t begin, bytes; // `begin` counts from where the allocation begins
  LiveRange live;
};

/// Arena bytes of a value, of several that share them, or of scratch. The first part is all of it. Scratch in which
/// operands lie has a part for each of them; until an operand is made, its bytes are free for others.
struct Allocation {
  Allocation(int64_t bytes, const LiveRange &live) : parts{{0, bytes, live}} {}

  SmallVector<Part, 1> parts;
  int64_t offset = -1;
  bool isWhole = false; // all of it is taken as long as any of its parts is; its first part says how long

  int64_t bytes() const { return parts.front().bytes; }
  ArrayRef<Part> taken() const { return isWhole ? ArrayRef(parts).take_front() : ArrayRef(parts); }
  LiveRange &live() { return parts.front().live; }
};

class Planner {
public:
  Planner(func::FuncOp function, const PipelineOptions &options)
      : function(function), block(function.getBody().front()), options(options), signature(function),
        memory(block, options.target.views) {}

  LogicalResult run() {
    FailureOr<StreamOrder> known = StreamOrder::of(block);
    if (failed(known))
      return failure();
    order = std::move(*known);
    findUses();
    if (failed(checkUpdates()))
      return failure();
    placeReturned();
    for (StructuredOpInterface op : block.getOps<StructuredOpInterface>())
      placeInScratch(op);
    for (Operation &op : llvm::reverse(block.without_terminator()))
      lendPlaces(&op);
    for (Operation &op : block.without_terminator())
      placeResults(&op);
    placeScratchAndStaging();
    assignOffsets();
    write();
    return success();
  }

private:
  func::FuncOp function;
  Block &block;
  const PipelineOptions &options;
  SignaturePlaces signature;
  MemoryUses memory;
  StreamOrder order;
  llvm::DenseMap<unsigned, SmallVector<Operation *, 4>> joinedAt; // by position
  llvm::DenseMap<Value, LiveRange> uses;                          // of roots that ops make
  llvm::DenseMap<Value, Place> fixed;                             // outside the arena
  llvm::DenseMap<Value, unsigned> allocationOf;
  llvm::DenseMap<Value, size_t> partOf; // of values that lie in scratch, among the parts of that
  std::vector<Allocation> allocations;
  llvm::DenseMap<Operation *, unsigned> scratchOf;
  SmallVector<int64_t> staging; // allocation of each return operand, or -1

  void use(Value root, Operation *op) {
    if (auto made = uses.find(root); made != uses.end())
      made->second.include(order.range(op));
  }

  int64_t aligned(int64_t bytes) const { return llvm::alignTo(bytes, options.target.alignment); }

  void findUses() {
    for (Operation &op : block) {
      if (joinedGroup(&op))
        joinedAt[order.position(&op)].push_back(&op);
      for (Value result : op.getResults())
        uses[result] = order.range(&op);
      for (Value operand : memory.operands(&op))
        use(operand, &op);
    }
  }

  LogicalResult checkUpdates() {
    llvm::DenseSet<StringAttr> updated;
    for (unsigned i = 0; i < function.getNumResults(); ++i) {
      auto name = function.getResultAttrOfType<StringAttr>(i, updatesAttr);
      if (!name)
        continue;
      BlockArgument state = signature.updated(i);
      if (!state)
        return function.emitError() << "result " << i << " updates '" << name.getValue()
                                    << "', which is no state argument (result_c2)";
      if (state.getType() != block.getTerminator()->getOperand(i).getType())
        return function.emitError() << "result " << i << " updates '" << name.getValue()
                                    << "' with another type than the state's (result_c3)";
      if (!updated.insert(name).second)
        return function.emitError() << "state '" << name.getValue() << "' is updated twice (result_c4)";
    }
    return success();
  }

  /// True if `value`, made by `producer`, may be written over the state argument `state`.
  bool mayReplaceState(Value value, BlockArgument state) {
    Operation *producer = value.getDefiningOp();
    for (Operation *reader : memory.readers(state)) {
      if (reader == producer) {
        if (!memory.mayTakeOver(cast<OpResult>(value), state))
          return false;
      } else if (!order.isDone(reader, producer)) {
        return false;
      }
    }
    return true;
  }

  void placeReturned() {
    Operation *terminator = block.getTerminator();
    for (unsigned i = 0; i < terminator->getNumOperands(); ++i) {
      Value root = memory.operands(terminator)[i];
      if (isa<BlockArgument>(root) || !isa<StructuredOpInterface>(root.getDefiningOp()) || fixed.contains(root) ||
          byteSize(tensorType(root)) != byteSize(tensorType(terminator->getOperand(i)))) // it is a part of the root
        continue;
      BlockArgument state = signature.updated(i);
      if (state && (stageOf(root.getDefiningOp()) || !mayReplaceState(root, state)))
        continue;
      fixed[root] = signature.returned(i);
    }
  }

  bool hasPlace(Value value) const { return fixed.contains(value) || allocationOf.contains(value); }

  void placeInPart(Value value, unsigned allocation, size_t part) {
    allocationOf[value] = allocation;
    partOf[value] = part;
    allocations[allocation].parts[part].live.include(uses[value]);
  }

  /// Lets operands of the op lie in its scratch, each at its place there, where nothing reads them beside or after it.
  void placeInScratch(StructuredOpInterface op) {
    const SmallVector<int64_t> places = op.placesInScratch();
    const int64_t bytes = places.empty() ? 0 : scratchBytes(op);
    if (bytes == 0)
      return;
    const unsigned scratch = allocations.size();
    scratchOf[op] = scratch;
    allocations.emplace_back(bytes, order.range(op));
    const auto isReadByItAlone = [&](Value root) {
      return llvm::all_of(memory.readers(root),
                          [&](Operation *reader) { return reader == op || order.isDone(reader, op); });
    };
    for (auto [root, operand, bytesBefore] : llvm::zip_equal(memory.operands(op), op->getOperands(), places)) {
      Operation *producer = root.getDefiningOp();
      if (producer && isa<StructuredOpInterface>(producer) && !isa<UnpackOp>(producer) && !hasPlace(root) &&
          byteSize(tensorType(root)) == byteSize(tensorType(operand)) && isReadByItAlone(root)) {
        SmallVector<Part, 1> &parts = allocations[scratch].parts;
        parts.push_back({bytesBefore, byteSize(tensorType(root)), uses[root]});
        placeInPart(root, scratch, parts.size() - 1);
      }
    }
  }

  /// Gives the outputs and places in scratch that `op` writes to values that it reads as the last one.
  void lendPlaces(Operation *op) {
    if (!isa<StructuredOpInterface>(op))
      return;
    for (OpResult result : op->getResults()) {
      const auto known = fixed.find(result);
      if (known == fixed.end() ? !partOf.contains(result) : known->second.space != PlaceSpace::output)
        continue;
      const Value before = memory.beforeOutput(
          result, [&](Value value) { return !hasPlace(value); },
          [&](Operation *reader, Operation *op) { return order.isDone(reader, op); });
      if (!before)
        continue;
      if (known == fixed.end())
        placeInPart(before, allocationOf[result], partOf[result]);
      else
        fixed[before] = Place(known->second);
    }
  }

  void placeResults(Operation *op) {
    if (!isa<StructuredOpInterface>(op) || isa<UnpackOp>(op) || isUnreadKernel(op))
      return;
    llvm::DenseSet<unsigned> takenOver;
    for (OpResult result : op->getResults()) {
      if (hasPlace(result))
        continue;
      int64_t bytes = byteSize(tensorType(result));
      if (std::optional<unsigned> shared = dyingOperand(result, takenOver)) {
        allocations[*shared].live().include(uses[result]);
        allocationOf[result] = *shared;
        takenOver.insert(*shared);
        continue;
      }
      allocationOf[result] = allocations.size();
      allocations.emplace_back(bytes, uses[result]);
    }
  }

  /// Whether a kernel that runs at the same time as `op` reads from the allocation.
  bool isReadBeside(Operation *op, unsigned allocation) const {
    auto beside = joinedAt.find(order.position(op));
    return beside != joinedAt.end() && llvm::any_of(beside->second, [&](Operation *other) {
             return other != op && llvm::any_of(memory.operands(other), [&](Value value) {
                      auto known = allocationOf.find(value);
                      return known != allocationOf.end() && known->second == allocation;
                    });
           });
  }

  std::optional<unsigned> dyingOperand(OpResult result, const llvm::DenseSet<unsigned> &takenOver) {
    Operation *op = result.getOwner();
    for (Value input : memory.operands(op)) {
      auto known = allocationOf.find(input);
      if (known == allocationOf.end() || takenOver.contains(known->second) || partOf.contains(input) ||
          allocations[known->second].live().last != order.position(op) ||
          byteSize(tensorType(input)) != byteSize(tensorType(result)) || byteSize(tensorType(result)) == 0)
        continue;
      if (isReadBeside(op, known->second))
        continue;
      // The same buffer under two values must allow it under both.
      if (llvm::all_of(memory.operands(op), [&](Value other) {
            auto same = allocationOf.find(other);
            return same == allocationOf.end() || same->second != known->second || memory.mayTakeOver(result, other);
          }))
        return known->second;
    }
    return std::nullopt;
  }

  int64_t scratchBytes(Operation *op) const {
    if (auto bodies = dyn_cast<BodyOpInterface>(op))
      return memoryOfBodies(bodies, options.target.alignment).bytes;
    return options.queries && isa<StructuredOpInterface>(op) ? options.queries->scratchBytes(op) : 0;
  }

  void placeScratchAndStaging() {
    for (Operation &op : block)
      if (int64_t bytes = scratchBytes(&op); bytes && !scratchOf.contains(&op)) {
        scratchOf[&op] = allocations.size();
        allocations.emplace_back(bytes, order.range(&op));
      }
    // A state that takes the old value of another is staged, since the other may be overwritten first.
    Operation *terminator = block.getTerminator();
    for (unsigned i = 0; i < terminator->getNumOperands(); ++i) {
      Value root = memory.operands(terminator)[i];
      bool fromState = isa<BlockArgument>(root) && signature.of(root).space == PlaceSpace::state;
      bool copies = fromState && signature.of(root) != signature.returned(i);
      staging.push_back(copies ? static_cast<int64_t>(allocations.size()) : -1);
      if (copies)
        allocations.emplace_back(byteSize(tensorType(root)), order.range(terminator));
    }
  }

  /// A part of an allocation that has its offset, with what others are compared with.
  struct Taken {
    LiveRange live;
    int64_t offset, end; // where the bytes begin, and from where on they are free
    unsigned id;
  };

  void assignOffsets() {
    std::vector<unsigned> bySize(allocations.size());
    for (unsigned i = 0; i < bySize.size(); ++i)
      bySize[i] = i;
    llvm::sort(bySize, [&](unsigned a, unsigned b) {
      return std::pair(allocations[b].bytes(), a) < std::pair(allocations[a].bytes(), b);
    });
    std::vector<Taken> placed; // by offset
    for (unsigned id : bySize) {
      Allocation &own = allocations[id];
      if (own.parts.size() * placed.size() > mostComparisons)
        takeWhole(own);
      own.offset = lowestFree(own, placed);
      auto isBefore = [](int64_t offset, const Taken &taken) { return offset < taken.offset; };
      for (const Part &part : own.taken()) {
        const int64_t begin = own.offset + part.begin;
        placed.insert(llvm::upper_bound(placed, begin, isBefore), {part.live, begin, aligned(begin + part.bytes), id});
      }
    }
    closeHoles(placed);
  }

  /// Parts of an allocation times parts that have their offsets; where there are more, the allocation is taken whole.
  static constexpr size_t mostComparisons = 1 << 20;

  static void takeWhole(Allocation &own) {
    own.isWhole = true;
    for (const Part &part : own.parts)
      own.live().include(part.live);
  }

  static int64_t lowestFree(const Allocation &own, ArrayRef<Taken> placed) {
    int64_t offset = 0, before = -1;
    while (offset != before) {
      before = offset;
      for (const Part &part : own.taken()) {
        int64_t begin = offset + part.begin;
        for (const Taken &taken : placed) {
          if (!taken.live.meets(part.live))
            continue;
          if (begin + part.bytes <= taken.offset)
            break;
          begin = std::max(begin, taken.end);
        }
        offset = begin - part.begin;
      }
      if (own.taken().size() == 1)
        break;
    }
    return offset;
  }

  /// Bytes that no allocation ever covers are taken out: everything above them moves down.
  void closeHoles(ArrayRef<Taken> byOffset) {
    int64_t covered = 0, removed = 0;
    std::vector<bool> isMoved(allocations.size());
    for (const Taken &taken : byOffset) {
      if (taken.end == taken.offset)
        continue;
      removed += std::max<int64_t>(0, taken.offset - removed - covered);
      covered = std::max(covered, taken.end - removed);
      if (isMoved[taken.id]) // its first part, which covers all others
        continue;
      isMoved[taken.id] = true;
      allocations[taken.id].offset -= removed;
    }
  }

  SmallVector<Place> placesIn(UnpackOp unpack) const {
    const Place whole = signature.of(denseRoot(unpack.getX()));
    const int64_t width = elementBytes(tensorType(unpack.getX()).getElementType());
    const SmallVector<int64_t> first = packedPlaces(unpack.getResultTypes());
    return llvm::map_to_vector(ArrayRef(first).drop_back(), [&](int64_t begin) {
      return Place{whole.space, whole.index, whole.offset + begin * width};
    });
  }

  Place inArena(Value value) {
    const Allocation &allocation = allocations[allocationOf[value]];
    return {PlaceSpace::arena, 0, allocation.offset + allocation.parts[partOf.lookup(value)].begin};
  }

  void write() {
    Builder builder(function.getContext());
    int64_t arena = 0;
    for (const Allocation &allocation : allocations)
      arena = std::max(arena, aligned(allocation.offset + allocation.bytes()));
    function->setAttr(arenaAttr, builder.getI64IntegerAttr(arena));
    int64_t constants = 0;
    for (Operation &op : block.without_terminator()) {
      if (isa<ConstantOp>(op)) {
        setPlaces(&op, {{PlaceSpace::constant, constants++, 0}});
        continue;
      }
      if (!isa<StructuredOpInterface>(op))
        continue;
      if (auto unpack = dyn_cast<UnpackOp>(op)) {
        setPlaces(&op, placesIn(unpack));
        continue;
      }
      if (isUnreadKernel(&op)) {
        setPlaces(&op, SmallVector<Place>(op.getNumResults()));
        continue;
      }
      SmallVector<Place> places;
      for (Value result : op.getResults()) {
        auto known = fixed.find(result);
        places.push_back(known != fixed.end() ? known->second : inArena(result));
      }
      setPlaces(&op, places);
      if (auto scratch = scratchOf.find(&op); scratch != scratchOf.end()) {
        const Allocation &allocation = allocations[scratch->second];
        op.setAttr(scratchAttr, builder.getDenseI64ArrayAttr({allocation.offset, allocation.bytes()}));
      }
    }
    for (int64_t &entry : staging)
      entry = entry < 0 ? -1 : allocations[entry].offset;
    block.getTerminator()->setAttr(stagingAttr, builder.getDenseI64ArrayAttr(staging));
  }
};

} // namespace

LogicalResult planMemory(func::FuncOp function, const PipelineOptions &options) {
  return Planner(function, options).run();
}

} // namespace tcc
