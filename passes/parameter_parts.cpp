// Parameters in parts: with --zero=3, each rank keeps its rows of them (rank_parts.h), which it updates.
//   1. a parameter is kept in parts where lanes read it, or where its next value is computed in parts, since the
//      optimizer's states are (state_parts.cpp). What has fewer rows than there are ranks stays whole on each;
//   2. lanes read the rank's rows, and gather the whole (tcc.all_gather) where they need it. The reads of a body, in
//      their order, are cut into windows of parameters that together have -fbucket= bytes, but no more than an eighth
//      of all parameters (at least one). A window is gathered right before the first read of the window before it, so
//      that the gathers run beside what that one feeds. Parameters of one element type have one gather, but a large
//      one, whose rows the ranks have equally many of, has its own: its result is the whole, which nothing copies. What
//      the forward has read is free until the backward reads it, in a window of its own. What only arranges a parameter
//      is computed anew in each window;
//   3. a loop in the body, over micro-batches, gathers in its own body;
//   4. where lanes read a conversion of a parameter, what is gathered are its elements before;
//   5. ops other than lanes and updates in parts read a whole that is gathered right before the first of them. So does
//      an update that is not elementwise, as that of a matrix by Muon, of whose result the rank keeps its rows.
// Every lane comes to the same gathers, so all ranks must have equally many lanes in equal loops: distribute() refuses
// others.
#include "ir/tensor_bytes.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/collective_order.h"
#include "passes/state_updates.h"

using namespace mlir;

namespace tcc {
namespace {

using Values = SmallVector<Value>;

/// Ops that only arrange what parameters hold, such as the broadcast of a gain, are written again before each op that
/// reads them: a result that forward and backward share would keep all of a window in memory between them.
void sinkViews(Block &block, ArrayRef<Value> parameters) {
  llvm::SmallSetVector<Value, 16> known(parameters.begin(), parameters.end());
  SmallVector<Operation *> views;
  for (Operation &op : block)
    if (isa<BroadcastOp, ReshapeOp, TransposeOp, SliceOp, CastOp, ConcatOp>(op) &&
        llvm::all_of(op.getOperands(), [&](Value operand) { return known.contains(operand); })) {
      views.push_back(&op);
      known.insert(op.getResult(0));
    }
  for (Operation *view : llvm::reverse(views)) {
    for (OpOperand &use : llvm::make_early_inc_range(view->getUses())) {
      OpBuilder builder(use.getOwner());
      use.set(builder.clone(*view)->getResult(0));
    }
    view->erase();
  }
}

/// A parameter as the ops of one block read it.
struct Reads {
  Value own;              ///< the rank's rows
  RankedTensorType whole; ///< the parameter's type
  Type element;           ///< what it is converted to for these uses
  SmallVector<OpOperand *> uses;
};

/// Parameters that are gathered together.
struct Group {
  Values own;
  SmallVector<RankedTensorType> types; // of the wholes
};

class ParameterReads {
public:
  ParameterReads(const StateUpdates &updates, int64_t windowBytes) : updates(updates), windowBytes(windowBytes) {}

  /// Lets these uses, which are in one block, read gathered values.
  void gatherIn(ArrayRef<Reads> parameters) {
    SmallVector<Read> reads;
    llvm::MapVector<RepeatOp, SmallVector<Reads>> inside;
    for (const auto &[number, parameter] : llvm::enumerate(parameters))
      for (OpOperand *use : parameter.uses)
        if (!enter(*use, parameter, inside))
          reads.push_back({use, use->getOwner(), static_cast<unsigned>(number)});
    llvm::stable_sort(reads, [](const Read &a, const Read &b) { return a.op != b.op && a.op->isBeforeInBlock(b.op); });
    Operation *place = reads.empty() ? nullptr : reads.front().op;
    for (size_t begin = 0, end = 0; begin < reads.size(); begin = end) {
      end = endOfWindow(parameters, reads, begin);
      gather(parameters, ArrayRef(reads).slice(begin, end - begin), place);
      place = reads[begin].op;
    }
    for (const auto &[loop, own] : inside)
      gatherIn(own);
  }

