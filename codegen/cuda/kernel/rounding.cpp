#include "codegen/cuda/kernel/rounding.h"

namespace tcc::cuda {

using Kind = KernelNode::Kind;

/// Whether the node is one of its operands as it is: a selection, or a value cast to the type that it has.
static bool isSelection(const KernelNode &node) {
  return node.kind == Kind::compute &&
         (node.steps.steps.empty() || (node.steps.steps.size() == 1 && node.steps.steps[0].opcode == Opcode::select));
}

std::vector<bool> roundedWhenStored(const KernelInfo &form) {
  std::vector<bool> unrounded(form.nodes.size());
  for (size_t id = 0; id < form.nodes.size(); ++id) {
    const KernelNode &node = form.nodes[id];
    unrounded[id] = node.kind == Kind::compute && is16BitFloat(node.type);
  }
  for (const KernelStore &store : form.stores)
    if (store.kind != KernelStore::Kind::element ||
        form.results[static_cast<size_t>(&store - form.stores.data())].type != form.nodes[store.node].type)
      unrounded[store.node] = false;
  for (size_t id = form.nodes.size(); id-- > 0;) {
    const KernelNode &node = form.nodes[id];
    for (unsigned operand : node.operands)
      if (!unrounded[id] || !isSelection(node) || form.nodes[operand].type != node.type)
        unrounded[operand] = false;
  }
  return unrounded;
}

} // namespace tcc::cuda
