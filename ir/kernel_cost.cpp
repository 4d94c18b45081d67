// Flops and bytes of a kernel, from its form.
#include "ir/kernel_cost.h"

using namespace mlir;

namespace tcc {
namespace {

int64_t bytesOf(RankedTensorType type) {
  return type.getNumElements() * std::max(1u, type.getElementTypeBitWidth() / 8);
}

/// A gathered table is read once per element of the result, everything else once.
int64_t bytesRead(const KernelInfo &info, unsigned argument, int64_t whole) {
  for (const KernelNode &node : info.nodes)
    if (node.kind == KernelNode::Kind::load && node.argument == argument && !node.operands.empty())
      return std::min(whole, bytesOf(node.type));
  return whole;
}

} // namespace

KernelCost costOf(KernelOp op, const KernelInfo &info) {
  KernelCost cost;
  for (Value value : op.getResults())
    cost.bytes += bytesOf(tensorType(value));
  for (auto [i, value] : llvm::enumerate(op.getInputs()))
    cost.bytes += bytesRead(info, i, bytesOf(tensorType(value)));
  for (const KernelNode &node : info.nodes)
    if (node.kind == KernelNode::Kind::compute || node.kind == KernelNode::Kind::rowReduce)
      cost.flops += node.perColumn || node.kind == KernelNode::Kind::rowReduce ? info.space.elements()
                                                                               : info.space.outer * info.space.rows;
  return cost;
}

} // namespace tcc
