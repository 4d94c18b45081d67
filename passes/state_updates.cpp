#include "passes/state_updates.h"
#include "ir/tensor_bytes.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace tcc {

StateUpdates::StateUpdates(func::FuncOp function, const PipelineOptions &options)
    : function(function), block(function.getBody().front()), ranks(options.ranks), parts(options.ranks),
      bucketBytes(options.bucketBytes), remarks(options.remarks) {
  llvm::StringMap<unsigned> updates;
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (auto name = function.getResultAttrOfType<StringAttr>(i, updatesAttr))
      updates[name.getValue()] = i;
  for (BlockArgument argument : block.getArguments()) {
    auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), nameAttr);
    if (!name || !function.getArgAttr(argument.getArgNumber(), stateAttr))
      continue;
    if (auto found = updates.find(name.getValue()); found != updates.end()) {
      states.push_back(argument);
      result[argument] = found->second;
    }
  }
}

Operation *StateUpdates::follow(Value value, llvm::function_ref<bool(Operation *)> mayStand, OpSet &ops) const {
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (user == end()) {
      if (!function.getResultAttr(use.getOperandNumber(), updatesAttr))
        return user;
      continue;
    }
    if (!mayStand(user))
      return user;
    if (ops.insert(user))
      for (Value made : user->getResults())
        if (Operation *obstacle = follow(made, mayStand, ops))
          return obstacle;
  }
  return nullptr;
}

bool isElementwise(Operation *op, ArrayRef<int64_t> shape) {
  return isa<ElementwiseOpInterface>(op) &&
         llvm::all_of(op->getOperands(), [&](Value operand) { return tensorType(operand).getShape() == shape; });
}

bool StateUpdates::isKeptInParts(BlockArgument state, OpSet &ops) const {
  const RankedTensorType type = tensorType(state);
  OpSet own;
  if (!parts.areOf(type) || follow(state, [&](Operation *op) { return isElementwise(op, type.getShape()); }, own))
    return false;
  ops.insert(own.begin(), own.end());
  return true;
}

void StateUpdates::remark(BlockArgument state, Remark::Kind kind, const std::string &text) const {
  auto name = function.getArgAttrOfType<StringAttr>(state.getArgNumber(), nameAttr);
  if (remarks)
    remarks->push_back(
        {kind, "distribute", state.getLoc(),
         llvm::formatv("state '{0}' of {1} bytes {2}", name.getValue(), byteSize(tensorType(state)), text).str()});
}

} // namespace tcc
