// Writing groups out as tcc.kernel regions.
//   1. groups and structured ops are nodes at the position of their last op; each waits for those it reads from;
//   2. they are written in that order, the smallest position first among those that wait for none;
//   3. the ops as they were go.
#include "ir/names.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "passes/fusion.h"
#include <queue>
#include <set>

using namespace mlir;

namespace tcc {
namespace {

class Outliner {
public:
  explicit Outliner(Fusion &fusion) : fusion(fusion), builder(fusion.block.getTerminator()) {}

  LogicalResult run() {
    findNodes();
    findSuccessors();
    for (BlockArgument argument : fusion.block.getArguments())
      mapping.map(argument, argument);
    SmallVector<Operation *> old;
    for (Operation &op : fusion.block.without_terminator())
      old.push_back(&op);
    if (writeNodes() != nodes.size())
      return fusion.function.emitError("fuse-kernels made groups that wait for each other");
    Operation *terminator = fusion.block.getTerminator();
    SmallVector<Value> returned = cloneOperands(terminator);
    terminator->setOperands(returned);
    for (Operation *op : llvm::reverse(old)) {
      op->dropAllUses();
      op->erase();
    }
    return success();
  }

private:
  struct Node {
    unsigned key; // position: that of its last op
    int group;    // or -1
    Operation *op;
  };

  Fusion &fusion;
  OpBuilder builder;
  IRMapping mapping; // from values as they were to what has been written
  std::vector<Node> nodes;
  std::vector<SmallVector<unsigned>> successors;
  std::vector<unsigned> waiting; // by node: those that it still waits for

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

  /// What `op`, outside of kernels, reads, with the views that it looks through.
  SmallVector<Value> cloneOperands(Operation *op) {
    SmallVector<Value> roots = memoryOperands(op, fusion.views), operands;
    for (auto [i, operand] : llvm::enumerate(op->getOperands()))
      operands.push_back(i < roots.size() ? cloneView(operand, roots[i]) : cloneInto(builder, operand, mapping));
    return operands;
  }

  /// `value` as a view of `root`. A view in between that is in memory for another user's sake is looked through too:
  /// what was decided about `value` was decided about this chain.
  Value cloneView(Value value, Value root) {
    SmallVector<Operation *> chain; // from the value down
    bool stored = false;
    for (Value at = value; at != root; at = chain.back()->getOperand(0)) {
      chain.push_back(at.getDefiningOp());
      stored |= fusion.inMemory.contains(at);
    }
    if (!stored)
      return cloneInto(builder, value, mapping);
    IRMapping local;
    local.map(root, cloneInto(builder, root, mapping));
    for (Operation *op : llvm::reverse(chain))
      builder.clone(*op, local);
    return local.lookup(value);
  }

  /// The group's arguments but for those that only dead ops read.
  static SmallVector<Value> reachedArguments(const FusionGroup &group, ArrayRef<Value> results) {
    llvm::DenseSet<Value> seen;
    SmallVector<Value> work(results);
    while (!work.empty()) {
      Value value = work.pop_back_val();
      if (seen.insert(value).second && !group.arguments.contains(value))
        llvm::append_range(work, value.getDefiningOp()->getOperands());
    }
    SmallVector<Value> ordered;
    for (Value argument : group.arguments)
      if (seen.contains(argument))
        ordered.push_back(argument);
    return ordered;
  }

  void outlineGroup(unsigned id) {
    FusionGroup &group = fusion.groups[id];
    SmallVector<Value> results = fusion.resultsOf(group, id), inputs;
    SmallVector<Type> types;
    SmallVector<Location> locations;
    for (Value result : results) {
      types.push_back(result.getType());
      locations.push_back(result.getLoc());
    }
    SmallVector<Value> ordered = reachedArguments(group, results);
    for (Value argument : ordered)
      inputs.push_back(mapping.lookup(argument));
    Location loc = locations.size() == 1 ? locations[0] : FusedLoc::get(builder.getContext(), locations);
    auto kernel = KernelOp::create(builder, loc, types, inputs, StringAttr());
    Block &body = kernel.getBody().emplaceBlock();
    OpBuilder inner = OpBuilder::atBlockEnd(&body);
    IRMapping region;
    for (Value argument : ordered)
      region.map(argument, body.addArgument(argument.getType(), argument.getLoc()));
    SmallVector<Value> yields;
    for (Value result : results)
      yields.push_back(cloneInto(inner, result, region));
    YieldOp::create(inner, loc, yields);
    const SmallVector<StringRef> names = namesOf(body);
    kernel.setLabel(kernelLabel(names));
    locations.insert(locations.begin(), mainLocation(body, names));
    kernel->setLoc(FusedLoc::get(builder.getContext(), locations));
    group.kernel = kernel;
    for (auto [result, made] : llvm::zip(results, kernel.getResults()))
      mapping.map(result, made);
  }

  void findNodes() {
    for (auto [i, group] : llvm::enumerate(fusion.groups))
      if (group.alive)
        nodes.push_back({group.last, static_cast<int>(i), nullptr});
    for (Operation &op : fusion.block.without_terminator()) {
      auto literal = dyn_cast<ConstantOp>(op);
      if (isa<StructuredOpInterface>(op) || (literal && !literal.getValue().isSplat()))
        nodes.push_back({fusion.order[&op], -1, &op});
    }
    llvm::sort(nodes, [](const Node &a, const Node &b) { return a.key < b.key; });
  }

  void findSuccessors() {
    llvm::DenseMap<Value, unsigned> producer;
    for (auto [i, node] : llvm::enumerate(nodes)) {
      if (node.op)
        for (Value value : node.op->getResults())
          producer[value] = i;
      else
        for (Value value : fusion.groups[node.group].values)
          producer[value] = i;
    }
    successors.resize(nodes.size());
    waiting.resize(nodes.size(), 0);
    for (auto [i, node] : llvm::enumerate(nodes)) {
      std::set<unsigned> before;
      auto need = [&](Value value) {
        if (auto known = producer.find(value); known != producer.end())
          before.insert(known->second);
      };
      if (node.op)
        llvm::for_each(fusion.structuredOperands[node.op], need);
      else
        llvm::for_each(fusion.groups[node.group].arguments, need);
      before.erase(i);
      for (unsigned b : before)
        successors[b].push_back(i);
      waiting[i] = before.size();
    }
  }

  void writeStructured(Operation *op) {
    SmallVector<Value> operands = cloneOperands(op);
    Operation *made = builder.clone(*op, mapping);
    made->setOperands(operands);
  }

  /// Kahn's order. How many could be written.
  size_t writeNodes() {
    std::priority_queue<unsigned, std::vector<unsigned>, std::greater<>> ready;
    for (unsigned i = 0; i < nodes.size(); ++i)
      if (waiting[i] == 0)
        ready.push(i);
    size_t written = 0;
    while (!ready.empty()) {
      unsigned i = ready.top();
      ready.pop();
      ++written;
      if (nodes[i].op) {
        writeStructured(nodes[i].op);
      } else {
        outlineGroup(nodes[i].group);
      }
      for (unsigned next : successors[i])
        if (--waiting[next] == 0)
          ready.push(next);
    }
    return written;
  }
};

} // namespace

LogicalResult outlineGroups(Fusion &fusion) {
  return Outliner(fusion).run();
}

} // namespace tcc
