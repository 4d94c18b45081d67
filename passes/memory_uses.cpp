#include "passes/memory_uses.h"
#include "ir/tensor_bytes.h"
#include "passes/memory_places.h"

using namespace mlir;

namespace tcc {

MemoryUses::MemoryUses(Block &block, const ViewLimits &views) {
  for (Operation &op : block) {
    SmallVector<Value> &operands = operandsOf[&op] = memoryOperands(&op, views);
    for (Value &operand : operands)
      while (auto unpack = operand.getDefiningOp<UnpackOp>()) { // its results lie in what it takes
        operand = denseRoot(unpack.getX());
        partsOf.insert({&op, operand});
      }
    for (Value operand : operands)
      readersOf[operand].push_back(&op);
  }
}

ArrayRef<Operation *> MemoryUses::readers(Value value) const {
  auto known = readersOf.find(value);
  return known == readersOf.end() ? ArrayRef<Operation *>() : ArrayRef<Operation *>(known->second);
}

bool MemoryUses::mayTakeOver(OpResult result, Value value) {
  Operation *op = result.getOwner();
  if (partsOf.contains({op, value}))
    return false;
  auto [known, inserted] = sharing.try_emplace(op);
  if (inserted)
    known->second = cast<StructuredOpInterface>(op).sharedBuffers();
  unsigned count = op->getNumOperands();
  for (auto [i, operand] : llvm::enumerate(operands(op)))
    if (operand == value && !known->second[result.getResultNumber() * count + i])
      return false;
  return true;
}

Value MemoryUses::beforeOutput(OpResult result, llvm::function_ref<bool(Value)> isFree,
                               llvm::function_ref<bool(Operation *, Operation *)> isDone) {
  Operation *op = result.getOwner();
  auto fits = [&](Value value) {
    Operation *producer = value.getDefiningOp();
    return producer && isa<StructuredOpInterface>(producer) && isFree(value) &&
           byteSize(tensorType(value)) == byteSize(tensorType(result)) &&
           llvm::all_of(readers(value), [&](Operation *reader) {
             return reader == op ? mayTakeOver(result, value) : isDone(reader, op);
           });
  };
  ArrayRef<Value> values = operands(op);
  const Value *found = llvm::find_if(values, fits);
  return found == values.end() ? Value() : *found;
}

} // namespace tcc
