// What a kernel's form says about itself: whether tensors of several sizes can share it, which kernels are equal, which
// buffers may be one, and its text.
#include "ir/kernel.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"

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

const char *name(Reduction reduction) {
  switch (reduction) {
  case Reduction::sum:
    return "sum";
  case Reduction::maximum:
    return "maximum";
  case Reduction::product:
    return "product";
  }
  llvm_unreachable("a reduction without a name");
}

bool KernelInfo::hasRowReduction() const {
  return llvm::any_of(nodes, [](const KernelNode &node) { return node.kind == KernelNode::Kind::rowReduce; });
}

bool KernelInfo::hasColumnResult() const {
  return llvm::any_of(stores, [](const KernelStore &store) { return store.kind != KernelStore::Kind::element; });
}

bool KernelInfo::axisDependsOnColumn(unsigned id) const {
  if (id < axis::firstDerived)
    return id == axis::column;
  return dependsOnColumn(derived[id - axis::firstDerived].value);
}

bool KernelInfo::dependsOnColumn(const IndexExpr &expr) const {
  return llvm::any_of(expr.terms, [&](const IndexTerm &term) { return axisDependsOnColumn(term.axis); });
}

bool KernelInfo::isAffineInColumns() const {
  auto isAffine = [](const IndexExpr &expr) {
    int64_t stride;
    return expr.isAffineIn(axis::column, stride);
  };
  auto usesDerivedColumns = [&](const IndexExpr &expr) {
    return llvm::any_of(expr.terms, [&](const IndexTerm &term) {
      return term.axis >= axis::firstDerived && axisDependsOnColumn(term.axis);
    });
  };
  return llvm::all_of(
             nodes, [&](const KernelNode &node) { return isAffine(node.index) && !usesDerivedColumns(node.index); }) &&
         llvm::all_of(derived, [&](const DerivedAxis &axis) { return isAffine(axis.value); });
}

bool KernelInfo::isSegment() const {
  if (space.outer != 1 || space.rows != 1 || hasRowReduction() || !derived.empty() || space.columns < segmentSizes ||
      space.columns >= int64_t(1) << 31)
    return false;
  IndexExpr element = IndexExpr::ofAxis(axis::column, space.columns);
  auto simple = [&](const IndexExpr &index) { return index.isConstant() || index == element; };
  return llvm::all_of(nodes,
                      [&](const KernelNode &node) {
                        return (node.kind == KernelNode::Kind::load || node.kind == KernelNode::Kind::literal ||
                                node.kind == KernelNode::Kind::compute) &&
                               node.gatherStride == 0 && simple(node.index);
                      }) &&
         llvm::all_of(stores, [&](const KernelStore &store) {
           return store.kind == KernelStore::Kind::element && store.perColumn && store.index == element;
         });
}

KernelInfo normalized(KernelInfo form) {
  if (!form.isSegment())
    return form;
  form.space.columns = KernelInfo::segmentSizes + form.space.columns % KernelInfo::segmentSizes;
  IndexExpr element = IndexExpr::ofAxis(axis::column, form.space.columns);
  for (KernelTensor &argument : form.arguments)
    argument.elements = 0;
  for (KernelNode &node : form.nodes) {
    if (!node.index.isConstant())
      node.index = element;
    if (node.kind != KernelNode::Kind::load)
      continue;
    int64_t &read = form.arguments[node.argument].elements; // of an argument no more is known than what is read
    read = std::max(read, node.index.maximum() + 1);
  }
  for (KernelTensor &result : form.results)
    result.elements = form.space.columns;
  for (KernelStore &store : form.stores)
    store.index = element;
  return form;
}

size_t hashOf(const KernelInfo &form) {
  llvm::hash_code hash = llvm::hash_combine(form.space.outer, form.space.rows, form.space.columns, form.stores.size(),
                                            form.arguments.size(), form.stages);
  for (const KernelNode &node : form.nodes)
    hash = llvm::hash_combine(hash, node.kind, node.type, node.argument, node.index.constant, node.stream,
                              node.steps.steps.empty() ? Opcode::constant : node.steps.steps.back().opcode);
  return hash;
}

