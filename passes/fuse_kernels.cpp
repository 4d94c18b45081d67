// fuse-kernels: puts every computation into tcc.kernel regions.
//   1. find what must be in memory: operands of products and results of the function, below the views that those take
//      strided;
//   2. decide what is recomputed: views, literals, coordinates, and elementwise values whose stored ancestors cost no
//      more to read than the value itself. Such values belong to no group; whoever needs them computes them again.
//      This is what keeps normalised rows, tanh and exp out of memory. Row statistics and products are never
//      recomputed;
//   3. one group for each remaining op;
//   4. repeatedly merge the producer and consumer, or the siblings over one operand, that save the most memory
//      traffic, where analyzeKernel accepts the union and no path leaves and re-enters it; ties by program order;
//   5. write the groups out as tcc.kernel regions in an order that keeps producers before consumers.
// At -O0 step 2 keeps only views and sources free and step 4 is left out: one kernel an op.
// It keeps each value's computation as it is, op for op; there is no CSE afterwards.
#include "ir/emit.h"
#include "ir/kernel.h"
#include "ir/strided_view.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include "llvm/ADT/SetVector.h"
#include <queue>

using namespace mlir;

namespace tcc {
namespace {

constexpr int64_t launchBytes = 2048;         // what saving one launch is worth, in bytes of traffic
constexpr int64_t alwaysRecomputed = 256;     // bytes of ancestors below which a value is always recomputed
constexpr unsigned longestRecomputation = 64; // ops
constexpr unsigned mostOps = 256;             // of a merged kernel: bounds the time to compile it
constexpr size_t mostOperands = 40;           // pointers a kernel takes
constexpr size_t mostUsersForSiblings = 24;   // users of one operand that are paired with each other

int64_t bytesOf(Value value) {
  RankedTensorType type = tensorType(value);
  return type.getNumElements() * std::max(1u, type.getElementTypeBitWidth() / 8);
}

bool isSource(Operation *op) {
  if (auto literal = dyn_cast<ConstantOp>(op))
    return literal.getValue().isSplat();
  return isa<IotaOp>(op);
}

struct Group {
  unsigned first = 0, last = 0;  // program order of its ops
  llvm::SetVector<Value> values; // the ops' results, in program order of insertion
  llvm::SetVector<Value> arguments;
  unsigned ops = 0; // what a kernel of it computes, recomputed values counted again for each user
  bool alive = true;
};

class Fuser {
public:
  Fuser(func::FuncOp function, int level) : function(function), block(function.getBody().front()), level(level) {}

  LogicalResult run() {
    findMemoryValues();
    if (failed(startGroups()))
      return failure();
    if (level > 0)
      mergeGroups();
    return outline();
  }

private:
  func::FuncOp function;
  Block &block;
  int level;
  llvm::DenseMap<Operation *, unsigned> order;
  llvm::SetVector<Value> inMemory;                     // step 1
  llvm::DenseMap<Value, SmallVector<Value, 4>> leaves; // of free values: the stored values they are computed from
  llvm::DenseMap<Value, unsigned> opsBehind;           // of free values: ops to recompute
  llvm::DenseSet<Value> freeValues;
  std::vector<Group> groups;
  std::vector<unsigned> lastFrom;                                 // by position: where the groups that start there end
  llvm::DenseMap<Value, unsigned> groupOf;                        // of grouped values
  llvm::DenseMap<Value, llvm::SmallSetVector<unsigned, 4>> users; // groups that take the value as argument
  llvm::DenseMap<Value, SmallVector<Operation *, 2>> structuredUsers;
  llvm::DenseMap<Operation *, SmallVector<Value, 2>> structuredOperands;

  //===- step 1 ------------------------------------------------------------------------------------------------===//

  /// All reshapes of one value share its memory.
  void requireInMemory(Value root, Operation *user) {
    while (auto reshape = root.getDefiningOp<ReshapeOp>())
      root = reshape.getX();
    inMemory.insert(root);
    structuredUsers[root].push_back(user);
    structuredOperands[user].push_back(root);
  }