  /// A whole parameter of this rank's rows, gathered where `b` is.
  Value whole(Emit &b, Value own, RankedTensorType type) {
    ++windows;
    return updates.parts.wholesOf(b, gatherParts(b, {{own}, {type}}), type).front();
  }

private:
  const StateUpdates &updates;
  const int64_t windowBytes;
  int64_t windows = 0;

  bool hasOwnGather(RankedTensorType whole) const {
    return whole.getDimSize(0) % updates.ranks.count == 0 && byteSize(whole) >= windowBytes / 4;
  }

  Value gatherParts(Emit &b, const Group &group) const {
    Value all = updates.parts.gatherParts(b, group.own, group.types);
    Operation *op = all.getDefiningOp();
    while (!isa<AllGatherOp>(op)) // views of it
      op = op->getOperand(0).getDefiningOp();
    op->setAttr(parameterAttr, b.builder.getI64IntegerAttr(windows));
    return all;
  }

  struct Read {
    OpOperand *use;
    Operation *op;
    unsigned parameter;
  };

  /// Where a loop has the parameter as an input, it gets the rows in its place, and its body reads them. Gives whether
  /// that is so.
  static bool enter(OpOperand &use, const Reads &parameter, llvm::MapVector<RepeatOp, SmallVector<Reads>> &inside) {
    auto loop = dyn_cast<RepeatOp>(use.getOwner());
    const unsigned before = loop ? loop.getStart().size() + loop.getScanned().size() : 0;
    if (!loop || use.getOperandNumber() < before)
      return false;
    BlockArgument argument = loop.getBody().getArgument(use.getOperandNumber());
    sinkViews(loop.getBody().front(), Value(argument));
    Reads own{argument, parameter.whole, parameter.element, {}};
    for (OpOperand &each : argument.getUses())
      own.uses.push_back(&each);
    argument.setType(parameter.own.getType());
    use.set(parameter.own);
    inside[loop].push_back(std::move(own));
    return true;
  }

  size_t endOfWindow(ArrayRef<Reads> parameters, ArrayRef<Read> reads, size_t begin) const {
    llvm::SmallSetVector<Value, 8> seen;
    int64_t bytes = 0;
    for (size_t i = begin; i < reads.size(); ++i) {
      const Reads &parameter = parameters[reads[i].parameter];
      if (!seen.insert(parameter.own))
        continue;
      bytes += byteSize(parameter.whole);
      if (bytes > windowBytes && i > begin)
        return i;
    }
    return reads.size();
  }

  /// Gathers what the window reads, before `place`.
  void gather(ArrayRef<Reads> parameters, ArrayRef<Read> window, Operation *place) {
    OpBuilder early(place), late(window.front().op);
    Emit b(early, window.front().op->getLoc()), atRead(late, b.loc);
    std::vector<Group> groups;
    llvm::DenseMap<Type, size_t> groupOf; // by element type
    llvm::DenseMap<Value, Value> wholes;
    for (const Read &read : window) {
      const Reads &parameter = parameters[read.parameter];
      if (!wholes.try_emplace(parameter.own).second)
        continue;
      size_t number = groups.size();
      if (!hasOwnGather(parameter.whole))
        number = groupOf.try_emplace(parameter.whole.getElementType(), number).first->second;
      if (number == groups.size())
        groups.emplace_back();
      groups[number].own.push_back(parameter.own);
      groups[number].types.push_back(parameter.whole);
    }
    ++windows;
    for (const Group &group : groups) {
      Value all = gatherParts(b, group);
      for (auto [own, whole] : llvm::zip_equal(group.own, updates.parts.wholesOf(atRead, all, group.types)))
        wholes[own] = whole;
    }
    for (const Read &read : window) {
      const Reads &parameter = parameters[read.parameter];
      read.use->set(atRead.cast(wholes.lookup(parameter.own), parameter.element));
    }
  }
};

class Parameters {
public:
  Parameters(func::FuncOp function, const PipelineOptions &options) : updates(function, options) {}

