// Structural hash of a kernel region: op names, attributes, types and local value numbers; never pointers of values.
#include "codegen/kernel_table.h"
#include "mlir/IR/OperationSupport.h"

using namespace mlir;

namespace tcc {
namespace {

uint64_t structuralHash(KernelOp kernel) {
  llvm::DenseMap<Value, unsigned> number;
  llvm::hash_code hash(0);
  for (BlockArgument argument : kernel.getBody().front().getArguments()) {
    number[argument] = number.size();
    hash = llvm::hash_combine(hash, argument.getType());
  }
  for (Operation &op : kernel.getBody().front()) {
    hash = llvm::hash_combine(hash, op.getName(), op.hashProperties());
    for (Value operand : op.getOperands())
      hash = llvm::hash_combine(hash, number.lookup(operand));
    for (Value result : op.getResults()) {
      number[result] = number.size();
      hash = llvm::hash_combine(hash, result.getType());
    }
  }
  return hash;
}

} // namespace

unsigned KernelTable::add(KernelOp kernel) {
  auto &known = byHash[structuralHash(kernel)];
  for (unsigned candidate : known)
    if (OperationEquivalence::isRegionEquivalentTo(&list[candidate].kernel.getBody(), &kernel.getBody(),
                                                   OperationEquivalence::IgnoreLocations))
      return candidate;
  unsigned number = list.size();
  std::string name = "k" + std::to_string(number);
  if (auto label = kernel.getLabel())
    for (char c : label->take_front(40))
      name += llvm::isAlnum(c) ? c : '_';
  list.push_back({name, kernel});
  known.push_back(number);
  return number;
}

} // namespace tcc
