// Flops and bytes of a kernel, from its form.
#include "ir/kernel_cost.h"
#include <algorithm>

namespace tcc {
namespace {

/// A gathered table is read once per element of the space, everything else once.
int64_t bytesRead(const KernelInfo &info, unsigned argument) {
  int64_t whole = info.arguments[argument].elements * facts(info.arguments[argument].type).bytes;
  for (const KernelNode &node : info.nodes)
    if (node.kind == KernelNode::Kind::load && node.argument == argument && !node.operands.empty()) {
      int64_t points = node.perColumn ? info.space.elements() : info.space.outer * info.space.rows;
      return std::min(whole, points * facts(node.type).bytes);
    }
  return whole;
}

} // namespace

KernelCost costOf(const KernelInfo &info) {
  KernelCost cost;
  for (const KernelTensor &result : info.results)
    cost.bytes += result.elements * facts(result.type).bytes;
  for (unsigned i = 0; i < info.arguments.size(); ++i)
    cost.bytes += bytesRead(info, i);
  for (const KernelNode &node : info.nodes)
    if (node.kind == KernelNode::Kind::compute || node.kind == KernelNode::Kind::rowReduce)
      cost.flops += node.perColumn || node.kind == KernelNode::Kind::rowReduce ? info.space.elements()
                                                                               : info.space.outer * info.space.rows;
  return cost;
}

} // namespace tcc
