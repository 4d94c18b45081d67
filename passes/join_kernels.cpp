// Joining equal kernels, a part of schedule:
//   1. each structured op gets a slot, its position; ops that must stay in order are linked: a value's producer and its
//      readers, a state's readers and the op that writes its next value;
//   2. kernels with equal forms are one class (what is emitted decides, nothing earlier);
//   3. from the last op to the first, a kernel moves to the slot of a later one of its class, the nearest that its
//      readers allow; then, from the first to the last, what is left moves to an earlier one;
//   4. a move that would make the fullest point fuller than allowed is not made: joined kernels keep their operands
//      alive until the last of them has what it needs;
//   5. the ops are written in the order of their slots, and those of one slot get a number.
// It never changes what a kernel computes; a group's members do not depend on each other.
#include "ir/known_kernels.h"
#include "passes/joined_kernels.h"
#include "passes/memory_places.h"
#include "passes/memory_uses.h"
#include "passes/stages.h"
#include "passes/target_model.h"
#include "llvm/ADT/SetVector.h"
#include <map>
#include <set>
#include <unordered_map>

using namespace mlir;

namespace tcc {
namespace {

constexpr unsigned mostTries = 8; // groups of its class that a kernel is offered, in each direction

class Joiner {
public:
  Joiner(Block &block, const TargetModel &target) : block(block), alignment(target.alignment) {
    findOps();
    findLinks();
    findClasses();
    findValues(target.views);
    most = *std::max_element(live.begin(), live.end()) + target.joinedBytes;
  }

  void run() {
    bool changed = false;
    for (size_t slot = ops.size(); slot-- > 0;)
      changed |= moveToAnother(slot, true);
    for (size_t slot = 0; slot < ops.size(); ++slot)
      changed |= moveToAnother(slot, false);
    if (changed)
      write();
  }

private:
  /// The first and the last slot that a value lives through.
  struct Span {
    unsigned first = 0, last = 0;
  };

  /// What a structured op gives, where it is stored in the arena.
  struct StoredValue {
    int64_t bytes = 0;
    unsigned producer = 0;
    SmallVector<unsigned, 4> readers;
    Span span = {};
  };

  Block &block;
  int64_t alignment;
  std::vector<Operation *> ops; // structured ones, in their first order; known by number
  llvm::DenseMap<Operation *, unsigned> number;
  std::vector<unsigned> slotOf;                  // by op
  std::vector<SmallVector<unsigned, 2>> inSlot;  // ops
  std::vector<llvm::SetVector<unsigned>> before; // by op: those that must stand in earlier slots,
  std::vector<llvm::SetVector<unsigned>> after;  // … and in later ones
  std::vector<int> classOf;                      // by op: -1 for all but kernels
  std::vector<std::set<unsigned>> slotsOfClass;  // that hold ops of the class
  std::vector<StoredValue> stored;
  std::vector<SmallVector<unsigned, 4>> storedOf; // by op: values that it gives or reads
  std::vector<int64_t> live;                      // bytes, by slot
  int64_t most = 0;

  //===- step 1 ------------------------------------------------------------------------------------------------===//

  void findOps() {
    for (Operation &op : block.without_terminator())
      if (isa<StructuredOpInterface>(op)) {
        number[&op] = ops.size();
        slotOf.push_back(ops.size());
        inSlot.push_back({static_cast<unsigned>(ops.size())});
        ops.push_back(&op);
      }
    before.resize(ops.size());
    after.resize(ops.size());
  }

  /// Calls back with each structured op's result or block argument that `op` reads, through views.
  static void forEachRead(Operation *op, llvm::function_ref<void(Value)> visit) {
    SmallVector<Value> work(op->getOperands());
    while (!work.empty()) {
      Value value = work.pop_back_val();
      Operation *producer = value.getDefiningOp();
      if (!producer || isa<StructuredOpInterface>(producer))
        visit(value);
      else
        llvm::append_range(work, producer->getOperands());
    }
  }

  void link(unsigned first, unsigned second) {
    after[first].insert(second);
    before[second].insert(first);
  }

  void findLinks() {
    llvm::DenseMap<Value, SmallVector<unsigned, 2>> readers; // of arguments
    for (auto [i, op] : llvm::enumerate(ops))
      forEachRead(op, [&](Value value) {
        if (Operation *producer = value.getDefiningOp())
          link(number[producer], i);
        else
          readers[value].push_back(i);
      });
    auto function = cast<func::FuncOp>(block.getParentOp());
    SignaturePlaces signature(function);
    for (unsigned i = 0; i < function.getNumResults(); ++i) {
      BlockArgument state = signature.updated(i);
      Operation *update = denseRoot(block.getTerminator()->getOperand(i)).getDefiningOp();
      auto known = update ? number.find(update) : number.end();
      if (!state || known == number.end())
        continue;
      for (unsigned reader : readers.lookup(state))
        if (reader < known->second)
          link(reader, known->second);
    }
  }

