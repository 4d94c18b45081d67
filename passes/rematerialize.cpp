// rematerialize: computes values again shortly before they are read for the last time, instead of keeping them from
// forward to backward.
//   1. find where the step computes forwards (held_values.cpp), and there the ops after which fewest bytes are needed
//      to go on: between blocks. What is needed there are a block's borders;
//   2. choose the blocks between which borders are kept: those for which borders and the largest block's values are
//      smallest together, which is each block, or of many small ones about every √-th;
//   3. in the first `blocks` of them, what is read after the turn is made again by a copy of its op, and so is what the
//      copy reads, from the borders on. A copy stands before the first op that needs it. A copied kernel makes the
//      needed results alone, and takes those that are kept as operands;
//   4. elsewhere (`cheap`) that is done for what a kernel makes of values that are kept anyway;
//   5. with `borders`, only every √-th border is kept at first, and then 3 is done for the copies.
// A copy has the same bits: it is the same op on the same bits, and a kernel gets fewer results only where none of
// those left has a sum in it. Row statistics, and all that is as small, stay kept. Ops with bodies, custom ops and
// collectives, to which all ranks come in one order, are never copied. The copies of an op stand in no kernel of
// another: fusion has been done.
#include "ir/analyze_kernel.h"
#include "ir/names.h"
#include "ir/tensor_bytes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "passes/bodies.h"
#include "passes/held_values.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace mlir;

namespace tcc {
namespace {

constexpr int64_t mostSteps = 12;      // of choices with more and more blocks
constexpr size_t fewestForBorders = 4; // blocks of which borders are computed again
constexpr int64_t smallShare = 16; // a result that is so many times smaller than what its op reads or makes stays kept

int64_t bytesOf(Value value) {
  return byteSize(tensorType(value));
}

bool mayBeCopied(Operation *op) {
  return isa<StructuredOpInterface>(op) && isPure(op) && !isa<BodyOpInterface, CustomOp, CollectiveOpInterface>(op);
}

/// A row statistic, or as small as one.
bool isSmall(OpResult result) {
  int64_t largest = 0;
  for (ValueRange values : {ValueRange(result.getOwner()->getOperands()), ValueRange(result.getOwner()->getResults())})
    for (Value value : values)
      largest = std::max(largest, bytesOf(value));
  return bytesOf(result) * smallShare <= largest;
}

/// Calls back with each structured op's result or block argument that `value` is a view of.
void forEachRoot(Value value, llvm::function_ref<void(Value)> visit) {
  Operation *op = value.getDefiningOp();
  if (!op || isa<StructuredOpInterface>(op))
    return visit(value);
  for (Value operand : op->getOperands())
    forEachRoot(operand, visit);
}

/// The part of a kernel that makes some of its results out of operands and other results.
struct KernelSlice {
  SmallVector<OpResult> results, given; // `given` are results of the kernel that its copy takes as operands
  SmallVector<unsigned> operands;
  bool hasSums = false;
};

KernelSlice sliceOf(KernelOp kernel, ArrayRef<OpResult> results, llvm::function_ref<bool(OpResult)> isGiven) {
  KernelSlice slice;
  slice.results.assign(results.begin(), results.end());
  Block &body = kernel.getBody().front();
  auto yield = cast<YieldOp>(body.getTerminator());
  llvm::DenseMap<Value, OpResult> given;
  for (OpResult result : kernel->getResults())
    if (!llvm::is_contained(results, result) && isGiven(result))
      given.try_emplace(yield.getValues()[result.getResultNumber()], result);
  llvm::SetVector<Value> seen;
  for (OpResult result : results)
    seen.insert(yield.getValues()[result.getResultNumber()]);
  for (size_t next = 0; next < seen.size(); ++next) {
    Value value = seen[next];
    if (auto known = given.find(value); known != given.end()) {
      slice.given.push_back(known->second);
    } else if (auto argument = dyn_cast<BlockArgument>(value)) {
      slice.operands.push_back(argument.getArgNumber());
    } else {
      Operation *op = value.getDefiningOp();
      slice.hasSums |= !(isa<ElementwiseOpInterface, RandomBitsOp, ConstantOp, IotaOp>(op) || op->hasTrait<ViewOp>());
      seen.insert(op->operand_begin(), op->operand_end());
    }
  }
  llvm::sort(slice.operands);
  return slice;
}

/// The values of the kernel's region that a copy of the slice takes: operands, then results of the kernel.
SmallVector<Value> argumentsOf(KernelOp kernel, const KernelSlice &slice) {
  Block &body = kernel.getBody().front();
  SmallVector<Value> arguments;
  for (unsigned i : slice.operands)
    arguments.push_back(body.getArgument(i));
  for (OpResult result : slice.given)
    arguments.push_back(cast<YieldOp>(body.getTerminator()).getValues()[result.getResultNumber()]);
  return arguments;
}

SmallVector<Value> yieldsOf(KernelOp kernel, ArrayRef<OpResult> results) {
  auto yield = cast<YieldOp>(kernel.getBody().front().getTerminator());
  return llvm::map_to_vector(results, [&](OpResult result) { return yield.getValues()[result.getResultNumber()]; });
}

/// Whether the slice is a kernel that gives the bits of the whole one.
bool isKernel(KernelOp kernel, const KernelSlice &slice) {
  std::string refusal;
  SmallVector<Value> results = yieldsOf(kernel, slice.results), arguments = argumentsOf(kernel, slice);
  return !slice.hasSums && analyzeKernel(KernelView{results, arguments}, refusal).has_value();
}

/// Every `stride`-th of `places`, and the last one.
std::vector<unsigned> everyOf(const std::vector<unsigned> &places, size_t stride) {
  std::vector<unsigned> some;
  for (size_t i = 0; i < places.size(); i += stride)
    some.push_back(places[i]);
  if (!some.empty() && some.back() != places.back())
    some.push_back(places.back());
  return some;
}

/// A forward part of the function with its blocks.
class Part {
public:
  Part(const HeldValues &held, ForwardPart part) : held(held), part(part) {
    for (unsigned i = part.first; i <= part.turn; ++i)
      for (OpResult result : held.ops[i]->getResults())
        if (isDerived(result))
          derived.insert(result);
    findCuts();
  }