  void findMemoryValues() {
    for (auto [i, op] : llvm::enumerate(block)) {
      order[&op] = i;
      if (auto product = dyn_cast<MatmulOp>(op)) {
        MatmulViews views = matmulViews(product);
        requireInMemory(views.a.root, &op);
        requireInMemory(views.b.root, &op);
      } else if (isa<func::ReturnOp>(op)) {
        for (Value value : op.getOperands()) {
          StridedView view = stridedView(value);
          requireInMemory(isDense(view) ? view.root : value, &op);
        }
      } else if (auto gather = dyn_cast<GatherOp>(op)) {
        inMemory.insert(gather.getTable());
      } else if (auto scatter = dyn_cast<ScatterAddOp>(op)) {
        inMemory.insert(scatter.getBase());
      }
    }
  }

  //===- step 2 ------------------------------------------------------------------------------------------------===//

  void addLeaves(Value operand, llvm::SmallSetVector<Value, 4> &set, unsigned &ops) const {
    if (!freeValues.contains(operand)) {
      set.insert(operand);
      return;
    }
    auto known = leaves.find(operand);
    set.insert(known->second.begin(), known->second.end());
    ops += opsBehind.lookup(operand);
  }

  void classify() {
    freeValues.clear();
    leaves.clear();
    opsBehind.clear();
    for (Operation &op : block.without_terminator()) {
      if (op.hasTrait<StructuredOp>() || op.getNumResults() != 1)
        continue;
      Value value = op.getResult(0);
      bool view = op.hasTrait<ViewOp>(), source = isSource(&op);
      bool elementwise = isa<ElementwiseOpInterface, RandomBitsOp>(op);
      if (inMemory.contains(value) || !(view || source || elementwise))
        continue;
      llvm::SmallSetVector<Value, 4> set;
      unsigned ops = elementwise ? 1 : 0;
      for (Value operand : op.getOperands())
        addLeaves(operand, set, ops);
      int64_t bytes = 0;
      for (Value leaf : set)
        bytes += bytesOf(leaf);
      bool cheap = bytes <= std::max(bytesOf(value) + bytesOf(value) / 4, alwaysRecomputed);
      if (!(view || source) && (level < 2 || !cheap || ops > longestRecomputation || set.size() > 8))
        continue;
      freeValues.insert(value);
      leaves[value].assign(set.begin(), set.end());
      opsBehind[value] = ops;
    }
  }

  //===- step 3 ------------------------------------------------------------------------------------------------===//

  /// Steps 2 and 3. An op that has no kernel form together with its free operands, such as a slice of a concat of a
  /// reshape whose sizes do not nest, gets them from memory instead; then all starts again.
  LogicalResult startGroups() {
    while (true) {
      classify();
      makeGroups();
      std::string refusal;
      Operation *refused = findRefused(refusal);
      if (!refused)
        return success();
      size_t known = inMemory.size();
      for (Value operand : refused->getOperands())
        if (freeValues.contains(operand) && !isSource(operand.getDefiningOp()))
          inMemory.insert(operand);
      if (inMemory.size() == known)
        return refused->emitOpError() << "has no kernel form: " << refusal;
    }
  }

  /// An op whose group of its own has no kernel form.
  Operation *findRefused(std::string &refusal) {
    for (auto [i, group] : llvm::enumerate(groups))
      if (group.alive && !analyze(group, i, refusal))
        return group.values[0].getDefiningOp();
    return nullptr;
  }

  void makeGroups() {
    groups.clear();
    groupOf.clear();
    users.clear();
    lastFrom.assign(order.size(), 0);
    for (Operation &op : block.without_terminator()) {
      if (op.hasTrait<StructuredOp>() || op.getNumResults() != 1 || freeValues.contains(op.getResult(0)))
        continue;
      if (auto literal = dyn_cast<ConstantOp>(op); literal && !literal.getValue().isSplat())
        continue; // a literal in memory
      Group group;
      group.first = group.last = order[&op];
      group.values.insert(op.getResult(0));
      group.ops = 1;
      llvm::SmallSetVector<Value, 4> set;
      for (Value operand : op.getOperands())
        addLeaves(operand, set, group.ops);
      group.arguments.insert(set.begin(), set.end());
      unsigned id = groups.size();
      groupOf[op.getResult(0)] = id;
      for (Value argument : group.arguments)
        users[argument].insert(id);
      groups.push_back(std::move(group));
    }
    // A value that nobody reads needs no group; the reverse order frees whole chains.
    for (size_t i = groups.size(); i-- > 0;)
      if (resultsOf(groups[i], i).empty())
        retire(i);
  }

