// States in parts: with --zero, each rank keeps its part of the optimizer's states, and computes its part of an update.
//   1. a state is kept in parts (rank_parts.h) where all that is computed from it, up to next values of states, is
//      elementwise in its shape: what an element becomes then depends on the elements at its place alone;
//   2. these ops are computed on the rank's part. So are elementwise ops before them, up to sums over lanes of which
//      the rank has a part; any other value is computed whole, and the rank reads its part;
//   3. sums over rows of such values (the norm of gradients) are computed on parts too, and then go to all ranks
//      together;
//   4. next values of states that are whole, the parameters, go to all ranks in buckets (-fbucket=). With --zero=3 a
//      rank keeps its rows of them (parameter_parts.cpp);
//   5. an update that is not elementwise, as that of a matrix by Muon, or whose states have fewer rows than there are
//      ranks, has one rank as its owner (state_owners.cpp);
//   6. what is still read of sums over lanes goes to all ranks.
// An element's bits are those of one process: elementwise ops round each element alone, rows are added up alone, and
// random bits are drawn by the rows' numbers in the whole. Lists of arguments and results stay as they are; the types
// of states that are kept in parts become those of a part.
#include "ir/tensor_bytes.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/state_updates.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace tcc {
namespace {

using Values = SmallVector<Value>;

/// A value that the rank has a part of, and its uses that need the whole.
struct Gathered {
  Value part;
  Value whole; ///< what is replaced
};

class StateParts {
public:
  StateParts(const StateUpdates &updates, const KnownParts &known, const ParameterParts &parameters)
      : updates(updates), known(known), parameters(parameters) {
    for (const auto &[whole, own] : known)
      part[whole] = own;
    for (const auto &[whole, own] : parameters.wholes)
      part[whole] = own;
  }

  void run() {
    for (BlockArgument state : updates.states)
      choose(state);
    giveOwners(updates, updating);
    addUpRows();
    for (BlockArgument state : kept)
      part[state] = state; // of the part's type in the end
    for (Operation &op : llvm::make_early_inc_range(updates.block))
      if (updating.contains(&op)) {
        OpBuilder builder(&op);
        Emit emit(builder, op.getLoc());
        clonePart(emit, &op);
      }
    gatherStates();
    for (BlockArgument state : kept) {
      updates.setNext(state, part.lookup(updates.next(state)));
      state.setType(updates.parts.typeOf(tensorType(state)));
    }
    for (const auto &[state, own] : parameters.own) {
      OpBuilder builder(updates.end());
      Emit b(builder, state.getLoc());
      updates.setNext(state, partOf(b, updates.next(state))); // rows that are cut where the update is computed whole
    }
    for (Operation *op : updating)
      op->dropAllUses();
    for (Operation *op : updating)
      op->erase();
    eraseDead();
    keepRows();
    gatherSums();
  }

private:
  const StateUpdates &updates;
  const KnownParts &known;
  const ParameterParts &parameters;
  SmallVector<BlockArgument> kept;   // states that are kept in parts
  OpSet updating;                    // what is computed from those
  llvm::DenseMap<Value, Value> part; // of a value

  void choose(BlockArgument state) {
    if (!updates.isKeptInParts(state, updating))
      return;
    kept.push_back(state);
    remarkKept(state);
  }

  void remarkKept(BlockArgument state) const {
    updates.remark(state, Remark::Kind::passed,
                   llvm::formatv("is kept in {0} parts, here {1} bytes", updates.ranks.count,
                                 byteSize(updates.parts.typeOf(tensorType(state))))
                       .str());
  }

  /// Parameters become the rows that were cut from them, of which alone all is computed by now.
  void keepRows() {
    for (const auto &[state, own] : parameters.own) {
      remarkKept(state);
      BlockArgument rows = state;
      rows.setType(tensorType(own));
      Value cut = own;
      cut.replaceAllUsesWith(rows);
      cut.getDefiningOp()->erase();
    }
  }

