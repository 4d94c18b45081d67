// What a kernel's form says about itself: how threads may divide it, whether tensors of several sizes can share it,
// which buffers may be one, and its text.
#include "ir/kernel.h"

using namespace mlir;

namespace tcc {
namespace {

/// For each node the last stage in which it is evaluated.
std::vector<unsigned> lastStages(const KernelInfo &info) {
  std::vector<unsigned> last(info.nodes.size(), 0);
  auto raise = [&](unsigned node, unsigned stage) { last[node] = std::max(last[node], stage); };
  for (const KernelStore &store : info.stores)
    raise(store.node, info.nodes[store.node].stage);
  for (size_t i = info.nodes.size(); i-- > 0;) {
    const KernelNode &node = info.nodes[i];
    unsigned stage = node.kind == KernelNode::Kind::rowReduce ? node.stage : std::max(last[i], node.stage);
    for (unsigned operand : node.operands)
      if (info.nodes[operand].kind != KernelNode::Kind::rowReduce)
        raise(operand, stage);
  }
  return last;
}

} // namespace

bool KernelInfo::hasRowReduction() const {
  return llvm::any_of(nodes, [](const KernelNode &node) { return node.kind == KernelNode::Kind::rowReduce; });
}

bool KernelInfo::hasColumnResult() const {
  return llvm::any_of(stores, [](const KernelStore &store) { return store.kind != KernelStore::Kind::element; });
}

KernelInfo::Parallel KernelInfo::parallel() const {
  if (hasColumnResult())
    return hasRowReduction() ? Parallel::outer : Parallel::columns;
  bool oneRow = space.outer == 1 && space.rows == 1 && !hasRowReduction();
  bool allPerColumn = llvm::all_of(stores, [](const KernelStore &store) { return store.perColumn; });
  return oneRow && allPerColumn ? Parallel::columns : Parallel::rows;
}

bool KernelInfo::isSegment() const {
  if (space.outer != 1 || space.rows != 1 || parallel() != Parallel::columns || hasColumnResult() || !derived.empty() ||
      space.columns < segmentSizes || space.columns >= int64_t(1) << 31)
    return false;
  IndexExpr element = IndexExpr::ofAxis(axis::column, space.columns);
  auto simple = [&](const IndexExpr &index) { return index.isConstant() || index == element; };
  return llvm::all_of(nodes,
                      [&](const KernelNode &node) {
                        return (node.kind == KernelNode::Kind::load || node.kind == KernelNode::Kind::literal ||
                                node.kind == KernelNode::Kind::compute) &&
                               node.gatherStride == 0 && simple(node.index);
                      }) &&
         llvm::all_of(stores, [&](const KernelStore &store) { return store.index == element; });
}

void KernelInfo::print(llvm::raw_ostream &os) const {
  static constexpr const char *kinds[] = {"load", "literal", "index", "random", "compute", "choose", "rowReduce"};
  static constexpr const char *stores_[] = {"element", "columnSum", "columnMax", "scatterAdd"};
  static constexpr const char *axes[] = {"rows", "outer", "columns"};
  os << "space " << space.outer << " x " << space.rows << " x " << space.columns << ", stages " << stages
     << ", parallel over " << axes[static_cast<int>(parallel())] << '\n';
  for (auto [i, axis] : llvm::enumerate(derived)) {
    os << "d" << i + axis::firstDerived << " = ";
    axis.value.print(os);
    os << " in 0.." << axis.extent << '\n';
  }
  for (auto [i, node] : llvm::enumerate(nodes)) {
    os << '%' << i << " = " << kinds[static_cast<int>(node.kind)];
    if (node.op)
      os << ' ' << node.op->getName().stripDialect();
    for (unsigned operand : node.operands)
      os << " %" << operand;
    if (node.kind == KernelNode::Kind::load)
      os << " arg" << node.argument;
    if (node.kind == KernelNode::Kind::load || node.kind == KernelNode::Kind::index) {
      os << '[';
      node.index.print(os);
      os << ']';
    }
    for (unsigned guard : node.guards)
      os << " if d" << guard;
    os << " : " << node.type.getElementType() << ", stage " << node.stage << (node.perColumn ? "" : ", once a row")
       << '\n';
  }
  for (auto [i, store] : llvm::enumerate(stores)) {
    os << "result" << i << '[';
    store.index.print(os);
    os << "] = " << stores_[static_cast<int>(store.kind)] << " %" << store.node << '\n';
  }
}

bool mayShareBuffer(const KernelInfo &info, unsigned result, unsigned argument) {
  const KernelStore &store = info.stores[result];
  bool isBase = store.kind == KernelStore::Kind::scatterAdd && store.scatterBase == argument;
  if (store.kind != KernelStore::Kind::element && !isBase)
    return false;
  for (auto [i, other] : llvm::enumerate(info.stores)) // a scatter reads its base as it writes
    if (i != result && other.kind == KernelStore::Kind::scatterAdd && other.scatterBase == argument)
      return false;
  std::vector<unsigned> last = lastStages(info);
  for (auto [i, node] : llvm::enumerate(info.nodes)) {
    if (node.kind != KernelNode::Kind::load || node.argument != argument)
      continue;
    if (isBase || !node.operands.empty() || !(node.index == store.index) || node.perColumn != store.perColumn)
      return false;
    if (last[i] > info.nodes[store.node].stage)
      return false;
    if (node.type.getElementTypeBitWidth() != info.nodes[store.node].type.getElementTypeBitWidth())
      return false;
  }
  return true;
}

} // namespace tcc