  /// The ops after which blocks end, by number. Blocks are between two of them.
  std::vector<unsigned> cuts;

  bool contains(unsigned number) const { return part.first <= number && number <= part.turn; }
  unsigned turn() const { return part.turn; }

  /// The last reader before the turn, or the op itself.
  unsigned lastForward(OpResult result) const {
    unsigned last = held.number(result.getOwner());
    for (unsigned reader : held.readers(result))
      last = reader <= part.turn ? std::max(last, reader) : last;
    return last;
  }
  bool isReadBack(OpResult result) const {
    ArrayRef<unsigned> readers = held.readers(result);
    return !readers.empty() && readers.back() > part.turn;
  }
  /// Whether an elementwise kernel makes the value of other results of its op and of the function's arguments.
  bool isDerived(OpResult result) const {
    auto kernel = dyn_cast<KernelOp>(result.getOwner());
    if (!kernel || isSmall(result))
      return false;
    KernelSlice slice =
        sliceOf(kernel, result, [&](OpResult other) { return isSmall(other) || !derived.contains(other); });
    return llvm::all_of(slice.operands, [&](unsigned i) { return isAtHand(kernel.getInputs()[i]); }) &&
           isKernel(kernel, slice);
  }

private:
  const HeldValues &held;
  ForwardPart part;
  llvm::DenseSet<OpResult> derived;

  /// An argument of the function, a literal, or a statistic from before this part.
  bool isAtHand(Value value) const {
    bool all = true;
    forEachRoot(value, [&](Value root) {
      auto result = dyn_cast<OpResult>(root);
      all &= !result || (isSmall(result) && held.number(result.getOwner()) < part.first);
    });
    return all;
  }

  /// For each op of the part, the bytes after it that a later one reads, and those that it makes.
  std::vector<int64_t> carriedBytes() const {
    std::vector<int64_t> bytes(part.turn - part.first + 2);
    for (unsigned i = part.first; i <= part.turn; ++i)
      for (OpResult result : held.ops[i]->getResults())
        if (!derived.contains(result)) {
          bytes[i - part.first] += bytesOf(result);
          bytes[std::max(lastForward(result), i + 1) - part.first] -= bytesOf(result);
        }
    for (size_t i = 1; i < bytes.size(); ++i)
      bytes[i] += bytes[i - 1];
    return bytes;
  }

