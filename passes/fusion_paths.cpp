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

SmallVector<Value> Fusion::resultsOf(const FusionGroup &group, unsigned self, unsigned other) const {
  SmallVector<Value> results;
  for (Value value : group.values)
    if (isResult(value, self, other))
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
  for (const FusionGroup &group : fusion.groups)
    setSpan(group.first, group.last);
}

/// The longest chain of structured ops in which each one is computed from the one before.
void FusionPaths::findChain() {
  llvm::DenseMap<Value, std::pair<int, Operation *>> before; // the chain that a value is computed from: length, last op
  Operation *end = nullptr;
  llvm::DenseMap<Operation *, std::pair<int, Operation *>> behind;
  int longest = 0;
  for (Operation &op : fusion.block.without_terminator()) {
    std::pair<int, Operation *> best{0, nullptr};
    for (Value operand : op.getOperands())
      if (auto known = before.find(operand); known != before.end() && known->second.first > best.first)
        best = known->second;
    if (isa<StructuredOpInterface>(op)) {
      behind[&op] = best;
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
    end = behind.lookup(end).second;
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

void FusionPaths::forEachAfter(Node node, llvm::function_ref<void(Node)> visit) const {
  auto after = [&](Value value) {
    if (auto known = fusion.users.find(value); known != fusion.users.end())
      for (unsigned user : known->second)
        visit({user, nullptr});
    if (auto known = fusion.structuredUsers.find(value); known != fusion.structuredUsers.end())
      for (Operation *user : known->second)
        if (user->getNumResults() > 0)
          visit({~0u, user});
  };
  if (node.op)
    llvm::for_each(node.op->getResults(), after);
  else
    llvm::for_each(fusion.groups[node.group].values, after);
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

/// The search goes from b backwards, since a kernel has few operands but a value can have any number of users.
bool FusionPaths::hasOuterPath(unsigned a, unsigned b) const {
  const Links from = ofGroup[a];
  if (from.up <= ofGroup[b].down)
    return true;
  unsigned earliest = earliestOnPathFrom(a), latest = latestOnPathTo(b);
  llvm::DenseSet<unsigned> seenGroups;
  llvm::DenseSet<Operation *> seenOps;
  SmallVector<Node> work;
  bool found = false;
  auto enter = [&](Node node, bool fromB) {
    if (found || node.group == b || (fromB && node.group == a))
      return;
    if (node.group == a) {
      found = true;
      return;
    }
    // What a reaches is behind all that a is behind, and reaches nothing that a does not.
    if (lastLinkBefore(node) < from.down || firstLinkFrom(node) < from.up)
      return;
    if (node.op) {
      unsigned position = fusion.order.lookup(node.op);
      if (position >= earliest && position <= latest && seenOps.insert(node.op).second)
        work.push_back(node);
      return;
    }
    const FusionGroup &group = fusion.groups[node.group];
    if (group.last >= earliest && group.first <= latest && seenGroups.insert(node.group).second)
      work.push_back(node);
  };
  forEachBefore({b, nullptr}, [&](Node node) { enter(node, true); });
  while (!work.empty() && !found) {
    Node node = work.pop_back_val();
    forEachBefore(node, [&](Node next) { enter(next, false); });
  }
  return found;
}

void FusionPaths::merged(unsigned a, unsigned b, unsigned id) {
  ofGroup.push_back({std::min(ofGroup[a].up, ofGroup[b].up), std::max(ofGroup[a].down, ofGroup[b].down)});
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
  auto earliestStart = [&](unsigned position) { // of the groups that end there or behind
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
