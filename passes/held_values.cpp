// (1) Readers are found through views. (2) A matrix is held from its first reader to its last, where updates of states
// do not count. (3) Where fewest matrices are held, one forward and backward part ends and the next may begin. Where
// most of a part's are held, it turns from forward to backward.
#include "passes/held_values.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;

namespace tcc {
namespace {

bool isMatrix(Value value) {
  return llvm::count_if(tensorType(value).getShape(), [](int64_t size) { return size > 1; }) >= 2;
}

} // namespace

HeldValues::HeldValues(Block &block) {
  for (Operation &op : block)
    if (isa<StructuredOpInterface>(op) || &op == block.getTerminator()) {
      numbers[&op] = ops.size();
      ops.push_back(&op);
    }
  for (auto [i, op] : llvm::enumerate(ops))
    forEachRead(op, [&, number = static_cast<unsigned>(i)](Value value) {
      SmallVector<unsigned, 4> &list = readersOf[value];
      if (list.empty() || list.back() != number)
        list.push_back(number);
    });
}

ArrayRef<unsigned> HeldValues::readers(Value value) const {
  auto known = readersOf.find(value);
  return known == readersOf.end() ? ArrayRef<unsigned>() : ArrayRef<unsigned>(known->second);
}

void HeldValues::forEachRead(Operation *op, llvm::function_ref<void(Value)> visit) {
  llvm::SetVector<Value> work;
  work.insert(op->operand_begin(), op->operand_end());
  for (size_t next = 0; next < work.size(); ++next) {
    Value value = work[next];
    Operation *producer = value.getDefiningOp();
    if (!producer || isa<StructuredOpInterface>(producer))
      visit(value);
    else
      work.insert(producer->operand_begin(), producer->operand_end());
  }
}

/// Whether the op computes next values of states alone.
bool HeldValues::onlyUpdates(Operation *op) const {
  auto function = dyn_cast<func::FuncOp>(op->getParentOp());
  return function && op->getNumResults() > 0 && llvm::all_of(op->getUses(), [&](OpOperand &use) {
           return use.getOwner() == ops.back() && function.getResultAttr(use.getOperandNumber(), updatesAttr);
         });
}

std::vector<ForwardPart> HeldValues::forwardParts() const {
  std::vector<int> held(ops.size() + 1);
  for (auto [i, op] : llvm::enumerate(ops))
    for (Value result : op->getResults()) {
      unsigned first = 0, last = 0, count = 0;
      for (unsigned reader : readers(result))
        if (!onlyUpdates(ops[reader])) {
          first = count++ ? first : reader;
          last = reader;
        }
      if (count > 1 && isMatrix(result)) {
        ++held[first];
        --held[last];
      }
    }
  int most = 0;
  for (size_t i = 0, now = 0; i < ops.size(); ++i)
    most = std::max(most, held[i] = static_cast<int>(now += held[i]));

  const int valley = std::max(2, most / 8), few = std::min(2, most / 8);
  std::vector<ForwardPart> parts;
  unsigned first = 0; // of the part that begins after the last valley
  for (unsigned i = 0; i < ops.size();) {
    if (held[i] <= valley) {
      ++i;
      continue;
    }
    unsigned end = i, turn = i;
    for (; end < ops.size() && held[end] > valley; ++end)
      turn = held[end] > held[turn] ? end : turn;
    // The first ops that go back hold some values more: the turn is before them.
    for (unsigned at = i; at < turn; ++at)
      if (held[at] + few >= held[turn])
        turn = at;
    parts.push_back({first, turn});
    first = i = end;
  }
  return parts;
}

} // namespace tcc