  void retire(unsigned id) {
    groups[id].alive = false;
    for (Value argument : groups[id].arguments)
      users[argument].remove(id);
  }

  bool isResult(Value value, unsigned self, unsigned other) const {
    if (inMemory.contains(value))
      return true;
    auto known = users.find(value);
    return known != users.end() &&
           llvm::any_of(known->second, [&](unsigned user) { return user != self && user != other; });
  }

  SmallVector<Value> resultsOf(const Group &group, unsigned self, unsigned other = ~0u) const {
    SmallVector<Value> results;
    for (Value value : group.values)
      if (isResult(value, self, other))
        results.push_back(value);
    return results;
  }

  std::optional<KernelInfo> analyze(const Group &group, unsigned self, std::string &refusal, unsigned other = ~0u) {
    SmallVector<Value> results = resultsOf(group, self, other);
    SmallVector<Value> arguments(group.arguments.begin(), group.arguments.end());
    if (results.size() + arguments.size() > mostOperands) {
      refusal = "expected at most " + std::to_string(mostOperands) + " operands and results";
      return std::nullopt;
    }
    return analyzeKernel(KernelView{results, arguments}, refusal);
  }

  //===- step 4 ------------------------------------------------------------------------------------------------===//

  struct Candidate {
    int64_t gain;
    unsigned a, b; // a < b; group numbers
    bool operator<(const Candidate &other) const {
      return std::tie(gain, other.a, other.b) < std::tie(other.gain, a, b);
    }
  };

  int64_t gainOf(unsigned a, unsigned b) const {
    int64_t gain = 0;
    auto produced = [&](unsigned producer, unsigned consumer) {
      for (Value value : groups[producer].values)
        if (groups[consumer].arguments.contains(value)) {
          gain += bytesOf(value);
          if (!isResult(value, producer, consumer))
            gain += bytesOf(value);
        }
    };
    produced(a, b);
    produced(b, a);
    for (Value argument : groups[a].arguments)
      if (groups[b].arguments.contains(argument))
        gain += bytesOf(argument);
    return gain;
  }

  void pushCandidates(unsigned id, std::priority_queue<Candidate> &queue) const {
    std::set<unsigned> partners;
    for (Value argument : groups[id].arguments) {
      if (auto producer = groupOf.find(argument); producer != groupOf.end())
        partners.insert(producer->second);
      auto known = users.find(argument);
      if (known != users.end() && known->second.size() <= mostUsersForSiblings)
        partners.insert(known->second.begin(), known->second.end());
    }
    for (Value value : groups[id].values)
      if (auto known = users.find(value); known != users.end())
        partners.insert(known->second.begin(), known->second.end());
    partners.erase(id);
    for (unsigned partner : partners)
      if (groups[partner].alive)
        if (int64_t gain = gainOf(id, partner); gain > 0)
          queue.push({gain + launchBytes, std::min(id, partner), std::max(id, partner)});
  }

  /// The last position that a path to b can pass: a merged group is entered at any of its ops and left at any other, so
  /// each group that starts before the limit moves the limit to its own end.
  unsigned latestOnPathTo(unsigned b) const {
    unsigned limit = groups[b].last;
    for (unsigned position = 0; position <= limit; ++position)
      limit = std::max(limit, lastFrom[position]);
    return limit;
  }

  /// True if a path from a to b passes through something that is in neither.
  bool hasOuterPath(unsigned a, unsigned b) const {
    llvm::DenseSet<unsigned> seenGroups;
    llvm::DenseSet<Operation *> seenOps;
    SmallVector<unsigned> groupWork;
    SmallVector<Operation *> opWork;
    unsigned limit = latestOnPathTo(b);
    auto enter = [&](Value value, bool fromA) {
      if (auto known = users.find(value); known != users.end())
        for (unsigned user : known->second)
          if (!(fromA && user == b) && user != a && groups[user].first <= limit && seenGroups.insert(user).second)
            groupWork.push_back(user);
      if (auto known = structuredUsers.find(value); known != structuredUsers.end())
        for (Operation *user : known->second)
          if (order.lookup(user) <= limit && seenOps.insert(user).second)
            opWork.push_back(user);
    };
    for (Value value : groups[a].values)
      enter(value, true);
    while (!groupWork.empty() || !opWork.empty()) {
      if (!groupWork.empty()) {
        unsigned id = groupWork.pop_back_val();
        if (id == b)
          return true;
        for (Value value : groups[id].values)
          enter(value, false);
      } else {
        for (Value value : opWork.pop_back_val()->getResults())
          enter(value, false);
      }
    }
    return false;
  }

