// Owners of updates: part of distribute (--zero). An update that is not computed in parts is computed whole, by one
// rank:
//   1. states whose next values are computed together are one update, if nothing but next values of states follows from
//      them, and if they have at least a quarter of the bytes that ranks must then send. States that have less, such as
//      the rows and columns of Adafactor, stay whole on each rank;
//   2. the largest updates come first, each to the rank that has least until then, so that ranks have alike much;
//   3. other ranks keep no row of the update's states and compute nothing of it. The next values of parameters go to
//      all ranks: the first ones of all owners together (tcc.all_gather), then the second ones, …
//   4. with them goes an element of each value that one of the updates reads. So collectives before it have readers on
//      every rank, and none is removed on some of them.
#include "ir/names.h"
#include "ir/tensor_bytes.h"
#include "passes/state_updates.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace tcc {
namespace {

using Values = SmallVector<Value>;

struct Update {
  OpSet ops;
  SmallVector<BlockArgument> owned;  // states that follow from themselves: the owner's alone
  SmallVector<BlockArgument> shared; // parameters, on all ranks
  int64_t owner = 0;
};

class Owners {
public:
  Owners(const StateUpdates &updates, const OpSet &updating) : updates(updates), updating(updating) {}

  void run() {
    for (BlockArgument state : updates.states)
      add(state);
    for (Update &update : all)
      findShared(update);
    llvm::erase_if(all, [&](const Update &update) { return !isWorthIt(update); });
    chooseOwners();
    for (size_t round = 0, left = all.size(); left > 0; ++round)
      left -= gather(round);
    for (Update &update : all)
      if (update.owner != updates.ranks.rank)
        leave(update);
  }

private:
  const StateUpdates &updates;
  const OpSet &updating;
  std::vector<Update> all;

  /// A state that lanes do not read: whatever follows from it is an update.
  void add(BlockArgument state) {
    OpSet ops;
    if (updates.follow(
            state, [](Operation *op) { return op->getNumRegions() == 0; }, ops) ||
        ops.empty() || llvm::any_of(ops, [&](Operation *op) { return updating.contains(op); }) ||
        tensorType(state).getRank() == 0)
      return;
    Update update{std::move(ops), {state}, {}, 0};
    for (size_t i = all.size(); i-- > 0;) // with all that it is computed together with
      if (llvm::any_of(all[i].ops, [&](Operation *op) { return update.ops.contains(op); })) {
        update.ops.insert(all[i].ops.begin(), all[i].ops.end());
        llvm::append_range(update.owned, all[i].owned);
        all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
      }
    all.push_back(std::move(update));
  }

  void findShared(Update &update) {
    for (BlockArgument state : updates.states)
      if (update.ops.contains(updates.next(state).getDefiningOp()) && !llvm::is_contained(update.owned, state))
        update.shared.push_back(state);
  }

  static int64_t bytesOf(ArrayRef<BlockArgument> states) {
    int64_t bytes = 0;
    for (BlockArgument state : states)
      bytes += byteSize(tensorType(state));
    return bytes;
  }

  bool isWorthIt(const Update &update) const {
    const bool isOfOneType = llvm::all_of(update.shared, [&](BlockArgument state) {
      return tensorType(state).getElementType() == tensorType(update.shared.front()).getElementType();
    });
    const int64_t own = bytesOf(update.owned), sent = bytesOf(update.shared);
    if (isOfOneType && sent > 0 && 4 * own >= sent)
      return true;
    for (BlockArgument state : update.owned)
      updates.remark(
          state, Remark::Kind::missed,
          llvm::formatv("is whole on each rank: with an owner, {0} bytes of parameters would be sent", sent).str());
    return false;
  }

  void chooseOwners() {
    llvm::stable_sort(all, [](const Update &a, const Update &b) { return bytesOf(a.shared) > bytesOf(b.shared); });
    std::vector<int64_t> load(static_cast<size_t>(updates.ranks.count));
    for (Update &update : all) {
      update.owner = llvm::min_element(load) - load.begin();
      load[static_cast<size_t>(update.owner)] += bytesOf(update.shared);
      for (BlockArgument state : update.owned)
        updates.remark(state, Remark::Kind::passed, llvm::formatv("is kept by rank {0} alone", update.owner).str());
    }
  }