  ParameterParts run() {
    choose();
    int64_t bytes = 0;
    for (const auto &[state, own] : made.own)
      bytes += byteSize(tensorType(state));
    ParameterReads reads(updates, std::min(updates.bucketBytes, bytes / 8));
    for (LanesOp lanes : updates.block.getOps<LanesOp>())
      gatherInLanes(lanes, reads);
    for (const auto &[state, own] : made.own)
      gatherForOthers(state, own, reads);
    return std::move(made);
  }

private:
  const StateUpdates updates;
  OpSet updating;
  ParameterParts made;

  void choose() {
    llvm::DenseSet<Value> kept;
    for (BlockArgument state : updates.states)
      if (updates.isKeptInParts(state, updating))
        kept.insert(state);
    OpBuilder builder = OpBuilder::atBlockBegin(&updates.block);
    for (BlockArgument state : updates.states) {
      const bool isUpdatedInParts = updating.contains(updates.next(state).getDefiningOp());
      if (kept.contains(state) || (!isUpdatedInParts && !isReadByLanes(state)))
        continue;
      if (!updates.parts.areOf(tensorType(state))) {
        updates.remark(state, Remark::Kind::missed, "is whole on each rank: it has fewer rows than there are ranks");
        continue;
      }
      Emit b(builder, state.getLoc());
      made.wholes[state] = made.own[state] = updates.parts.cut(b, state);
    }
  }

  static bool isReadByLanes(Value value) {
    return llvm::any_of(value.getUsers(), [](Operation *user) {
      return isa<LanesOp>(user) || (isa<CastOp>(user) && isReadByLanes(user->getResult(0)));
    });
  }

  /// The parameter that a value is, or is a conversion of; null where it is none that is kept in parts.
  BlockArgument parameterOf(Value value) const {
    if (auto cast = value.getDefiningOp<CastOp>())
      value = cast.getX();
    auto argument = dyn_cast<BlockArgument>(value);
    return argument && made.own.contains(argument) ? argument : BlockArgument();
  }

  void gatherInLanes(LanesOp lanes, ParameterReads &reads) {
    Values read;
    for (OpOperand &input : lanes.getInputsMutable())
      if (parameterOf(input.get()))
        read.push_back(lanes.getBody().getArgument(input.getOperandNumber()));
    sinkViews(lanes.getBody().front(), read);
    llvm::MapVector<BlockArgument, Value> arguments; // by parameter: the rows in the body
    SmallVector<Reads> inside;
    for (OpOperand &input : lanes.getInputsMutable()) {
      BlockArgument state = parameterOf(input.get());
      if (!state)
        continue;
      BlockArgument argument = lanes.getBody().getArgument(input.getOperandNumber());
      Value &rows = arguments[state];
      if (!rows)
        rows = argument;
      Reads own{rows, tensorType(state), tensorType(argument).getElementType(), {}};
      for (OpOperand &use : argument.getUses())
        own.uses.push_back(&use);
      inside.push_back(std::move(own));
      input.set(made.own.lookup(state));
      argument.setType(input.get().getType());
    }
    reads.gatherIn(inside);
  }

  /// What neither lanes nor updates in parts read.
  void gatherForOthers(BlockArgument state, Value own, ParameterReads &reads) {
    SmallVector<OpOperand *> uses;
    Operation *first = nullptr;
    for (OpOperand &use : state.getUses()) {
      Operation *user = use.getOwner();
      if (user == own.getDefiningOp() || updating.contains(user) || isOpTriviallyDead(user))
        continue;
      uses.push_back(&use);
      if (!first || user->isBeforeInBlock(first))
        first = user;
    }
    if (!first)
      return;
    OpBuilder builder(first);
    Emit b(builder, first->getLoc());
    Value whole = reads.whole(b, own, tensorType(state));
    made.wholes[whole] = own;
    for (OpOperand *use : uses)
      use->set(whole);
  }
};

} // namespace

ParameterParts shareOutParameters(func::FuncOp function, const PipelineOptions &options) {
  return Parameters(function, options).run();
}

} // namespace tcc
