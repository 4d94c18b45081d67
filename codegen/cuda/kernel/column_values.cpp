// For each pass, goes from the nodes that it must have down to those that an earlier pass has computed. Those are kept
// while registers last, and else computed again from memory.
#include "codegen/cuda/kernel/column_values.h"
#include <set>

namespace tcc::cuda {
namespace {

using Kind = KernelNode::Kind;

/// Registers of a thread for kept values and column results: about half of those that it has.
int64_t mostKept(const KernelDivision &division) {
  const int threads = division.threads * division.resident;
  return threads <= 256 ? 96 : threads <= 512 ? 56 : 24;
}

bool walksRows(KernelShape shape) {
  return shape == KernelShape::warpRows || shape == KernelShape::blockRows || shape == KernelShape::warpColumns ||
         shape == KernelShape::blockColumns;
}

/// The nodes that a pass must have at each column.
std::vector<unsigned> rootsOf(const KernelInfo &form, const KernelStage &stage) {
  std::vector<unsigned> roots;
  for (unsigned node : stage.reductions)
    roots.push_back(form.nodes[node].operands[0]);
  for (const llvm::SmallVector<unsigned> *list : {&stage.stores, &stage.columnResults})
    for (unsigned store : *list) {
      roots.push_back(form.stores[store].node);
      if (form.stores[store].kind == KernelStore::Kind::scatterAdd)
        roots.push_back(form.stores[store].scatterRow);
    }
  return roots;
}

} // namespace

ColumnValues columnValues(const KernelInfo &form, const KernelStages &stages, const KernelDivision &division) {
  ColumnValues values;
  values.keptFrom.assign(form.nodes.size(), -1);
  std::vector<int> firstStage(form.nodes.size(), -1);
  bool unrolls = division.perThread <= mostUnrolledColumns;
  int64_t registers = walksRows(division.shape) && unrolls ? mostKept(division) : 0;
  for (const KernelStore &store : form.stores)
    if (store.kind != KernelStore::Kind::element)
      registers -= division.perThread;
  for (unsigned number = 0; number < form.stages; ++number) {
    std::set<unsigned> seen;
    std::vector<unsigned> work = rootsOf(form, stages.stages[number]);
    while (!work.empty()) {
      unsigned id = work.back();
      work.pop_back();
      const KernelNode &node = form.nodes[id];
      if (!node.perColumn || node.kind == Kind::rowReduce || !seen.insert(id).second)
        continue;
      bool again = firstStage[id] >= 0;
      if (!again)
        firstStage[id] = static_cast<int>(number);
      if (again && values.keptFrom[id] < 0 && node.kind != Kind::literal && registers >= division.perThread) {
        registers -= division.perThread;
        values.keptFrom[id] = firstStage[id];
      }
      if (!again || values.keptFrom[id] < 0)
        work.insert(work.end(), node.operands.begin(), node.operands.end());
    }
    values.computedIn.emplace_back(seen.begin(), seen.end());
  }
  return values;
}

} // namespace tcc::cuda
