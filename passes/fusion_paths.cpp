// Finds paths between groups; fusion.h says how that is quick.
#include "passes/collective_order.h"
#include "passes/fusion.h"

using namespace mlir;

namespace tcc {

bool Fusion::isResult(Value value, unsigned self, unsigned other) const {
  if (inMemory.contains(value))
    return true;
  auto known = users.find(value);
  return known != users.end() &&
         llvm::any_of(known->second, [&](unsigned user) { return user != self && user != other; });
}

SmallVector<Value> Fusion::resultsOf(const FusionGroup &group, unsigned self) const {
  SmallVector<Value> results;
  for (Value value : group.values)
    if (isResult(value, self, self))
      results.push_back(value);
  return results;
}

/// What neither group stores now, no other one needs.
SmallVector<Value> Fusion::resultsOf(unsigned a, unsigned b) const {
  SmallVector<Value> results;
  for (unsigned id : {a, b})
    for (Value value : groups[id].results)
      if (isResult(value, a, b))
        results.push_back(value);
  return results;
}

FusionPaths::FusionPaths(const Fusion &fusion)
    : fusion(fusion), endFrom(fusion.order.size() + 1, 0), startTo(endFrom.size(), ~0u) {
  const std::vector<unsigned> inOrder = makeNodes(); // which has producers first
  findEdges(inOrder);
  const int links = findChain();
  for (unsigned node : inOrder)
    if (!nodes[node].isLink) {
      nodes[node].up = links;
      for (unsigned from : nodes[node].before)
        nodes[node].down = std::max(nodes[node].down, nodes[from].down);
    }
  for (unsigned node : llvm::reverse(inOrder)) {
    nodes[node].leads = !nodes[node].after.empty();
    if (!nodes[node].isLink)
      for (unsigned to : nodes[node].after)
        nodes[node].up = std::min(nodes[node].up, nodes[to].up);
  }
  for (const FusionGroup &group : fusion.groups)
    setSpan(group.first, group.last);
}

/// All nodes, and the numbers of those that are not dead in program order.
std::vector<unsigned> FusionPaths::makeNodes() {
  for (Operation &op : fusion.block.without_terminator())
    ops += isa<StructuredOpInterface>(op);
  nodes.reserve(ops + fusion.groups.capacity());
  nodes.resize(ops + fusion.groups.size());
  std::vector<unsigned> inOrder;
  unsigned number = 0;
  for (Operation &op : fusion.block.without_terminator()) {
    auto group = op.getNumResults() == 1 ? fusion.groupOf.find(op.getResult(0)) : fusion.groupOf.end();
    if (group != fusion.groupOf.end() && fusion.groups[group->second].alive) {
      inOrder.push_back(ops + group->second);
    } else if (isa<StructuredOpInterface>(op)) {
      nodes[number].first = nodes[number].last = fusion.order.lookup(&op);
      inOrder.push_back(number++);
    }
  }
  for (auto [id, group] : llvm::enumerate(fusion.groups)) {
    nodes[ops + id].first = group.first;
    nodes[ops + id].last = group.last;
  }
  for (auto [number, node] : llvm::enumerate(nodes))
    node.now = number;
  return inOrder;
}

void FusionPaths::findEdges(ArrayRef<unsigned> inOrder) {
  std::vector<Operation *> opOf; // structured ones, and their numbers
  llvm::DenseMap<Operation *, unsigned> numberOf;
  for (Operation &op : fusion.block.without_terminator())
    if (isa<StructuredOpInterface>(op)) {
      numberOf[&op] = opOf.size();
      opOf.push_back(&op);
    }
  for (unsigned node : inOrder) {
    Operation *op = node < ops ? opOf[node] : nullptr;
    auto operands = fusion.structuredOperands.find(op);
    for (Value value : op ? ArrayRef<Value>(operands->second) : fusion.groups[node - ops].arguments.getArrayRef()) {
      auto group = fusion.groupOf.find(value);
      auto structured = numberOf.find(value.getDefiningOp());
      if (group == fusion.groupOf.end() && structured == numberOf.end())
        continue;
      const unsigned producer = group != fusion.groupOf.end() ? ops + group->second : structured->second;
      nodes[node].before.push_back(producer);
      if (!op || op->getNumResults() > 0)
        nodes[producer].after.push_back(node);
    }
  }
  // An exchange comes after the one before it in the order of all ranks, also where neither is computed from the other.
  const unsigned *before = nullptr;
  for (Operation *op : tcc::inOrder(fusion.block)) {
    const auto exchange = numberOf.find(op);
    if (exchange == numberOf.end())
      continue;
    if (before && opOf[*before]->isBeforeInBlock(op)) {
      nodes[exchange->second].before.push_back(*before);
      nodes[*before].after.push_back(exchange->second);
    }
    before = &exchange->second;
  }
}

/// The longest chain of structured ops in which each one is computed from the one before. Gives its length.
int FusionPaths::findChain() {
  llvm::DenseMap<Value, std::pair<int, int>> before; // the chain that a value is computed from: length, last op
  std::vector<int> chainBefore;                      // by structured op: the one before
  int longest = 0, end = -1;
  for (Operation &op : fusion.block.without_terminator()) {
    std::pair<int, int> best{0, -1};
    for (Value operand : op.getOperands())
      if (auto known = before.find(operand); known != before.end() && known->second.first > best.first)
        best = known->second;
    if (isa<StructuredOpInterface>(op)) {
      chainBefore.push_back(best.second);
      best = {best.first + 1, static_cast<int>(chainBefore.size()) - 1};
      if (best.first > longest)
        std::tie(longest, end) = best;
    }
    for (Value result : op.getResults())
      before[result] = best;
  }
  for (int number = longest - 1; end >= 0; --number) {
    nodes[end].up = nodes[end].down = number;
    nodes[end].isLink = true;
    end = chainBefore[end];
  }
  return longest;
}

/// What the node has become a part of.
unsigned FusionPaths::now(unsigned node) {
  while (nodes[node].now != node)
    node = nodes[node].now = nodes[nodes[node].now].now;
  return node;
}

/// Nodes that have been merged since are replaced, and each node stands there once.
void FusionPaths::renew(SmallVectorImpl<unsigned> &edges) {
  bool isOld = false;
  for (unsigned &edge : edges) {
    isOld |= nodes[edge].now != edge;
    edge = now(edge);
  }
  if (!isOld)
    return;
  llvm::sort(edges);
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
}

struct FusionPaths::Frontier {
  SmallVector<unsigned, 16> reached;
  size_t next = 0;
  size_t edges = 0; // that have been followed, and those of the next node once `counted`
  bool counted = false;

