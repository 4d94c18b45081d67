// Two kernels are equal when their signatures are: op names, attributes, element types and local value numbers, with
// the shapes, or for segments with what the sizes have in common.
#include "codegen/kernel_table.h"
#include "ir/kernel.h"

using namespace mlir;

namespace tcc {
namespace {

using Signature = SmallVector<uintptr_t>;

Signature signatureOf(KernelOp kernel, bool segment, int64_t columns) {
  Signature signature;
  auto add = [&](const void *pointer) { signature.push_back(reinterpret_cast<uintptr_t>(pointer)); };
  auto addType = [&](Type type) {
    auto tensor = cast<RankedTensorType>(type);
    add(segment ? tensor.getElementType().getAsOpaquePointer() : tensor.getAsOpaquePointer());
    if (segment)
      signature.push_back(tensor.getNumElements() == 1);
  };
  if (segment)
    signature.push_back(columns % KernelInfo::segmentSizes);
  llvm::DenseMap<Value, unsigned> number;
  for (BlockArgument argument : kernel.getBody().front().getArguments()) {
    number.try_emplace(argument, number.size());
    addType(argument.getType());
  }
  for (Operation &op : kernel.getBody().front()) {
    add(op.getName().getAsOpaquePointer());
    auto literal = dyn_cast<ConstantOp>(op);
    if (segment && literal) // the element, whatever the shape
      add(literal.getValue().getSplatValue<Attribute>().getAsOpaquePointer());
    else if (Attribute attributes = op.getPropertiesAsAttribute())
      add(attributes.getAsOpaquePointer());
    for (Value operand : op.getOperands())
      signature.push_back(number.lookup(operand));
    for (Value result : op.getResults()) {
      number.try_emplace(result, number.size());
      addType(result.getType());
    }
  }
  return signature;
}

} // namespace

unsigned KernelTable::add(KernelOp kernel, const KernelInfo &info) {
  bool segment = info.isSegment();
  Signature signature = signatureOf(kernel, segment, info.space.columns);
  std::vector<uintptr_t> key(signature.begin(), signature.end());
  auto [known, inserted] = bySignature.try_emplace(std::move(key), list.size());
  if (!inserted)
    return known->second;
  std::string name = "k" + std::to_string(list.size()) + "_";
  if (auto label = kernel.getLabel())
    for (char c : label->take_front(40))
      name += llvm::isAlnum(c) ? c : '_';
  list.push_back({name, kernel});
  return known->second;
}

} // namespace tcc
