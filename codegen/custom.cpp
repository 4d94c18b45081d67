// Makes instructions of custom ops that run as code of the user's, and refuses such code where it is not allowed.
#include "codegen/custom.h"
#include "codegen/product.h"
#include "ir/names.h"
#include <filesystem>

using namespace mlir;

namespace tcc {
namespace {

using runtime::BufferId;

runtime::CustomTensor tensorOf(RankedTensorType type, BufferId buffer) {
  return {buffer, *runtimeDType(type.getElementType()), std::vector<int64_t>(type.getShape())};
}

} // namespace

runtime::CustomCall customCall(CustomOp op) {
  runtime::CustomCall call;
  call.name = op.getCalled().str();
  if (std::optional<StringRef> library = op.getLibrary()) {
    call.library = library->str();
    if (!runtime::isProvided(call.library))
      call.library = std::filesystem::absolute(call.library).lexically_normal().string();
    call.symbol = op.getSymbol()->str();
  } else {
    call.host = static_cast<int64_t>(op.getHostFunction().value_or(0));
  }
  for (Value input : op.getInputs())
    call.inputs.push_back(tensorOf(tensorType(input), runtime::noBuffer));
  for (Value result : op.getResults())
    call.outputs.push_back(tensorOf(tensorType(result), runtime::noBuffer));
  return call;
}

void lowerCustomCall(const StructuredCall &call, runtime::Plan &plan) {
  auto op = cast<CustomOp>(call.op);
  runtime::CustomCall made = customCall(op);
  for (auto [tensor, buffer] : llvm::zip_equal(made.inputs, call.operands))
    tensor.buffer = buffer;
  for (auto [tensor, buffer] : llvm::zip_equal(made.outputs, call.results))
    tensor.buffer = buffer;
  runtime::Instruction instruction;
  instruction.label = "custom " + op.getCalled().str();
  instruction.call = std::move(made);
  plan.instructions.push_back(std::move(instruction));
}

runtime::Error refuseCustomCode(ModuleOp module) {
  std::string refusal;
  module.walk([&](CustomOp op) {
    if (const std::string code = op.namedCode(); refusal.empty() && !code.empty())
      refusal =
          "custom op '" + op.getCalled().str() + "' has code of its own, " + code + "; --allow-custom-code lets it run";
  });
  return refusal.empty() ? runtime::Error::success() : runtime::Error(std::move(refusal));
}

} // namespace tcc
