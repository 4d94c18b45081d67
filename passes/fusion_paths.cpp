// Paths between groups; the header says how they are found quickly.
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
    : fusion(fusion), ofGroup(fusion.groups.size(), {0, -1}), ofOp(fusion.order.size(), {0, -1}),
      endFrom(fusion.order.size() + 1, 0), startTo(endFrom.size(), ~0u) {
  findChain();
  int links = linkNumber.size();
  std::vector<Node> nodes; // in program order, which has producers first
  for (Operation &op : fusion.block.without_terminator()) {
    auto group = op.getNumResults() == 1 ? fusion.groupOf.find(op.getResult(0)) : fusion.groupOf.end();
    if (group != fusion.groupOf.end() && fusion.groups[group->second].alive)
      nodes.push_back({group->second, nullptr});
    else if (isa<StructuredOpInterface>(op))
      nodes.push_back({~0u, &op});
  }
  for (Node node : nodes) {
    linksOf(node).up = links;
    forEachBefore(node, [&](Node from) { linksOf(node).down = std::max(linksOf(node).down, lastLinkBefore(from)); });
  }
  for (Node node : llvm::reverse(nodes))
    forEachAfter(node, [&](Node to) { linksOf(node).up = std::min(linksOf(node).up, firstLinkFrom(to)); });
  for (auto [id, group] : llvm::enumerate(fusion.groups)) {
    ofGroup[id].leads = edgesAfter({static_cast<unsigned>(id), nullptr}) > 0;
    setSpan(group.first, group.last);
  }
}

/// The longest chain of structured ops in which each one is computed from the one before.
void FusionPaths::findChain() {
  llvm::DenseMap<Value, std::pair<int, Operation *>> before; // the chain that a value is computed from: length, last op
  Operation *end = nullptr;
  llvm::DenseMap<Operation *, std::pair<int, Operation *>> chainBefore;
  int longest = 0;
  for (Operation &op : fusion.block.without_terminator()) {
    std::pair<int, Operation *> best{0, nullptr};
    for (Value operand : op.getOperands())
      if (auto known = before.find(operand); known != before.end() && known->second.first > best.first)
        best = known->second;
    if (isa<StructuredOpInterface>(op)) {
      chainBefore[&op] = best;
      best = {best.first + 1, &op};
      if (best.first > longest) {
        longest = best.first;
        end = &op;
      }
    }
    for (Value result : op.getResults())
      before[result] = best;
  }
  for (int number = longest - 1; end; --number) {
    linkNumber[end] = number;
    end = chainBefore.lookup(end).second;
  }
}

FusionPaths::Links &FusionPaths::linksOf(Node node) {
  return node.op ? ofOp[fusion.order.lookup(node.op)] : ofGroup[node.group];
}

/// The last link that is `node` or reaches it.
int FusionPaths::lastLinkBefore(Node node) const {
  if (!node.op)
    return ofGroup[node.group].down;
  auto own = linkNumber.find(node.op);
  return own != linkNumber.end() ? own->second : ofOp[fusion.order.lookup(node.op)].down;
}

/// The first link that is `node` or that it reaches.
int FusionPaths::firstLinkFrom(Node node) const {
  if (!node.op)
    return ofGroup[node.group].up;
  auto own = linkNumber.find(node.op);
  return own != linkNumber.end() ? own->second : ofOp[fusion.order.lookup(node.op)].up;
}

ValueRange FusionPaths::valuesOf(Node node) const {
  return node.op ? ValueRange(node.op->getResults()) : ValueRange(fusion.groups[node.group].results);
}

void FusionPaths::forEachAfter(Node node, llvm::function_ref<void(Node)> visit) const {
  for (Value value : valuesOf(node)) {
    if (auto known = fusion.users.find(value); known != fusion.users.end())
      for (unsigned user : known->second)
        visit({user, nullptr});
    if (auto known = fusion.structuredUsers.find(value); known != fusion.structuredUsers.end())
      for (Operation *user : known->second)
        if (user->getNumResults() > 0)
          visit({~0u, user});
  }
}

void FusionPaths::forEachBefore(Node node, llvm::function_ref<void(Node)> visit) const {
  auto before = [&](Value value) {
    if (auto known = fusion.groupOf.find(value); known != fusion.groupOf.end())
      visit({known->second, nullptr});
    else if (Operation *op = value.getDefiningOp(); op && isa<StructuredOpInterface>(op))
      visit({~0u, op});
  };
  if (node.op) {
    auto operands = fusion.structuredOperands.find(node.op);
    llvm::for_each(operands->second, before);
  } else {
    llvm::for_each(fusion.groups[node.group].arguments, before);
  }
}