/// The kind of a node and what it has beside its operands, index and guards.
static std::string describe(const KernelNode &node) {
  auto operand = [&](unsigned i) { return "%" + std::to_string(node.operands[i]); };
  switch (node.kind) {
  case KernelNode::Kind::load:
    return (node.operands.empty() ? "load" : "load row " + operand(0) + " of") + " arg" + std::to_string(node.argument);
  case KernelNode::Kind::literal:
    return literalText(node.value, node.type);
  case KernelNode::Kind::index:
    return "index";
  case KernelNode::Kind::random:
    return "random " + operand(0) + " stream " + std::to_string(node.stream) + " at " + operand(1) + ", " + operand(2) +
           ", " + operand(3);
  case KernelNode::Kind::compute:
    return node.steps.text(node.operands.size(), operand);
  case KernelNode::Kind::choose: {
    std::string text = "choose";
    for (unsigned i = 0; i < node.operands.size(); ++i)
      text += " " + operand(i);
    return text;
  }
  case KernelNode::Kind::rowReduce:
    return "row " + std::string(name(node.reduction)) + " of " + operand(0);
  }
  llvm_unreachable("a kind that has no text");
}

void KernelInfo::print(llvm::raw_ostream &os) const {
  auto kindOf = [](const KernelStore &store) -> std::string {
    if (store.kind == KernelStore::Kind::columnReduce)
      return "column " + std::string(name(store.reduction));
    return store.kind == KernelStore::Kind::element ? "element" : "scatterAdd";
  };
  os << "space " << space.outer << " x " << space.rows << " x " << space.columns << ", stages " << stages << '\n';
  for (auto [i, axis] : llvm::enumerate(derived)) {
    os << "d" << i + axis::firstDerived << " = ";
    axis.value.print(os);
    os << " in 0.." << axis.extent << '\n';
  }
  for (auto [i, node] : llvm::enumerate(nodes)) {
    os << '%' << i << " = " << describe(node);
    using Kind = KernelNode::Kind;
    if (node.kind == Kind::load || node.kind == Kind::index) {
      os << '[';
      node.index.print(os);
      os << ']';
    }
    for (unsigned guard : node.guards)
      os << " if d" << guard;
    os << " : " << facts(node.type).name << ", stage " << node.stage << (node.perColumn ? "" : ", once a row") << '\n';
  }
  for (auto [i, store] : llvm::enumerate(stores)) {
    os << "result" << i << '[';
    store.index.print(os);
    os << "] = " << kindOf(store) << " %" << store.node << '\n';
  }
}

std::vector<bool> sharedBuffers(const KernelInfo &info) {
  const size_t arguments = info.arguments.size();
  std::vector<bool> shared(info.results.size() * arguments);
  auto isBase = [](const KernelStore &store, unsigned argument) {
    return store.kind == KernelStore::Kind::scatterAdd && store.scatterBase == argument;
  };
  for (auto [result, store] : llvm::enumerate(info.stores))
    for (unsigned argument = 0; argument < arguments; ++argument) {
      // A scatter reads its base as it writes.
      auto isOthersBase = [&](const KernelStore &other) { return &other != &store && isBase(other, argument); };
      shared[result * arguments + argument] = (store.kind == KernelStore::Kind::element || isBase(store, argument)) &&
                                              llvm::none_of(info.stores, isOthersBase);
    }
  const std::vector<unsigned> last = lastStages(info);
  for (auto [i, node] : llvm::enumerate(info.nodes)) {
    if (node.kind != KernelNode::Kind::load)
      continue;
    for (auto [result, store] : llvm::enumerate(info.stores)) {
      const KernelNode &written = info.nodes[store.node];
      if (isBase(store, node.argument) || !node.operands.empty() || !(node.index == store.index) ||
          node.perColumn != store.perColumn || last[i] > written.stage ||
          facts(node.type).bytes != facts(written.type).bytes)
        shared[result * arguments + node.argument] = false;
    }
  }
  return shared;
}

} // namespace tcc