  void clonePart(Emit &b, Operation *op) {
    IRMapping map;
    for (Value operand : op->getOperands())
      map.map(operand, partOf(b, operand));
    Operation *made = b.builder.clone(*op, map);
    for (auto [whole, own] : llvm::zip_equal(op->getResults(), made->getResults())) {
      own.setType(updates.parts.typeOf(tensorType(whole)));
      part[whole] = own;
    }
  }

  /// The rank's part of a value, made where `b` is.
  Value partOf(Emit &b, Value whole) {
    if (Value own = part.lookup(whole))
      return own;
    const RankedTensorType type = tensorType(whole), own = updates.parts.typeOf(type);
    Operation *op = whole.getDefiningOp();
    DenseElementsAttr literal;
    if (op && matchPattern(op, m_Constant(&literal)) && literal.isSplat())
      return part[whole] = b.create<ConstantOp>(own, literal.resizeSplat(own));
    if (auto spread = dyn_cast_if_present<BroadcastOp>(op)) {
      const RankedTensorType from = tensorType(spread.getX());
      if (from.getRank() < type.getRank() || from.getDimSize(0) == 1)
        return part[whole] = b.broadcast(spread.getX(), own.getShape());
    }
    if (auto bits = dyn_cast_if_present<RandomBitsOp>(op); bits && !bits.getLike())
      return part[whole] = randomBits(b, bits, own);
    if (op && op->getBlock() == &updates.block && isElementwise(op, type.getShape())) {
      clonePart(b, op);
      return part.lookup(whole);
    }
    return part[whole] = updates.parts.cut(b, whole);
  }

  /// The bits that the rank's rows have in the whole.
  Value randomBits(Emit &b, RandomBitsOp op, RankedTensorType own) {
    const int64_t row = updates.parts.firstRow(tensorType(op.getResult()));
    Value first = b.constant(static_cast<double>(row), RankedTensorType::get({}, b.i32()));
    if (op.getFirst())
      first = b.add(b.cast(op.getFirst(), b.i32()), first);
    return b.create<RandomBitsOp>(own, op.getSeed(), op.getStreamAttr(), first, Value());
  }

  /// Whether the value is elementwise of sums over lanes and literals alone; sets `found` where it is of a sum of which
  /// the rank has a part.
  bool isOfSums(Value value, ArrayRef<int64_t> shape, bool &found) const {
    if (known.contains(value))
      return found = true;
    Operation *op = value.getDefiningOp();
    if (op && matchPattern(op, m_Constant()))
      return true;
    return op && isElementwise(op, shape) &&
           llvm::all_of(op->getOperands(), [&](Value operand) { return isOfSums(operand, shape, found); });
  }

  /// A sum over all dims but the first, of values of which the rank has a part. One row alone may be added up in
  /// another order than one of several.
  bool isOfRows(ReduceSumOp op) const {
    const RankedTensorType type = tensorType(op.getX());
    bool found = false;
    return type.getRank() > 1 && llvm::equal(op.getAxes(), llvm::seq<int64_t>(1, type.getRank())) &&
           type.getDimSize(0) >= 2 * updates.ranks.count && isOfSums(op.getX(), type.getShape(), found) && found;
  }

  void addUpRows() {
    SmallVector<ReduceSumOp> sums;
    for (ReduceSumOp op : updates.block.getOps<ReduceSumOp>())
      if (isOfRows(op))
        sums.push_back(op);
    if (sums.empty())
      return;
    OpBuilder builder(updates.block.getParentOp()->getContext());
    builder.setInsertionPointAfter(lastSum());
    Emit b(builder, sums.front().getLoc());
    Values own;
    SmallVector<RankedTensorType> types;
    for (ReduceSumOp op : sums) {
      own.push_back(b.reduceSum(partOf(b, op.getX()), op.getAxes()));
      types.push_back(tensorType(op.getResult()));
    }
    for (auto [op, whole] : llvm::zip_equal(sums, updates.parts.gather(b, own, types)))
      op.getResult().replaceAllUsesWith(whole);
  }