  bool tryMerge(unsigned a, unsigned b) {
    if (groups[a].ops + groups[b].ops > mostOps)
      return false;
    if (hasOuterPath(a, b) || hasOuterPath(b, a))
      return false;
    Group merged;
    merged.first = std::min(groups[a].first, groups[b].first);
    merged.last = std::max(groups[a].last, groups[b].last);
    merged.ops = groups[a].ops + groups[b].ops;
    for (unsigned id : {a, b})
      merged.values.insert(groups[id].values.begin(), groups[id].values.end());
    for (unsigned id : {a, b})
      for (Value argument : groups[id].arguments)
        if (!merged.values.contains(argument))
          merged.arguments.insert(argument);
    std::string refusal;
    if (!analyze(merged, a, refusal, b))
      return false;
    unsigned id = groups.size();
    retire(a);
    retire(b);
    for (Value value : merged.values)
      groupOf[value] = id;
    for (Value argument : merged.arguments)
      users[argument].insert(id);
    lastFrom[merged.first] = std::max(lastFrom[merged.first], merged.last);
    groups.push_back(std::move(merged));
    return true;
  }

  void mergeGroups() {
    std::priority_queue<Candidate> queue;
    for (unsigned id = 0; id < groups.size(); ++id)
      if (groups[id].alive)
        pushCandidates(id, queue);
    std::set<std::pair<unsigned, unsigned>> tried;
    while (!queue.empty()) {
      Candidate candidate = queue.top();
      queue.pop();
      if (!groups[candidate.a].alive || !groups[candidate.b].alive || !tried.insert({candidate.a, candidate.b}).second)
        continue;
      if (tryMerge(candidate.a, candidate.b))
        pushCandidates(groups.size() - 1, queue);
    }
  }

  //===- step 5 ------------------------------------------------------------------------------------------------===//

  struct Node {
    unsigned key; // position: that of its last op
    int group;    // or -1
    Operation *op;
  };

  /// The region's ops from `value` down to the arguments, cloned once each.
  Value cloneInto(OpBuilder &builder, Value value, IRMapping &mapping) {
    if (Value known = mapping.lookupOrNull(value))
      return known;
    // An explicit stack: chains can be long.
    SmallVector<Operation *> stack{value.getDefiningOp()};
    while (!stack.empty()) {
      Operation *op = stack.back();
      bool ready = true;
      for (Value operand : op->getOperands())
        if (!mapping.contains(operand)) {
          stack.push_back(operand.getDefiningOp());
          ready = false;
        }
      if (!ready)
        continue;
      stack.pop_back();
      if (!mapping.contains(op->getResult(0)))
        builder.clone(*op, mapping);
    }
    return mapping.lookup(value);
  }

  std::string labelOf(const Group &group) {
    std::string label;
    std::set<StringRef> seen;
    unsigned count = 0;
    for (Value value : group.values) {
      StringRef name = value.getDefiningOp()->getName().stripDialect();
      if (!seen.insert(name).second || ++count > 6)
        continue;
      label += (label.empty() ? "" : "+") + name.str();
    }
    return label;
  }