  /// The ops after which little more is needed than anywhere in the middle of the part, and there something.
  std::vector<unsigned> narrowPlaces(const std::vector<int64_t> &carried) const {
    std::vector<unsigned> any, places;
    for (unsigned i = part.first; i < part.turn; ++i)
      if (carried[i - part.first] > 0)
        any.push_back(i);
    int64_t least = std::numeric_limits<int64_t>::max();
    for (size_t i = any.size() / 4; i < any.size() - any.size() / 4; ++i)
      least = std::min(least, carried[any[i] - part.first]);
    llvm::copy_if(any, std::back_inserter(places),
                  [&](unsigned i) { return carried[i - part.first] <= least + least / 4; });
    return places;
  }

  void findCuts() {
    const std::vector<int64_t> carried = carriedBytes();
    const std::vector<unsigned> places = narrowPlaces(carried);
    int64_t fewest = std::numeric_limits<int64_t>::max();
    for (size_t stride = 1; stride < places.size(); ++stride) {
      std::vector<unsigned> some = everyOf(places, stride);
      int64_t borders = 0, largest = 0;
      for (size_t i = 0; i < some.size(); ++i) {
        borders += carried[some[i] - part.first];
        largest = std::max(largest, i == 0 ? 0 : heldBetween(some[i - 1], some[i]));
      }
      if (borders + largest < fewest) {
        fewest = borders + largest;
        cuts = std::move(some);
      }
    }
  }

  int64_t heldBetween(unsigned after, unsigned last) const {
    int64_t bytes = 0;
    for (unsigned i = after + 1; i <= last; ++i)
      for (OpResult result : held.ops[i]->getResults())
        bytes += isReadBack(result) ? bytesOf(result) : 0;
    return bytes;
  }
};

/// Copies ops of one forward part for their readers after its turn.
class Copier {
public:
  Copier(const HeldValues &held, const Part &part) : held(held), part(part) {}

  std::vector<SmallVector<Operation *>> runs; // copies that stand before one reader, in their order

  /// Everything in the blocks between the cuts: what ends a block stays where the next one reads it.
  void chooseBlocks(ArrayRef<unsigned> cuts) {
    for (size_t block = 1; block < cuts.size(); ++block)
      for (unsigned i = cuts[block - 1] + 1; i <= cuts[block]; ++i)
        for (OpResult result : held.ops[i]->getResults()) {
          bool isBorder = i == cuts[block] || part.lastForward(result) > cuts[block];
          if (mayBeCopied(result.getOwner()) && !isSmall(result) && !held.isReturned(result) &&
              (!isBorder || part.isDerived(result)))
            chosen.insert(result);
        }
  }

  /// What elementwise kernels make of values that are kept anyway until it is read back.
  void chooseCheap() {
    llvm::DenseSet<OpResult> full = chosen;
    auto isKept = [&](Value value, unsigned until) {
      auto result = dyn_cast<OpResult>(value);
      if (!result)
        return true;
      ArrayRef<unsigned> readers = held.readers(value);
      return !chosen.contains(result) && !readers.empty() && readers.back() >= until;
    };
    for (unsigned i = part.turn() + 1; i-- > 0 && part.contains(i);) {
      auto kernel = dyn_cast<KernelOp>(held.ops[i]);
      for (OpResult result : held.ops[i]->getResults()) {
        if (!kernel || full.contains(result) || isSmall(result) || !part.isReadBack(result) ||
            held.isReturned(result) || part.lastForward(result) == i)
          continue;
        unsigned until = firstBack(result);
        KernelSlice slice =
            sliceOf(kernel, result, [&](OpResult other) { return isKept(other, until) && !chosen.contains(other); });
        bool kept = isKernel(kernel, slice);
        for (unsigned operand : slice.operands)
          forEachRoot(kernel.getInputs()[operand], [&](Value root) { kept &= isKept(root, until); });
        if (kept)
          chosen.insert(result);
      }
    }
  }