namespace {

/// Nodes that one end of a search has reached; all that is next to those before `next` has been seen.
template <typename Node>
struct Frontier {
  SmallVector<Node, 16> nodes;
  size_t next = 0;
  size_t edges = 0; // that have been followed, and those of the next node once `counted`
  bool counted = false;
  llvm::SmallDenseSet<uintptr_t, 16> seen;

  bool isExhausted() const { return next == nodes.size(); }
};

} // namespace

size_t FusionPaths::edgesAfter(Node node) const {
  size_t edges = 0;
  for (Value value : valuesOf(node)) {
    if (auto known = fusion.users.find(value); known != fusion.users.end())
      edges += known->second.size();
    if (auto known = fusion.structuredUsers.find(value); known != fusion.structuredUsers.end())
      edges += llvm::count_if(known->second, [](Operation *user) { return user->getNumResults() > 0; });
  }
  return edges;
}

size_t FusionPaths::edgesBefore(Node node) const {
  return node.op ? node.op->getNumOperands() : fusion.groups[node.group].arguments.size();
}

/// The search goes on at the end where fewer edges will have been followed: a value can have any number of users, and
/// a kernel that sums over all parameters any number of operands. Where no path is, one end has soon seen all it can.
bool FusionPaths::hasOuterPath(unsigned a, unsigned b) const {
  const Links from = ofGroup[a], to = ofGroup[b];
  if (from.up <= to.down)
    return true;
  unsigned earliest = earliestOnPathFrom(a), latest = latestOnPathTo(b);
  if (latest < earliest)
    return false;
  // A node that nothing is computed from can only end a path. A node that `a` reaches is reached by every link that
  // reaches `a`, and it reaches no link that `a` does not; for the nodes that reach `b` it is the other way round.
  auto mayLieBetween = [&](Node node) {
    if (!node.op && !ofGroup[node.group].leads)
      return false;
    int down = lastLinkBefore(node), up = firstLinkFrom(node);
    if (down < from.down || down > to.down || up < from.up || up > to.up)
      return false;
    unsigned first = node.op ? fusion.order.lookup(node.op) : fusion.groups[node.group].first;
    unsigned last = node.op ? first : fusion.groups[node.group].last;
    return last >= earliest && first <= latest;
  };
  bool found = false;
  Frontier<Node> fromA, fromB;
  fromA.nodes.push_back({a, nullptr});
  fromB.nodes.push_back({b, nullptr});
  auto enter = [&](Node node, unsigned target, Frontier<Node> &own, const Frontier<Node> &other) {
    if (found || node.group == a || node.group == b) {
      found |= node.group == target && own.next > 1; // the edge between a and b itself is no outer path
      return;
    }
    uintptr_t key = node.op ? reinterpret_cast<uintptr_t>(node.op) : 2 * uintptr_t{node.group} + 1;
    if (!mayLieBetween(node) || !own.seen.insert(key).second)
      return;
    found |= other.seen.contains(key);
    own.nodes.push_back(node);
  };
  while (!found && !fromA.isExhausted() && !fromB.isExhausted()) {
    Node afterA = fromA.nodes[fromA.next], beforeB = fromB.nodes[fromB.next];
    if (!std::exchange(fromA.counted, true))
      fromA.edges += edgesAfter(afterA);
    if (!std::exchange(fromB.counted, true))
      fromB.edges += edgesBefore(beforeB);
    if (fromA.edges < fromB.edges) {
      ++fromA.next;
      fromA.counted = false;
      forEachAfter(afterA, [&](Node node) { enter(node, b, fromA, fromB); });
    } else {
      ++fromB.next;
      fromB.counted = false;
      forEachBefore(beforeB, [&](Node node) { enter(node, a, fromB, fromA); });
    }
  }
  return found;
}

void FusionPaths::merged(unsigned a, unsigned b, unsigned id) {
  ofGroup.push_back({std::min(ofGroup[a].up, ofGroup[b].up), std::max(ofGroup[a].down, ofGroup[b].down)});
  ofGroup[id].leads = edgesAfter({id, nullptr}) > 0;
  setSpan(fusion.groups[id].first, fusion.groups[id].last);
  spread({id, nullptr});
}

/// Whatever reaches the node reaches its links, and they reach whatever it reaches.
void FusionPaths::spread(Node from) {
  SmallVector<Node> work{from};
  while (!work.empty()) {
    Node node = work.pop_back_val();
    int up = firstLinkFrom(node);
    forEachBefore(node, [&](Node before) {
      if (up < linksOf(before).up) {
        linksOf(before).up = up;
        work.push_back(before);
      }
    });
  }
  work.push_back(from);
  while (!work.empty()) {
    Node node = work.pop_back_val();
    int down = lastLinkBefore(node);
    forEachAfter(node, [&](Node after) {
      if (down > linksOf(after).down) {
        linksOf(after).down = down;
        work.push_back(after);
      }
    });
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