  explicit Frontier(unsigned start) : reached{start} {}
  bool isExhausted() const { return next == reached.size(); }
  void count(const SmallVectorImpl<unsigned> &ofNext) {
    if (!std::exchange(counted, true))
      edges += ofNext.size();
  }
  unsigned take() {
    counted = false;
    return reached[next++];
  }
};

/// The search goes on at the end where fewer edges will have been followed: a value can have any number of users, and
/// a kernel that sums over all parameters any number of operands. Where no path is, one end has soon seen all it can.
bool FusionPaths::hasOuterPath(unsigned a, unsigned b) {
  const Node &from = nodes[ops + a], &to = nodes[ops + b];
  if (from.up <= to.down)
    return true;
  const unsigned earliest = earliestOnPathFrom(a), latest = latestOnPathTo(b);
  if (latest < earliest)
    return false;
  // A node that nothing is computed from can only end a path. A node that `a` reaches is reached by every link that
  // reaches `a`, and it reaches no link that `a` does not; for the nodes that reach `b` it is the other way round.
  auto mayLieBetween = [&](const Node &node) {
    return node.leads && node.down >= from.down && node.down <= to.down && node.up >= from.up && node.up <= to.up &&
           node.last >= earliest && node.first <= latest;
  };
  bool found = false;
  Frontier fromA(ops + a), fromB(ops + b);
  ++searches;
  auto enter = [&](unsigned number, unsigned target, Frontier &own, unsigned Node::*mark, unsigned Node::*otherMark) {
    if (number == ops + a || number == ops + b) {
      found |= number == target && own.next > 1; // the edge between a and b itself is no outer path
      return;
    }
    Node &node = nodes[number];
    if (node.*mark == searches || !mayLieBetween(node))
      return;
    node.*mark = searches;
    found |= node.*otherMark == searches;
    own.reached.push_back(number);
  };
  while (!found && !fromA.isExhausted() && !fromB.isExhausted()) {
    Node &afterA = nodes[fromA.reached[fromA.next]], &beforeB = nodes[fromB.reached[fromB.next]];
    fromA.count(afterA.after);
    fromB.count(beforeB.before);
    if (fromA.edges < fromB.edges) {
      fromA.take();
      renew(afterA.after);
      for (unsigned node : afterA.after)
        enter(node, ops + b, fromA, &Node::seenFromA, &Node::seenFromB);
    } else {
      fromB.take();
      renew(beforeB.before);
      for (unsigned node : beforeB.before)
        enter(node, ops + a, fromB, &Node::seenFromB, &Node::seenFromA);
    }
  }
  return found;
}

void FusionPaths::merged(unsigned a, unsigned b, unsigned id) {
  const unsigned number = ops + id;
  Node merged;
  merged.now = number;
  merged.first = fusion.groups[id].first;
  merged.last = fusion.groups[id].last;
  merged.up = std::min(nodes[ops + a].up, nodes[ops + b].up);
  merged.down = std::max(nodes[ops + a].down, nodes[ops + b].down);
  nodes.push_back(std::move(merged));
  Node &node = nodes.back();
  for (unsigned part : {ops + a, ops + b}) {
    nodes[part].now = number;
    node.after.append(nodes[part].after);
    node.before.append(nodes[part].before);
    nodes[part].after = {};
    nodes[part].before = {};
  }
  for (SmallVectorImpl<unsigned> *edges : {&node.after, &node.before}) {
    renew(*edges);
    llvm::erase(*edges, number);
  }
  node.leads = !node.after.empty();
  setSpan(node.first, node.last);
  spread(number);
}

/// Whatever reaches the node reaches its links, and they reach whatever it reaches.
void FusionPaths::spread(unsigned from) {
  SmallVector<unsigned> work{from};
  while (!work.empty()) {
    Node &node = nodes[work.pop_back_val()];
    renew(node.before);
    for (unsigned before : node.before)
      if (node.up < nodes[before].up) {
        nodes[before].up = node.up;
        work.push_back(before);
      }
  }
  work.push_back(from);
  while (!work.empty()) {
    Node &node = nodes[work.pop_back_val()];
    renew(node.after);
    for (unsigned after : node.after)
      if (node.down > nodes[after].down) {
        nodes[after].down = node.down;
        work.push_back(after);
      }
  }
}

void FusionPaths::setSpan(unsigned first, unsigned last) {
  size_t count = endFrom.size();
  for (size_t i = first + 1; i < count; i += i & -i)
    endFrom[i] = std::max(endFrom[i], last);
  for (size_t i = count - 1 - last; i < count; i += i & -i)
    startTo[i] = std::min(startTo[i], first);
}

/// The last position that a path to b can pass: a merged group is entered at any of its ops and left at any other, so
/// each group that starts before the limit moves the limit to its own end.
unsigned FusionPaths::latestOnPathTo(unsigned b) const {
  auto latestEnd = [&](unsigned position) { // of the groups that start there or before
    unsigned end = 0;
    for (size_t i = position + 1; i > 0; i -= i & -i)
      end = std::max(end, endFrom[i]);
    return end;
  };
  unsigned limit = fusion.groups[b].last;
  for (unsigned next = latestEnd(limit); next > limit; next = latestEnd(limit))
    limit = next;
  return limit;
}

/// The first position that a path from a can pass, likewise.
unsigned FusionPaths::earliestOnPathFrom(unsigned a) const {
  auto earliestStart = [&](unsigned position) { // of the groups that end there or later
    unsigned start = position;
    for (size_t i = startTo.size() - 1 - position; i > 0; i -= i & -i)
      start = std::min(start, startTo[i]);
    return start;
  };
  unsigned limit = fusion.groups[a].first;
  for (unsigned next = earliestStart(limit); next < limit; next = earliestStart(limit))
    limit = next;
  return limit;
}

} // namespace tcc
