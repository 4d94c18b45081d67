#include "ir/kernel_stages.h"
#include "llvm/ADT/STLExtras.h"

namespace tcc {
namespace {

bool dependsOnRow(const KernelInfo &info, const IndexExpr &expr) {
  return llvm::any_of(expr.terms, [&](const IndexTerm &term) {
    if (term.axis >= axis::firstDerived)
      return dependsOnRow(info, info.derived[term.axis - axis::firstDerived].value);
    return term.axis != axis::column;
  });
}

std::vector<bool> nodesSameForAllRows(const KernelInfo &info) {
  std::vector<bool> same(info.nodes.size());
  for (auto [i, node] : llvm::enumerate(info.nodes)) {
    bool fixed = node.kind != KernelNode::Kind::rowReduce && !dependsOnRow(info, node.index);
    for (unsigned operand : node.operands)
      fixed = fixed && same[operand];
    for (unsigned guard : node.guards)
      fixed = fixed && !dependsOnRow(info, info.derived[guard - axis::firstDerived].value);
    same[i] = fixed;
  }
  return same;
}

} // namespace

unsigned readyStage(const KernelInfo &info, unsigned node) {
  return info.nodes[node].stage + (info.nodes[node].kind == KernelNode::Kind::rowReduce ? 1 : 0);
}

unsigned storeStage(const KernelInfo &info, const KernelStore &store) {
  unsigned stage = readyStage(info, store.node);
  if (store.kind == KernelStore::Kind::scatterAdd)
    stage = std::max(stage, readyStage(info, store.scatterRow));
  return stage;
}

KernelStages kernelStages(const KernelInfo &info) {
  KernelStages plan;
  plan.stages.resize(info.stages + 1);
  std::vector<bool> sameForAllRows = nodesSameForAllRows(info);
  for (auto [i, node] : llvm::enumerate(info.nodes)) {
    if (node.kind == KernelNode::Kind::rowReduce)
      plan.stages[node.stage].reductions.push_back(i);
    else if (!node.perColumn && sameForAllRows[i])
      plan.constantNodes.push_back(i);
    else if (!node.perColumn)
      plan.stages[node.stage].rowNodes.push_back(i);
  }
  for (auto [i, store] : llvm::enumerate(info.stores)) {
    if (store.kind != KernelStore::Kind::element)
      plan.stages[storeStage(info, store)].columnResults.push_back(i);
    else if (store.perColumn)
      plan.stages[storeStage(info, store)].stores.push_back(i);
    else
      plan.rowStores.push_back(i);
  }
  return plan;
}

} // namespace tcc