  //===- step 2 ------------------------------------------------------------------------------------------------===//

  void findClasses() {
    std::unordered_multimap<size_t, std::pair<KernelInfo, int>> known;
    std::map<std::shared_ptr<const KnownKernel>, int> seen; // the classes of forms that are one object
    std::optional<int64_t> stage;
    classOf.assign(ops.size(), -1);
    for (auto [i, op] : llvm::enumerate(ops)) {
      if (stageOf(op) != stage) { // stages run one after another, and kernels of two stages are never joined
        stage = stageOf(op);
        known.clear();
        seen.clear();
      }
      auto kernel = dyn_cast<KernelOp>(op);
      const std::shared_ptr<const KnownKernel> info = kernel ? KernelForms::of(kernel) : nullptr;
      if (!info || !info->form)
        continue;
      if (auto same = seen.find(info); same != seen.end()) {
        classOf[i] = same->second;
        slotsOfClass[classOf[i]].insert(i);
        continue;
      }
      KernelInfo form = normalized(*info->form);
      size_t hash = hashOf(form);
      auto [first, last] = known.equal_range(hash);
      auto same = std::find_if(first, last, [&](const auto &entry) { return entry.second.first == form; });
      if (same != last) {
        classOf[i] = same->second.second;
      } else {
        classOf[i] = static_cast<int>(slotsOfClass.size());
        slotsOfClass.emplace_back();
        known.emplace(hash, std::pair(std::move(form), classOf[i]));
      }
      slotsOfClass[classOf[i]].insert(i);
      seen.emplace(info, classOf[i]);
    }
  }

  //===- steps 3 and 4 -----------------------------------------------------------------------------------------===//

  /// The values that the planner will put in the caller's memory.
  llvm::DenseSet<Value> valuesOutside(const ViewLimits &views) const {
    SignaturePlaces signature(cast<func::FuncOp>(block.getParentOp()));
    MemoryUses memory(block, views);
    llvm::DenseSet<Value> outside, states; // states hold their old values until they are written
    for (auto [i, value] : llvm::enumerate(memory.operands(block.getTerminator()))) {
      outside.insert(value);
      if (signature.updated(i))
        states.insert(value);
    }
    for (Operation *op : llvm::reverse(ops))
      for (OpResult result : op->getResults())
        if (outside.contains(result) && !states.contains(result))
          if (Value before = memory.beforeOutput(
                  result, [&](Value value) { return !outside.contains(value); },
                  [&](Operation *reader, Operation *op) { return number.lookup(reader) < number.lookup(op); }))
            outside.insert(before);
    return outside;
  }

  void findValues(const ViewLimits &views) {
    storedOf.resize(ops.size());
    live.assign(std::max<size_t>(ops.size(), 1), 0);
    llvm::DenseMap<Value, unsigned> index;
    const llvm::DenseSet<Value> outside = valuesOutside(views);
    for (auto [i, op] : llvm::enumerate(ops)) {
      for (Value result : op->getResults())
        if (!outside.contains(result)) {
          index[result] = stored.size();
          storedOf[i].push_back(stored.size());
          stored.push_back({static_cast<int64_t>(llvm::alignTo(byteSize(tensorType(result)), alignment)),
                            static_cast<unsigned>(i),
                            {}});
        }
      forEachRead(op, [&](Value value) {
        auto known = index.find(value);
        if (known == index.end() || llvm::is_contained(stored[known->second].readers, i))
          return;
        stored[known->second].readers.push_back(i);
        storedOf[i].push_back(known->second);
      });
    }
    for (StoredValue &value : stored) {
      value.span = spanOf(value);
      for (unsigned slot = value.span.first; slot <= value.span.last; ++slot)
        live[slot] += value.bytes;
    }
  }

  Span spanOf(const StoredValue &value) const {
    Span span{slotOf[value.producer], slotOf[value.producer]};
    for (unsigned reader : value.readers)
      span.last = std::max(span.last, slotOf[reader]);
    return span;
  }

  /// The value's span once all that gives or reads it in slot `from` has got slot `to`. A value can have any number of
  /// readers, so they are looked at only where its last one has moved.
  Span spanAfterMove(const StoredValue &value, unsigned from, unsigned to) const {
    if (value.span.last == from)
      return spanOf(value);
    return {slotOf[value.producer], std::max(value.span.last, to)};
  }