  static int64_t elementsOf(const Update &update) {
    int64_t elements = 0;
    for (BlockArgument state : update.shared)
      elements += tensorType(state).getNumElements();
    return elements;
  }

  /// Sends round to all ranks the parameters of update number `round` of each owner; gives how many updates that were.
  size_t gather(size_t round) {
    std::vector<Update *> chosen(static_cast<size_t>(updates.ranks.count));
    std::vector<size_t> seen(chosen.size());
    for (Update &update : all)
      if (const auto owner = static_cast<size_t>(update.owner); seen[owner]++ == round)
        chosen[owner] = &update;
    // Element types differ between updates only where parameters of several kinds are trained: each has its gather.
    llvm::SmallSetVector<Type, 2> elements;
    for (const Update *update : chosen)
      if (update)
        elements.insert(tensorType(update->shared.front()).getElementType());
    for (Type element : elements)
      gather(chosen, element);
    return static_cast<size_t>(llvm::count_if(chosen, [](const Update *update) { return update; }));
  }

  void gather(ArrayRef<Update *> chosen, Type element) {
    const auto isOfElement = [&](const Update *update) {
      return update && tensorType(update->shared.front()).getElementType() == element;
    };
    int64_t size = 0;
    const Update *any = nullptr;
    for (const Update *update : chosen)
      if (isOfElement(update)) {
        size = std::max(size, elementsOf(*update));
        any = update;
      }
    OpBuilder builder(updates.end());
    Emit b(builder, updates.next(any->shared.front()).getLoc());
    Values read;
    for (const Update *update : chosen)
      if (isOfElement(update))
        addReads(b, *update, element, read);
    Value own = b.zeros(RankedTensorType::get({size}, element));
    if (const Update *mine = chosen[static_cast<size_t>(updates.ranks.rank)]; isOfElement(mine)) {
      own = RankParts::flat(b, llvm::map_to_vector(mine->shared, [&](BlockArgument s) { return updates.next(s); }));
      own = b.pad(own, {0}, {size - tensorType(own).getNumElements()});
    }
    read.insert(read.begin(), own);
    own = RankParts::flat(b, read);
    Value parts = updates.parts.gatherFlat(b, own);
    for (auto [rank, update] : llvm::enumerate(chosen)) {
      if (!isOfElement(update))
        continue;
      int64_t first = 0;
      const auto row = static_cast<int64_t>(rank);
      for (BlockArgument state : update->shared) {
        const RankedTensorType type = tensorType(state);
        Value value = b.slice(parts, {row, first}, {row + 1, first + type.getNumElements()});
        updates.setNext(state, b.reshape(value, type.getShape()));
        first += type.getNumElements();
      }
    }
  }

  /// The first element of each value that the update reads and that a collective may have given.
  static void addReads(Emit &b, const Update &update, Type element, Values &read) {
    llvm::SmallSetVector<Value, 8> values;
    for (Operation *op : update.ops)
      for (Value operand : op->getOperands())
        if (Operation *producer = operand.getDefiningOp();
            producer && !update.ops.contains(producer) && !producer->hasTrait<OpTrait::ConstantLike>())
          values.insert(operand);
    for (Value value : values) {
      value = b.reshape(value, {tensorType(value).getNumElements()});
      read.push_back(b.cast(b.slice(value, {0}, {1}), element));
    }
  }

  /// On a rank that is not the owner: no row of its states, and nothing is computed.
  void leave(Update &update) {
    for (BlockArgument state : update.owned) {
      updates.setNext(state, state);
      SmallVector<int64_t> shape(tensorType(state).getShape());
      shape[0] = 0;
      state.setType(withShape(tensorType(state), shape));
    }
    for (Operation *op : llvm::reverse(update.ops))
      op->dropAllUses();
    for (Operation *op : llvm::reverse(update.ops))
      op->erase();
  }
};

} // namespace

void giveOwners(const StateUpdates &updates, const OpSet &updating) {
  Owners(updates, updating).run();
}

} // namespace tcc
