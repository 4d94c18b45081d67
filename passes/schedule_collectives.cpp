// schedule-collectives: puts collectives of ranks where they run beside other ops.
//   1. collectives start in the order of their numbers, in which they stand (collective_order.h). One whose operands no
//      other collective gives starts right after the op that computes the last of them, with what stands there for it
//      alone (loops that add up sums, kernels that were joined with those of other collectives, views). One that needs
//      an earlier collective stands in the middle of what runs up to the next that does not: the earlier one has had
//      time, and it has some itself. Those after the last of these start early, each after the one before it with what
//      it alone is computed from, so that the gathers of updated parameters run beside other updates;
//      Gathers of parameters in parts (--zero=3) need arguments alone; those of a window start before the first op that
//      reads the window before it;
//   2. each gets a flight and a tcc.wait before the first op that reads its results. Where that is the next op, nothing
//      would run beside it, and it stays one op.
// A tcc.wait that somebody has written is placed anew.
// It never changes what is computed.
#include "ir/names.h"
#include "ir/tensor_bytes.h"
#include "mlir/IR/Builders.h"
#include "passes/collective_order.h"
#include "passes/joined_kernels.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include "passes/stages.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace tcc {
namespace {

class Collectives {
public:
  Collectives(Block &block, Remarks *remarks) : block(block), remarks(remarks) {
    for (Operation &op : block)
      if (isExchange(&op) || (isa<BodyOpInterface>(op) && placeInOrder(&op)))
        all.push_back(&op);
  }

  void run() {
    if (all.empty())
      return;
    removeWaits();
    number();
    place();
    number();
    int64_t flight = 0;
    for (Operation *op : all)
      if (isExchange(op))
        wait(op, flight);
  }

private:
  Block &block;
  Remarks *remarks;
  SmallVector<Operation *> all; // in order, and bodies with collectives, which stay where they are
  llvm::DenseMap<Operation *, unsigned> position;

  void removeWaits() {
    for (WaitOp wait : llvm::make_early_inc_range(block.getOps<WaitOp>()))
      wait.erase();
    for (Operation *op : all)
      op->removeAttr("flight");
  }

  void number() {
    unsigned next = 0;
    for (Operation &op : block)
      position[&op] = next++;
  }

  static bool isStructured(Operation *op) { return isa<StructuredOpInterface>(op); }
  /// Whether it does anything, so that a collective beside it is hidden.
  static bool runs(Operation *op) { return isStructured(op) && !isa<WaitOp, UnpackOp>(op); }

  /// Whether the op goes where the collective goes: nothing else reads what it gives, and it is a loop of one turn, or
  /// a kernel that was joined with others that may feed other collectives.
  static bool goesWith(Operation *op, Operation *collective) {
    auto loop = dyn_cast<RepeatOp>(op);
    return ((loop && loop.getCount() == 1) || joinedGroup(op) || !isStructured(op)) &&
           llvm::all_of(op->getUsers(), [&](Operation *user) {
             return user == collective || (!user->hasTrait<OpTrait::IsTerminator>() && goesWith(user, collective));
           });
  }

  /// Whether an earlier collective gives what the op is computed from, by ops that stand after that collective. Gathers
  /// of parameters do not count: all that a lane computes comes of them.
  bool needsCollective(Operation *op, llvm::DenseMap<Operation *, bool> &known) {
    if (auto found = known.find(op); found != known.end())
      return found->second;
    bool needs = false;
    for (Value operand : op->getOperands())
      if (Operation *producer = operand.getDefiningOp())
        needs |= (isExchange(producer) && !gathersParameters(producer)) ||
                 (position[producer] > position[all.front()] && needsCollective(producer, known));
    return known[op] = needs;
  }

  /// The last op that must have run before the collective and what goes with it.
  Operation *lastBefore(Operation *op, Operation *collective) {
    Operation *last = nullptr;
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (producer && (!isStructured(producer) || goesWith(producer, collective)))
        producer = lastBefore(producer, collective);
      if (producer && (!last || last->isBeforeInBlock(producer)))
        last = producer;
    }
    return last;
  }

  void place() {
    llvm::DenseMap<Operation *, bool> known;
    SmallVector<Operation *> pending; // collectives that need an earlier one
    Operation *before = nullptr;      // the collective that started last
    GatheredWindows windows;
    for (Operation *op : all) {
      if (!isExchange(op)) {
        pending.clear();
        before = op;
        continue;
      }
      if (needsCollective(op, known)) {
        pending.push_back(op);
        continue;
      }
      windows.add(op);
      Operation *at = lastBefore(op, op);
      if (before && (!at || at->isBeforeInBlock(before)))
        at = before;
      if (!at) { // of arguments alone
        before = op;
        continue;
      }
      if (Operation *place = placeOfGather(op, windows); place && at->isBeforeInBlock(place))
        at = place;
      at = endOfGroup(at);
      Operation *middle = endOfGroup(middleOf(before, at));
      const bool isEarlier = middle->isBeforeInBlock(at);
      for (Operation *other : llvm::drop_begin(pending, countOfFixed(pending, middle)))
        middle = moveAfter(other, middle);
      pending.clear();
      before = moveAfter(op, isEarlier ? at : middle);
    }
    startEarly(pending, before);
  }