  /// Calls back with each slot of `span` that is not in `other`.
  template <typename Visit>
  static void forEachOutside(const Span &span, const Span &other, Visit visit) {
    for (unsigned slot = span.first; slot <= span.last; ++slot)
      if (slot >= other.first && slot <= other.last)
        slot = other.last;
      else
        visit(slot);
  }

  void setSpan(StoredValue &value, const Span &span) {
    forEachOutside(span, value.span, [&](unsigned slot) { live[slot] += value.bytes; });
    forEachOutside(value.span, span, [&](unsigned slot) { live[slot] -= value.bytes; });
    value.span = span;
  }

  bool mayStandIn(unsigned slot, ArrayRef<unsigned> members) const {
    return llvm::all_of(members, [&](unsigned op) {
      return llvm::all_of(before[op], [&](unsigned other) { return slotOf[other] < slot; }) &&
             llvm::all_of(after[op], [&](unsigned other) { return slotOf[other] > slot; });
    });
  }

  /// The ops of slot `from` join those of slot `to`, if order and memory allow it.
  bool tryMove(unsigned from, unsigned to) {
    SmallVector<unsigned, 2> members = inSlot[from];
    if (!mayStandIn(to, members))
      return false;
    llvm::SmallSetVector<unsigned, 8> touched;
    for (unsigned op : members)
      touched.insert(storedOf[op].begin(), storedOf[op].end());
    for (unsigned op : members)
      slotOf[op] = to;
    SmallVector<Span> before;
    for (unsigned value : touched) {
      before.push_back(stored[value].span);
      setSpan(stored[value], spanAfterMove(stored[value], from, to));
    }
    // No slot was fuller than allowed, so those need a look that a value lives through now and did not before.
    bool isTooFull = false;
    for (auto [value, span] : llvm::zip(touched, before))
      forEachOutside(stored[value].span, span, [&](unsigned slot) { isTooFull |= live[slot] > most; });
    if (isTooFull) {
      for (auto [value, span] : llvm::zip(touched, before))
        setSpan(stored[value], span);
      for (unsigned op : members)
        slotOf[op] = from;
      return false;
    }
    slotsOfClass[classOf[members[0]]].erase(from);
    inSlot[from].clear();
    inSlot[to].append(members);
    return true;
  }

  bool moveToAnother(unsigned slot, bool later) {
    if (inSlot[slot].empty() || classOf[inSlot[slot][0]] < 0)
      return false;
    const std::set<unsigned> &slots = slotsOfClass[classOf[inSlot[slot][0]]];
    auto place = slots.find(slot);
    for (unsigned tries = 0; tries < mostTries; ++tries) {
      if (later ? ++place == slots.end() : place == slots.begin())
        return false;
      if (!later)
        --place;
      if (tryMove(slot, *place))
        return true;
    }
    return false;
  }

  //===- step 5 ------------------------------------------------------------------------------------------------===//

  /// Views and literals that `op` reads go before `place`, if they stand nowhere yet.
  static void writeOperands(Operation *op, Operation *place, llvm::DenseSet<Operation *> &written) {
    SmallVector<Operation *> stack{op};
    while (!stack.empty()) {
      Operation *last = stack.back();
      size_t known = stack.size();
      for (Value operand : last->getOperands()) {
        Operation *producer = operand.getDefiningOp();
        if (producer && !isa<StructuredOpInterface>(producer) && !written.contains(producer))
          stack.push_back(producer);
      }
      if (stack.size() > known)
        continue;
      stack.pop_back();
      if (last != op && written.insert(last).second)
        last->moveBefore(place);
    }
  }

  void write() {
    Operation *terminator = block.getTerminator();
    SmallVector<Operation *> others; // views and literals
    for (Operation &op : block.without_terminator())
      if (!isa<StructuredOpInterface>(op))
        others.push_back(&op);
    Builder builder(terminator->getContext());
    llvm::DenseSet<Operation *> written;
    int64_t group = 0;
    for (SmallVector<unsigned, 2> &members : inSlot) {
      llvm::sort(members);
      for (unsigned op : members)
        writeOperands(ops[op], terminator, written); // none between the members
      for (unsigned op : members) {
        ops[op]->moveBefore(terminator);
        if (members.size() > 1)
          ops[op]->setAttr(joinedAttr, builder.getI64IntegerAttr(group));
      }
      group += members.size() > 1;
    }
    for (Operation *op : others)
      if (written.insert(op).second)
        op->moveBefore(terminator);
  }
};

} // namespace

std::optional<int64_t> joinedGroup(Operation *op) {
  auto number = op->getAttrOfType<IntegerAttr>(joinedAttr);
  return number ? std::optional(number.getInt()) : std::nullopt;
}

void joinKernels(Block &block, const TargetModel &target) {
  Joiner(block, target).run();
}

} // namespace tcc