  void run() {
    for (unsigned i = part.turn() + 1; i < held.ops.size() - 1; ++i) {
      Operation *reader = held.ops[i];
      OpBuilder builder(reader);
      copies.clear();
      for (OpOperand &operand : reader->getOpOperands())
        operand.set(again(operand.get(), builder));
      if (!copies.empty())
        runs.push_back(copies);
    }
  }

private:
  const HeldValues &held;
  const Part &part;
  llvm::DenseSet<OpResult> chosen; // values that are not kept
  IRMapping made;                  // from values to their copies
  SmallVector<Operation *> copies; // for the reader at work

  unsigned firstBack(OpResult result) const {
    return *llvm::find_if(held.readers(result), [&](unsigned reader) { return reader > part.turn(); });
  }

  /// `value` as a reader after the turn gets it: itself, or a copy before the builder's place.
  Value again(Value value, OpBuilder &builder) {
    if (Value known = made.lookupOrNull(value))
      return known;
    Operation *op = value.getDefiningOp();
    if (!op || isa<ConstantOp>(op))
      return value;
    if (!isa<StructuredOpInterface>(op)) { // a view
      SmallVector<Value> operands = llvm::map_to_vector(op->getOperands(), [&](Value v) { return again(v, builder); });
      if (llvm::equal(operands, op->getOperands()))
        return value;
      Operation *view = builder.clone(*op);
      view->setOperands(operands);
      made.map(value, view->getResult(0));
      return view->getResult(0);
    }
    auto result = cast<OpResult>(value);
    if (!chosen.contains(result))
      return value;
    if (auto kernel = dyn_cast<KernelOp>(op))
      copyKernel(kernel, result, builder);
    else
      copyWhole(op, builder);
    return made.lookup(value);
  }

  void copyWhole(Operation *op, OpBuilder &builder) {
    SmallVector<Value> operands = llvm::map_to_vector(op->getOperands(), [&](Value v) { return again(v, builder); });
    Operation *copy = builder.clone(*op);
    copy->setOperands(operands);
    finish(copy);
    for (auto [result, again] : llvm::zip(op->getResults(), copy->getResults()))
      if (chosen.contains(result))
        made.map(result, again);
  }

  void finish(Operation *copy) {
    copy->setAttr(recomputedAttr, UnitAttr::get(copy->getContext()));
    copies.push_back(copy);
  }