  /// The op in the middle of those that run after `begin`, up to `end`; without `begin`, `end`.
  static Operation *middleOf(Operation *begin, Operation *end) {
    if (!begin)
      return end;
    SmallVector<Operation *> between{begin};
    for (Operation *op = begin; op != end; op = op->getNextNode())
      if (runs(op->getNextNode()))
        between.push_back(op->getNextNode());
    return between.size() > 1 ? between[between.size() / 2] : end;
  }

  static bool gathersParameters(Operation *op) { return op->hasAttr(parameterAttr); }

  /// The gathers of the window that was met last, and of the one before it.
  struct GatheredWindows {
    SmallVector<Operation *> before, last;

    void add(Operation *op) {
      if (!gathersParameters(op))
        return;
      if (!last.empty() && last.front()->getAttr(parameterAttr) != op->getAttr(parameterAttr))
        before = std::exchange(last, {});
      last.push_back(op);
    }
  };

  /// Where `op` starts if it gathers parameters: right before the first reader of the window before its own, so that
  /// two windows are in memory, or where it stands if that is earlier. Null for other ops.
  static Operation *placeOfGather(Operation *op, const GatheredWindows &windows) {
    if (!gathersParameters(op))
      return nullptr;
    Operation *reader = nullptr;
    for (Operation *gather : windows.before)
      if (Operation *first = firstReader(gather); first && (!reader || first->isBeforeInBlock(reader)))
        reader = first;
    if (!reader)
      return nullptr;
    Operation *place = reader->getPrevNode();
    return place && place->isBeforeInBlock(op) ? place : op->getPrevNode();
  }

  /// Starts the `last` collectives early, such as the gathers of updated parameters. Each is moved to after the one
  /// before it, with what it is computed from and no more, so that it has started when the next one's values are
  /// computed. What the host waits for comes first.
  void startEarly(ArrayRef<Operation *> last, Operation *before) {
    for (Operation &op : block)
      if (!last.empty() && stageOf(&op) && before->isBeforeInBlock(&op))
        before = endOfGroup(&op);
    for (Operation *op : last)
      if (before->isBeforeInBlock(op))
        before = moveAfter(op, before);
      else
        before = op;
  }

  /// The last of the kernels that are joined with the op, which stay side by side.
  static Operation *endOfGroup(Operation *op) {
    while (joinedGroup(op) && op->getNextNode() && joinedGroup(op->getNextNode()) == joinedGroup(op))
      op = op->getNextNode();
    return op;
  }

  /// How many of the ops must start before `place`: those up to the last that is read before it.
  static size_t countOfFixed(ArrayRef<Operation *> ops, Operation *place) {
    size_t fixed = 0;
    for (auto [number, op] : llvm::enumerate(ops))
      if (llvm::any_of(op->getUsers(), [&](Operation *user) { return !place->isBeforeInBlock(user); }))
        fixed = number + 1;
    return fixed;
  }

  /// The first op that touches what the value is in memory.
  static Operation *firstReader(Operation *op) {
    Operation *first = nullptr;
    for (Operation *user : op->getUsers()) {
      const bool touches = isStructured(user) || user->hasTrait<OpTrait::IsTerminator>();
      Operation *reader = touches ? user : firstReader(user);
      if (reader && (!first || reader->isBeforeInBlock(first)))
        first = reader;
    }
    return first;
  }

  void wait(Operation *op, int64_t &flight) {
    Operation *reader = firstReader(op);
    if (!reader)
      reader = block.getTerminator();
    while (joinedGroup(reader) && reader->getPrevNode() && joinedGroup(reader->getPrevNode()) == joinedGroup(reader))
      reader = reader->getPrevNode(); // joined kernels stay side by side
    int64_t beside = 0;
    for (Operation *each = op->getNextNode(); each != reader; each = each->getNextNode())
      beside += runs(each);
    if (beside == 0)
      return remark(op, Remark::Kind::missed, "is waited for at once");
    OpBuilder builder(reader);
    op->setAttr("flight", builder.getI64IntegerAttr(++flight));
    WaitOp::create(builder, op->getLoc(), op->getResults());
    if (remarks)
      remark(op, Remark::Kind::passed,
             llvm::formatv("runs beside {0} op{1}, {2}", beside, beside == 1 ? "" : "s", between(op, reader)).str());
  }

  /// The names of the first and of the last op beside which the collective is in flight.
  static std::string between(Operation *op, Operation *reader) {
    const auto structured = [](Operation *each, bool forward) {
      do
        each = forward ? each->getNextNode() : each->getPrevNode();
      while (!runs(each));
      auto kernel = dyn_cast<KernelOp>(each);
      return kernel && kernel.getLabel() ? kernel.getLabel()->str() : nameOf(each).str();
    };
    return "from '" + structured(op, true) + "' to '" + structured(reader, false) + "'";
  }

  void remark(Operation *op, Remark::Kind kind, const std::string &text) {
    if (!remarks)
      return;
    int64_t bytes = 0;
    for (Value operand : op->getOperands())
      bytes += byteSize(tensorType(operand));
    remarks->push_back({kind, "schedule-collectives", op->getLoc(),
                        llvm::formatv("{0} of {1} bytes {2}", op->getName().stripDialect(), bytes, text).str()});
  }
};

} // namespace

LogicalResult scheduleCollectives(func::FuncOp function, const PipelineOptions &options) {
  Collectives(function.getBody().front(), options.remarks).run();
  return success();
}

} // namespace tcc