  /// The op after which the rank has all its parts of sums over lanes.
  Operation *lastSum() const {
    Operation *last = nullptr;
    for (const auto &[whole, own] : known)
      for (Operation *op : {whole.getDefiningOp(), own.getDefiningOp()})
        if (!last || last->isBeforeInBlock(op))
          last = op;
    return last;
  }

  /// Values of one element type, in buckets.
  std::vector<SmallVector<Gathered>> bucketsOf(ArrayRef<Gathered> values) const {
    std::vector<SmallVector<Gathered>> buckets;
    llvm::MapVector<Type, SmallVector<Gathered>> open;
    llvm::DenseMap<Type, int64_t> bytes;
    for (const Gathered &value : values) {
      const Type element = tensorType(value.whole).getElementType();
      open[element].push_back(value);
      if ((bytes[element] += byteSize(tensorType(value.whole))) < updates.bucketBytes)
        continue;
      buckets.push_back(std::exchange(open[element], {}));
      bytes[element] = 0;
    }
    for (auto &[element, bucket] : open)
      if (!bucket.empty())
        buckets.push_back(std::move(bucket));
    return buckets;
  }

  Values gather(OpBuilder &builder, ArrayRef<Gathered> bucket) const {
    Emit b(builder, bucket.front().whole.getLoc());
    const Values own = llvm::map_to_vector(bucket, [](const Gathered &value) { return value.part; });
    return updates.parts.gather(
        b, own, llvm::map_to_vector(bucket, [](const Gathered &value) { return tensorType(value.whole); }));
  }

  /// Next values of whole states are what all ranks have computed of them.
  void gatherStates() {
    SmallVector<Gathered> values;
    llvm::DenseMap<Value, BlockArgument> stateOf;
    for (BlockArgument state : updates.states)
      if (Value whole = updates.next(state); updating.contains(whole.getDefiningOp()) &&
                                             !llvm::is_contained(kept, state) && !parameters.own.contains(state)) {
        values.push_back({part.lookup(whole), whole});
        stateOf[whole] = state;
      }
    OpBuilder builder(updates.end());
    for (const SmallVector<Gathered> &bucket : bucketsOf(values))
      for (auto [value, whole] : llvm::zip_equal(bucket, gather(builder, bucket)))
        updates.setNext(stateOf.lookup(value.whole), whole);
  }

  /// All but the sums over lanes, about whose uses is asked afterwards, and the rows of parameters.
  void eraseDead() {
    OpSet asked;
    for (const auto &[whole, own] : known)
      asked.insert(own.getDefiningOp());
    for (const auto &[state, own] : parameters.own)
      asked.insert(own.getDefiningOp());
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(updates.block)))
      if (isOpTriviallyDead(&op) && !isa<LanesOp>(op) && !asked.contains(&op))
        op.erase();
  }

  void gatherSums() {
    SmallVector<Gathered> values;
    for (const auto &[whole, own] : known)
      if (!whole.use_empty())
        values.push_back({own, whole});
    if (values.empty())
      return;
    OpBuilder builder(updates.block.getParentOp()->getContext());
    builder.setInsertionPointAfter(lastSum());
    for (const SmallVector<Gathered> &bucket : bucketsOf(values))
      for (auto [value, whole] : llvm::zip_equal(bucket, gather(builder, bucket))) {
        Value sum = value.whole;
        sum.replaceAllUsesWith(whole);
      }
  }
};

} // namespace

void shareOutStates(func::FuncOp function, const PipelineOptions &options, const KnownParts &known,
                    const ParameterParts &parameters) {
  const StateUpdates updates(function, options);
  StateParts(updates, known, parameters).run();
  function.setType(
      FunctionType::get(function.getContext(), updates.block.getArgumentTypes(), updates.end()->getOperandTypes()));
}

} // namespace tcc