  void copyKernel(KernelOp kernel, OpResult wanted, OpBuilder &builder) {
    SmallVector<OpResult> results;
    for (OpResult result : kernel->getResults())
      if (result == wanted || (chosen.contains(result) && part.isReadBack(result)))
        results.push_back(result);
    KernelSlice slice = sliceOf(kernel, results, [&](OpResult other) { return !chosen.contains(other); });
    if (!isKernel(kernel, slice))
      return copyWhole(kernel, builder);
    SmallVector<Value> operands;
    SmallVector<Type> types = llvm::map_to_vector(slice.results, [](OpResult r) { return r.getType(); });
    for (unsigned i : slice.operands)
      operands.push_back(again(kernel.getInputs()[i], builder));
    llvm::append_range(operands, slice.given);
    auto copy = KernelOp::create(builder, kernel.getLoc(), types, operands, kernel.getLabelAttr());
    Block &from = kernel.getBody().front(), &body = copy.getBody().emplaceBlock();
    IRMapping inside;
    for (Value argument : argumentsOf(kernel, slice))
      inside.map(argument, body.addArgument(argument.getType(), argument.getLoc()));
    llvm::SetVector<Operation *> needed;
    SmallVector<Value> yields = yieldsOf(kernel, slice.results), work = yields;
    while (!work.empty())
      if (Value value = work.pop_back_val(); !inside.contains(value) && needed.insert(value.getDefiningOp()))
        llvm::append_range(work, value.getDefiningOp()->getOperands());
    OpBuilder inner = OpBuilder::atBlockEnd(&body);
    for (Operation &op : from)
      if (needed.contains(&op))
        inner.clone(op, inside);
    YieldOp::create(inner, kernel.getLoc(), llvm::map_to_vector(yields, [&](Value v) { return inside.lookup(v); }));
    finish(copy);
    for (auto [result, again] : llvm::zip(slice.results, copy.getResults()))
      made.map(result, again);
  }
};

/// Steps 1 to 4 for one forward part; the copies, in runs that stand before one reader.
std::vector<SmallVector<Operation *>> recomputePart(const HeldValues &held, ForwardPart forward, int64_t blocks,
                                                    bool cheap, bool bordersToo) {
  Part part(held, forward);
  Copier copier(held, part);
  std::vector<unsigned> cuts = part.cuts;
  if (static_cast<uint64_t>(blocks) < cuts.size())
    cuts.resize(blocks == 0 ? 0 : blocks + 1);
  if (bordersToo && cuts.size() > fewestForBorders)
    cuts = everyOf(cuts, std::lround(std::sqrt(static_cast<double>(cuts.size() - 1))));
  copier.chooseBlocks(cuts);
  if (cheap)
    copier.chooseCheap();
  copier.run();
  return std::move(copier.runs);
}

void recompute(Block &block, const Recomputation &wanted) {
  std::vector<SmallVector<Operation *>> runs;
  const size_t count = HeldValues(block).forwardParts().size();
  for (size_t number = 0; number < count; ++number) {
    HeldValues held(block);
    std::vector<ForwardPart> parts = held.forwardParts(); // copies end in valleys: they are no parts of their own
    if (number < parts.size())
      llvm::append_range(runs, recomputePart(held, parts[number], wanted.blocks, wanted.cheap, wanted.borders));
  }
  if (wanted.borders)
    for (const SmallVector<Operation *> &run : runs) {
      HeldValues held(block);
      recomputePart(held, {held.number(run.front()), held.number(run.back())}, wanted.blocks, false, false);
    }
}

/// In bytes that are moved in the same time.
double timeOf(StructuredOpInterface op, const TargetModel &target) {
  return std::max(static_cast<double>(op.bytes(target.views)),
                  static_cast<double>(op.flops()) / target.padding.flopsPerByte);
}

struct Times {
  int64_t copies = 0;
  double again = 0, once = 0;
};

void addTimes(Block &block, double turns, const TargetModel &target, Times &times) {
  for (StructuredOpInterface op : block.getOps<StructuredOpInterface>()) {
    if (isa<BodyOpInterface>(op.getOperation())) {
      auto loop = dyn_cast<RepeatOp>(op.getOperation());
      for (Region &body : op->getRegions())
        addTimes(body.front(), loop ? turns * static_cast<double>(loop.getCount()) : turns, target, times);
      continue;
    }
    bool isCopy = op->hasAttr(recomputedAttr);
    times.copies += isCopy;
    (isCopy ? times.again : times.once) += turns * timeOf(op, target);
  }
}

/// The most blocks that a forward part of the function, or of a body in it, has.
int64_t mostBlocks(Block &block) {
  HeldValues held(block);
  int64_t most = 0;
  for (ForwardPart forward : held.forwardParts())
    most = std::max(most, static_cast<int64_t>(Part(held, forward).cuts.size()) - 1);
  for (auto op : block.getOps<BodyOpInterface>())
    for (Region &body : op->getRegions())
      most = std::max(most, mostBlocks(body.front()));
  return most;
}

} // namespace

std::vector<Recomputation> recomputationChoices(func::FuncOp fused) {
  std::vector<Recomputation> choices{{}, cheapRecomputation};
  const int64_t blocks = mostBlocks(fused.getBody().front());
  int64_t last = 0;
  for (int64_t step = 1; step <= mostSteps; ++step)
    if (int64_t some = blocks * step / mostSteps; some > std::exchange(last, std::max(last, some)) && some < blocks)
      choices.push_back({.cheap = true, .blocks = some});
  if (blocks > 0)
    choices.push_back(blockRecomputation);
  if (blocks >= static_cast<int64_t>(fewestForBorders))
    choices.push_back(fullRecomputation);
  return choices;
}

RecomputationCost recomputationCost(func::FuncOp fused, const PipelineOptions &options) {
  Times times;
  addTimes(fused.getBody().front(), 1, options.target, times);
  return {times.copies, times.once > 0 ? times.again / times.once : 0};
}

std::string recomputationText(const RecomputationCost &cost) {
  return llvm::formatv("{0} ops again (time {1:f0} % more, as predicted)", cost.ops, 100 * cost.share);
}

LogicalResult rematerialize(func::FuncOp function, const PipelineOptions &options) {
  if (!options.recomputation.isNone())
    recompute(function.getBody().front(), options.recomputation);
  return success();
}

} // namespace tcc
