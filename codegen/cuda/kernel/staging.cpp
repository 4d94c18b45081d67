#include "codegen/cuda/kernel/staging.h"
#include "codegen/cuda/gpu_model.h"
#include "codegen/cuda/kernel/column_values.h"
#include "codegen/cuda/kernel/vectors.h"
#include "llvm/ADT/STLExtras.h"

namespace tcc::cuda {
namespace {

constexpr int64_t copyBytes = 16; // of one copy into shared memory

/// Whether a thread's group of columns of this load is a plain part of memory that some copies take.
bool isCopied(const KernelInfo &form, const KernelNode &node, const KernelDivision &division) {
  const bool isDerived =
      llvm::any_of(node.index.terms, [](const IndexTerm &term) { return term.axis >= axis::firstDerived; });
  return loadsGroups(form, node, division.vector) && node.operands.empty() && node.guards.empty() && !isDerived &&
         facts(node.type).bytes == facts(form.arguments[node.argument].type).bytes &&
         division.vector * facts(node.type).bytes % copyBytes == 0;
}

/// Whether each row of the space has its own part of the tensor.
bool isOfRow(const KernelNode &node) {
  return node.kind == KernelNode::Kind::load && (node.index.dependsOn(axis::row) || node.index.dependsOn(axis::outer));
}

/// How many passes read the load from memory.
int64_t passesThatLoad(const ColumnValues &values, unsigned id) {
  return llvm::count_if(llvm::enumerate(values.computedIn), [&](auto pass) {
    const bool isKept = values.keptFrom[id] >= 0 && values.keptFrom[id] < static_cast<int>(pass.index());
    return !isKept && llvm::is_contained(pass.value(), id);
  });
}

/// Static shared memory of the block: a value for each warp and type of a reduction, totals of the warps.
int64_t staticBytes(const KernelInfo &form, const KernelDivision &division) {
  constexpr int64_t scratches = 512;
  int64_t widest = 4;
  for (const KernelTensor &result : form.results)
    widest = std::max<int64_t>(widest, facts(result.type).bytes);
  return division.shape == KernelShape::warpColumns ? division.threads / warpSize * division.tile * widest : scratches;
}

} // namespace

StagedLoads stagedLoads(const KernelInfo &form, const KernelDivision &division) {
  StagedLoads staged;
  const bool isLongRow = division.shape == KernelShape::blockRows && division.perThread > mostUnrolledColumns;
  const bool isWarpColumns = division.shape == KernelShape::warpColumns && division.resident > 1;
  if (division.vector == 1 || (!isLongRow && !isWarpColumns))
    return staged;
  const ColumnValues values = columnValues(form, kernelStages(form), division);
  for (auto [id, node] : llvm::enumerate(form.nodes)) {
    const int64_t passes = passesThatLoad(values, static_cast<unsigned>(id));
    if (passes == 0 || !loadsGroups(form, node, division.vector) || !isOfRow(node))
      continue;
    if (isLongRow && passes == 1)
      continue;
    if (!isCopied(form, node, division))
      return {};
    staged.loads.push_back({static_cast<unsigned>(id), staged.rowBytes});
    staged.rowBytes += form.space.columns * facts(node.type).bytes;
  }
  staged.rows = isLongRow ? 1 : 2 * (division.threads / warpSize);
  return staged.bytes() + staticBytes(form, division) <= mostBlockShared ? staged : StagedLoads();
}

} // namespace tcc::cuda