  void outlineGroup(unsigned id, OpBuilder &builder, IRMapping &outer) {
    Group &group = groups[id];
    SmallVector<Value> results = resultsOf(group, id), inputs;
    SmallVector<Type> types;
    SmallVector<Location> locations;
    for (Value result : results) {
      types.push_back(result.getType());
      locations.push_back(result.getLoc());
    }
    // Arguments that the results do not reach (their users were dead) are left out.
    llvm::SetVector<Value> arguments;
    {
      SmallVector<Value> work(results);
      llvm::DenseSet<Value> seen;
      while (!work.empty()) {
        Value value = work.pop_back_val();
        if (!seen.insert(value).second)
          continue;
        if (group.arguments.contains(value))
          arguments.insert(value);
        else
          llvm::append_range(work, value.getDefiningOp()->getOperands());
      }
    }
    SmallVector<Value> ordered;
    for (Value argument : group.arguments)
      if (arguments.contains(argument))
        ordered.push_back(argument);
    for (Value argument : ordered)
      inputs.push_back(outer.lookup(argument));
    Location loc = locations.size() == 1 ? locations[0] : FusedLoc::get(builder.getContext(), locations);
    auto kernel = KernelOp::create(builder, loc, types, inputs, builder.getStringAttr(labelOf(group)));
    Block &body = kernel.getBody().emplaceBlock();
    OpBuilder inner = OpBuilder::atBlockEnd(&body);
    IRMapping mapping;
    for (Value argument : ordered)
      mapping.map(argument, body.addArgument(argument.getType(), argument.getLoc()));
    SmallVector<Value> yields;
    for (Value result : results)
      yields.push_back(cloneInto(inner, result, mapping));
    YieldOp::create(inner, loc, yields);
    for (auto [result, made] : llvm::zip(results, kernel.getResults()))
      outer.map(result, made);
  }

  LogicalResult outline() {
    std::vector<Node> nodes;
    for (auto [i, group] : llvm::enumerate(groups))
      if (group.alive)
        nodes.push_back({group.last, static_cast<int>(i), nullptr});
    for (Operation &op : block.without_terminator()) {
      auto literal = dyn_cast<ConstantOp>(op);
      if (op.hasTrait<StructuredOp>() || (literal && !literal.getValue().isSplat()))
        nodes.push_back({order[&op], -1, &op});
    }
    llvm::sort(nodes, [](const Node &a, const Node &b) { return a.key < b.key; });

    // Kahn's order, smallest position first.
    llvm::DenseMap<Value, unsigned> producer;
    for (auto [i, node] : llvm::enumerate(nodes)) {
      if (node.op)
        for (Value value : node.op->getResults())
          producer[value] = i;
      else
        for (Value value : groups[node.group].values)
          producer[value] = i;
    }
    std::vector<SmallVector<unsigned>> successors(nodes.size());
    std::vector<unsigned> waiting(nodes.size(), 0);
    for (auto [i, node] : llvm::enumerate(nodes)) {
      std::set<unsigned> before;
      auto need = [&](Value value) {
        if (auto known = producer.find(value); known != producer.end())
          before.insert(known->second);
      };
      if (node.op)
        llvm::for_each(structuredOperands[node.op], need);
      else
        llvm::for_each(groups[node.group].arguments, need);
      before.erase(i);
      for (unsigned b : before)
        successors[b].push_back(i);
      waiting[i] = before.size();
    }
    std::priority_queue<unsigned, std::vector<unsigned>, std::greater<>> ready;
    for (unsigned i = 0; i < nodes.size(); ++i)
      if (waiting[i] == 0)
        ready.push(i);

    Operation *terminator = block.getTerminator();
    OpBuilder builder(terminator);
    IRMapping mapping;
    for (BlockArgument argument : block.getArguments())
      mapping.map(argument, argument);
    size_t written = 0;
    SmallVector<Operation *> old;
    for (Operation &op : block.without_terminator())
      old.push_back(&op);
    while (!ready.empty()) {
      unsigned i = ready.top();
      ready.pop();
      ++written;
      if (nodes[i].op) {
        for (Value operand : nodes[i].op->getOperands())
          cloneInto(builder, operand, mapping);
        builder.clone(*nodes[i].op, mapping);
      } else {
        outlineGroup(nodes[i].group, builder, mapping);
      }
      for (unsigned next : successors[i])
        if (--waiting[next] == 0)
          ready.push(next);
    }
    if (written != nodes.size())
      return function.emitError("fuse-kernels made groups that wait for each other");
    for (OpOperand &operand : terminator->getOpOperands())
      operand.set(cloneInto(builder, operand.get(), mapping));
    for (Operation *op : llvm::reverse(old)) {
      op->dropAllUses();
      op->erase();
    }
    return success();
  }
};

} // namespace

LogicalResult fuseKernels(func::FuncOp function, const PipelineOptions &options) {
  return Fuser(function, options.level).run();
}

} // namespace tcc
