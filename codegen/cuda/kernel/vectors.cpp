#include "codegen/cuda/kernel/vectors.h"
#include "llvm/ADT/STLExtras.h"

namespace tcc::cuda {
namespace {

/// Whether the index takes `width` steps of 1 from a multiple of `width` on.
bool stepsThroughGroups(const KernelInfo &form, const IndexExpr &index, int width) {
  bool steps = false;
  for (const IndexTerm &term : index.terms) {
    if (term.axis >= axis::firstDerived && form.axisDependsOnColumn(term.axis))
      return false;
    bool inGroup = term.axis == axis::column && term.divisor % width != 0; // differs from column to column
    if (!inGroup && term.coefficient % width != 0)
      return false;
    if (!inGroup)
      continue;
    if (steps || term.coefficient != 1 || term.divisor != 1 || term.modulus % width != 0)
      return false;
    steps = true;
  }
  return steps && index.constant % width == 0;
}

} // namespace

bool loadsGroups(const KernelInfo &form, const KernelNode &node, int width) {
  if (node.kind != KernelNode::Kind::load || !node.perColumn || form.arguments[node.argument].elements == 0)
    return false;
  if (llvm::any_of(node.guards, [&](unsigned guard) { return form.axisDependsOnColumn(guard); }))
    return false;
  bool gathers = !node.operands.empty();
  if (gathers && (form.nodes[node.operands[0]].perColumn || node.gatherStride % width != 0 ||
                  node.gatherRows * node.gatherStride == 0 || !node.guards.empty()))
    return false;
  return stepsThroughGroups(form, node.index, width);
}

bool storesGroups(const KernelInfo &form, const KernelStore &store, int width) {
  return store.kind == KernelStore::Kind::element && store.perColumn && stepsThroughGroups(form, store.index, width);
}

int vectorWidth(const KernelInfo &form) {
  // The order of a sum over a row follows from the width: a row that starts elsewhere in memory has the same one.
  const bool anyLayout = form.hasRowReduction();
  for (int width : {8, 4}) {
    if (!form.isSegment() && form.space.columns % width != 0)
      continue;
    auto fits = [&](ElementType type) { return width == 4 || facts(type).bytes == 2; };
    if (llvm::any_of(form.nodes,
                     [&](const KernelNode &node) {
                       const bool isColumnLoad = node.kind == KernelNode::Kind::load && node.perColumn;
                       return fits(node.type) && (anyLayout ? isColumnLoad : loadsGroups(form, node, width));
                     }) ||
        llvm::any_of(llvm::enumerate(form.stores), [&](auto entry) {
          return fits(form.results[entry.index()].type) && storesGroups(form, entry.value(), width);
        }))
      return width;
  }
  return 1;
}

} // namespace tcc::cuda
