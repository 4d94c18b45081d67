// plan-memory: gives every stored value a place.
//   1. results of the function are written straight to their output or, where every reader of the old value is done,
//      over the state they update; what cannot be is copied at the end;
//   2. a kernel's result takes over the buffer of an operand that dies there, where analyzeKernel's form allows it;
//   3. all other values and the products' scratch get offsets in one arena: largest first, at the lowest offset that is
//      free over their live range.
// The function stays tensor SSA; places are attributes. It never moves an op.
#include "ir/analyze_kernel.h"
#include "ir/strided_view.h"
#include "passes/memory_places.h"
#include "passes/passes.h"
#include "passes/pipeline.h"

using namespace mlir;

namespace tcc {
namespace {

constexpr int64_t alignment = 64;

int64_t aligned(int64_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// One range of arena bytes over one range of time; several values when they share it.
struct Allocation {
  int64_t bytes = 0;
  unsigned first = 0, last = 0; // positions of ops, both included
  int64_t offset = -1;
};

class Planner {
public:
  Planner(func::FuncOp function, const PipelineOptions &options)
      : function(function), block(function.getBody().front()), options(options), signature(function) {}

  LogicalResult run() {
    findUses();
    if (failed(checkUpdates()))
      return failure();
    placeReturned();
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
  llvm::DenseMap<Operation *, unsigned> position;
  llvm::DenseMap<Value, unsigned> lastUse;                    // of roots
  llvm::DenseMap<Value, SmallVector<Operation *, 4>> readers; // of roots
  llvm::DenseMap<Value, Place> fixed;                         // outside the arena
  llvm::DenseMap<Value, unsigned> allocationOf;
  std::vector<Allocation> allocations;
  llvm::DenseMap<Operation *, unsigned> scratchOf;
  llvm::DenseMap<Operation *, KernelInfo> infos;
  SmallVector<int64_t> staging; // allocation of each return operand, or -1

  void use(Value root, Operation *op) {
    lastUse[root] = std::max(lastUse.lookup(root), position[op]);
    readers[root].push_back(op);
  }

  Value returnRoot(Value value) {
    StridedView view = stridedView(value);
    return isDense(view) ? view.root : value;
  }

  void findUses() {
    unsigned next = 0;
    for (Operation &op : block)
      position[&op] = next++;
    for (Operation &op : block) {
      for (Value result : op.getResults())
        lastUse[result] = std::max(lastUse.lookup(result), position[&op]);
      if (auto product = dyn_cast<MatmulOp>(op)) {
        MatmulViews views = matmulViews(product);
        use(views.a.root, &op);
        use(views.b.root, &op);
      } else if (isa<KernelOp>(op)) {
        for (Value operand : op.getOperands())
          use(operand, &op);
        std::string refusal;
        infos[&op] = *analyzeKernel(cast<KernelOp>(op), refusal);
      } else if (isa<func::ReturnOp>(op)) {
        for (Value operand : op.getOperands())
          use(returnRoot(operand), &op);
      }
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
    for (Operation *reader : readers.lookup(state)) {
      if (reader == producer) {
        auto kernel = dyn_cast<KernelOp>(producer);
        if (!kernel)
          return false;
        for (auto [i, input] : llvm::enumerate(kernel.getInputs()))
          if (input == state && !mayShareBuffer(infos[producer], cast<OpResult>(value).getResultNumber(), i))
            return false;
      } else if (position[reader] > position[producer]) {
        return false;
      }
    }
    return true;
  }

  void placeReturned() {
    Operation *terminator = block.getTerminator();
    for (unsigned i = 0; i < terminator->getNumOperands(); ++i) {
      Value root = returnRoot(terminator->getOperand(i));
      if (isa<BlockArgument>(root) || !root.getDefiningOp()->hasTrait<StructuredOp>() || fixed.contains(root))
        continue;
      BlockArgument state = signature.updated(i);
      if (state && !mayReplaceState(root, state))
        continue;
      fixed[root] = signature.returned(i);
    }
  }

  void placeResults(Operation *op) {
    if (!op->hasTrait<StructuredOp>())
      return;
    llvm::DenseSet<unsigned> takenOver;
    for (OpResult result : op->getResults()) {
      if (fixed.contains(result))
        continue;
      int64_t bytes = byteSize(tensorType(result));
      if (auto kernel = dyn_cast<KernelOp>(op))
        if (std::optional<unsigned> shared = dyingOperand(kernel, result, takenOver)) {
          allocations[*shared].last = std::max(allocations[*shared].last, lastUse[result]);
          allocationOf[result] = *shared;
          takenOver.insert(*shared);
          continue;
        }
      allocationOf[result] = allocations.size();
      allocations.push_back({bytes, position[op], lastUse[result]});
    }
  }

  std::optional<unsigned> dyingOperand(KernelOp kernel, OpResult result, const llvm::DenseSet<unsigned> &takenOver) {
    const KernelInfo &info = infos[kernel];
    for (auto [i, input] : llvm::enumerate(kernel.getInputs())) {
      auto known = allocationOf.find(input);
      if (known == allocationOf.end() || takenOver.contains(known->second) ||
          allocations[known->second].last != position[kernel] ||
          byteSize(tensorType(input)) != byteSize(tensorType(result)) || byteSize(tensorType(result)) == 0)
        continue;
      // The same buffer under two operand numbers must allow it under both.
      bool allowed = true;
      for (auto [j, other] : llvm::enumerate(kernel.getInputs()))
        if (auto same = allocationOf.find(other); same != allocationOf.end() && same->second == known->second)
          allowed &= mayShareBuffer(info, result.getResultNumber(), j);
      if (allowed)
        return known->second;
    }
    return std::nullopt;
  }

  void placeScratchAndStaging() {
    for (Operation &op : block)
      if (auto product = dyn_cast<MatmulOp>(op))
        if (int64_t bytes = options.scratchBytes ? options.scratchBytes(product) : 0) {
          scratchOf[&op] = allocations.size();
          allocations.push_back({bytes, position[&op], position[&op]});
        }
    // A state that takes the old value of another is staged, since the other may be overwritten first.
    Operation *terminator = block.getTerminator();
    for (unsigned i = 0; i < terminator->getNumOperands(); ++i) {
      Value root = returnRoot(terminator->getOperand(i));
      bool fromState = isa<BlockArgument>(root) && signature.of(root).space == PlaceSpace::state;
      bool copies = fromState && signature.of(root) != signature.returned(i);
      staging.push_back(copies ? static_cast<int64_t>(allocations.size()) : -1);
      if (copies)
        allocations.push_back({byteSize(tensorType(root)), position[terminator], position[terminator]});
    }
  }

  void assignOffsets() {
    std::vector<unsigned> bySize(allocations.size());
    for (unsigned i = 0; i < bySize.size(); ++i)
      bySize[i] = i;
    llvm::sort(bySize, [&](unsigned a, unsigned b) {
      return std::pair(allocations[b].bytes, a) < std::pair(allocations[a].bytes, b);
    });
    std::vector<unsigned> placed; // by offset
    for (unsigned id : bySize) {
      Allocation &own = allocations[id];
      int64_t offset = 0;
      for (unsigned other : placed) {
        const Allocation &taken = allocations[other];
        if (taken.last < own.first || own.last < taken.first)
          continue;
        if (offset + own.bytes <= taken.offset)
          break;
        offset = std::max(offset, aligned(taken.offset + taken.bytes));
      }
      own.offset = offset;
      placed.insert(
          llvm::upper_bound(placed, id,
                            [&](unsigned a, unsigned b) { return allocations[a].offset < allocations[b].offset; }),
          id);
    }
    closeHoles(placed);
  }

  /// Bytes that no allocation ever covers are taken out: everything above them moves down.
  void closeHoles(const std::vector<unsigned> &byOffset) {
    int64_t covered = 0, removed = 0;
    for (unsigned id : byOffset) {
      Allocation &own = allocations[id];
      if (own.bytes == 0)
        continue;
      removed += std::max<int64_t>(0, own.offset - removed - covered);
      own.offset -= removed;
      covered = std::max(covered, aligned(own.offset + own.bytes));
    }
  }

  void write() {
    Builder builder(function.getContext());
    int64_t arena = 0;
    for (const Allocation &allocation : allocations)
      arena = std::max(arena, aligned(allocation.offset + allocation.bytes));
    function->setAttr(arenaAttr, builder.getI64IntegerAttr(arena));
    int64_t constants = 0;
    for (Operation &op : block.without_terminator()) {
      if (isa<ConstantOp>(op)) {
        setPlaces(&op, {{PlaceSpace::constant, constants++, 0}});
        continue;
      }
      if (!op.hasTrait<StructuredOp>())
        continue;
      SmallVector<Place> places;
      for (Value result : op.getResults()) {
        auto known = fixed.find(result);
        places.push_back(known != fixed.end() ? known->second
                                              : Place{PlaceSpace::arena, 0, allocations[allocationOf[result]].offset});
      }
      setPlaces(&op, places);
      if (auto scratch = scratchOf.find(&op); scratch != scratchOf.end()) {
        const Allocation &allocation = allocations[scratch->second];
        op.setAttr(scratchAttr, builder.getDenseI64ArrayAttr({allocation.offset, allocation.bytes}));
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
