// Plans in these steps: what each pass computes (ir/kernel_stages.h); which values are worth keeping from one pass to a
// later one; how far loops are unrolled.
#include "codegen/cpu/kernel_plan.h"
#include "codegen/cpu/emit_kernels.h"

namespace tcc::cpu {
namespace {

constexpr int64_t scratchBytes = 256 * 1024; // scratch rows stay in L2, and fit a thread's stack

unsigned ownCost(const KernelNode &node) {
  if (node.kind == KernelNode::Kind::random)
    return 40;
  if (node.kind == KernelNode::Kind::load && !node.operands.empty())
    return 4;
  return node.kind == KernelNode::Kind::compute ? std::max(1u, node.steps.cost()) : 1;
}

/// Per node: vector operations to compute it from memory.
std::vector<unsigned> recomputationCosts(const KernelInfo &info) {
  std::vector<unsigned> costs(info.nodes.size(), 0);
  for (auto [i, node] : llvm::enumerate(info.nodes)) {
    if (!node.perColumn)
      continue;
    costs[i] = ownCost(node);
    for (unsigned operand : node.operands)
      costs[i] = std::min(1000u, costs[i] + costs[operand]);
  }
  return costs;
}

/// Walks the passes in order and cuts at values that an earlier pass has computed and that are costly to repeat.
class Keeper {
public:
  Keeper(const KernelInfo &info, KernelPlan &plan, const KernelTuning &tuning)
      : info(info), plan(plan), leastCost(tuning.keptCost), costs(recomputationCosts(info)),
        firstStage(info.nodes.size(), -1), seenIn(info.nodes.size(), -1) {}

  void run(int64_t maxScratchRows) {
    limit = maxScratchRows;
    for (unsigned stage = 0; stage < info.stages; ++stage) {
      for (unsigned node : plan.stages[stage].reductions)
        visit(info.nodes[node].operands[0], stage);
      for (unsigned store : plan.stages[stage].stores)
        visit(info.stores[store].node, stage);
      for (unsigned store : plan.stages[stage].columnResults)
        visit(info.stores[store].node, stage);
    }
  }

private:
  const KernelInfo &info;
  KernelPlan &plan;
  const unsigned leastCost; // of a value that is kept
  std::vector<unsigned> costs;
  std::vector<int> firstStage; // the pass that computes the node first
  std::vector<int> seenIn;
  int64_t limit = 0;

  void visit(unsigned id, unsigned stage) {
    const KernelNode &node = info.nodes[id];
    if (!node.perColumn || seenIn[id] == static_cast<int>(stage))
      return;
    seenIn[id] = stage;
    bool again = firstStage[id] >= 0;
    if (!again)
      firstStage[id] = stage;
    if (again && keep(id))
      return;
    for (unsigned operand : node.operands)
      visit(operand, stage);
  }

  bool keep(unsigned id) {
    if (plan.scratchSlot[id] >= 0)
      return true;
    bool isFloat = facts(info.nodes[id].type).isFloat;
    if (!isFloat || plan.scratchRows >= limit || costs[id] < leastCost)
      return false;
    plan.scratchSlot[id] = plan.scratchRows++;
    plan.keptFrom[id] = firstStage[id];
    plan.stages[firstStage[id]].kept.push_back(id);
    return true;
  }
};

} // namespace

Parallel parallelOf(const KernelInfo &info) {
  if (info.hasColumnResult())
    return info.hasRowReduction() ? Parallel::outer : Parallel::columns;
  bool oneRow = info.space.outer == 1 && info.space.rows == 1 && !info.hasRowReduction();
  bool allPerColumn = llvm::all_of(info.stores, [](const KernelStore &store) { return store.perColumn; });
  return oneRow && allPerColumn ? Parallel::columns : Parallel::rows;
}

KernelPlan planKernel(const KernelInfo &info, bool steady, const KernelTuning &tuning) {
  KernelPlan plan;
  KernelStages stages = kernelStages(info);
  for (KernelStage &stage : stages.stages)
    plan.stages.push_back({std::move(stage), {}});
  plan.constantNodes = std::move(stages.constantNodes);
  plan.rowStores = std::move(stages.rowStores);
  plan.scratchSlot.assign(info.nodes.size(), -1);
  plan.keptFrom.assign(info.nodes.size(), 0);
  auto columnNodes = llvm::count_if(info.nodes, [](const KernelNode &node) { return node.perColumn; });
  const bool hasSums = llvm::any_of(plan.stages, [](const StagePlan &stage) { return !stage.reductions.empty(); });
  // Each vector of a turn has partial sums of its own, so that the order of a sum follows from their number.
  plan.unroll = steady && hasSums ? 2 : columnNodes <= (hasSums ? 12 : 24) ? 4 : columnNodes <= 40 ? 2 : 1;
  plan.prefetchBytes = tuning.prefetchBytes;
  Keeper(info, plan, tuning).run(scratchBytes / (std::max<int64_t>(1, info.space.columns) * 4));
  return plan;
}

/// The k of an axis that is column + k.
static std::optional<int64_t> columnShift(const IndexExpr &value) {
  bool isColumn = value.terms.size() == 1 && value.terms[0].axis == axis::column && value.terms[0].isPlain() &&
                  value.terms[0].coefficient == 1;
  return isColumn ? std::optional(value.constant) : std::nullopt;
}

/// The columns within the row at which a guard changes that depends on the column alone.
static std::set<int64_t> guardChanges(const KernelInfo &info) {
  std::set<int64_t> changes;
  for (const DerivedAxis &derived : info.derived)
    if (std::optional<int64_t> shift = columnShift(derived.value))
      for (int64_t change : {-*shift, derived.extent - *shift})
        if (change > 0 && change < info.space.columns)
          changes.insert(change);
  return changes;
}

/// With more changes, and more cuts at vectors' edges, not each part of the row gets its own loops, for which its code
/// is emitted again.
static constexpr size_t mostChanges = 7, mostChangesOfCopies = 64;

llvm::SmallVector<int64_t> guardCuts(const KernelInfo &info) {
  const std::set<int64_t> changes = guardChanges(info);
  if (changes.size() > mostChanges)
    return {};
  return llvm::SmallVector<int64_t>(changes.begin(), changes.end());
}

llvm::SmallVector<int64_t> vectorCuts(const KernelInfo &info, int64_t lanes) {
  constexpr int64_t fewNodes = 8; // such as a scalar's that is one element of a concatenation
  const bool isCopy = llvm::count_if(info.nodes, [](const KernelNode &node) {
                        return node.kind != KernelNode::Kind::load && node.kind != KernelNode::Kind::choose;
                      }) <= fewNodes;
  const size_t most = isCopy ? mostChangesOfCopies : mostChanges;
  const std::set<int64_t> changes = guardChanges(info);
  std::set<int64_t> cuts; // of parts of few columns several lie between two
  for (int64_t change : changes)
    for (int64_t cut : {change / lanes * lanes, (change + lanes - 1) / lanes * lanes})
      if (cut > 0 && cut < info.space.columns)
        cuts.insert(cut);
  if (changes.size() > most && cuts.size() > most)
    return {};
  return llvm::SmallVector<int64_t>(cuts.begin(), cuts.end());
}

std::optional<bool> isInside(const KernelInfo &info, unsigned derivedAxis, int64_t begin, int64_t end) {
  const DerivedAxis &derived = info.derived[derivedAxis - axis::firstDerived];
  std::optional<int64_t> shift = columnShift(derived.value);
  if (!shift)
    return std::nullopt;
  int64_t first = begin + *shift, last = end - 1 + *shift;
  if (first >= 0 && last < derived.extent)
    return true;
  return last < 0 || first >= derived.extent ? std::optional(false) : std::nullopt;
}

/// Within a row a column's step is one; and rows, if there are several, differ.
bool walksThroughMemory(const KernelInfo &info, const KernelNode &node) {
  if (node.kind != KernelNode::Kind::load || !node.perColumn || !node.operands.empty())
    return false;
  const bool hasRows = info.space.outer * info.space.rows > 1;
  int64_t step = 0;
  return node.index.isAffineIn(axis::column, step) && step == 1 &&
         (!hasRows || node.index.dependsOn(axis::outer) || node.index.dependsOn(axis::row));
}

int64_t columnTile(const KernelInfo &info, const KernelTuning &tuning) {
  bool writesRows = llvm::any_of(info.stores, [](const KernelStore &store) { return !store.perColumn; });
  int64_t columns = std::max<int64_t>(info.space.columns, 1);
  if (parallelOf(info) != Parallel::columns || writesRows)
    return columns; // a row's own values are written by one item
  if (!info.hasColumnResult())
    return 1024;
  constexpr int64_t enoughItems = 8, line = 64;
  if (info.space.outer >= enoughItems && !guardCuts(info).empty())
    return columns; // whole rows can be cut at their guards
  // Enough items for many threads, each of whole cache lines.
  int64_t tiles = std::max<int64_t>(1, tuning.wantedItems / std::max<int64_t>(1, info.space.outer));
  int64_t tile = (columns + tiles - 1) / tiles;
  tile = std::max(line, (tile + line - 1) / line * line);
  return std::min(tile, columns);
}

KernelLaunch launchOf(const KernelInfo &info, const KernelTuning &tuning) {
  const KernelSpace &space = info.space;
  switch (parallelOf(info)) {
  case Parallel::rows:
    return {space.outer * space.rows, 1};
  case Parallel::outer:
    return {space.outer, 1};
  case Parallel::columns:
    break;
  }
  int64_t tile = columnTile(info, tuning);
  if (!info.hasColumnResult())
    return {space.columns, tile};
  return {space.outer * ((space.columns + tile - 1) / tile), 1};
}

} // namespace tcc::cpu
