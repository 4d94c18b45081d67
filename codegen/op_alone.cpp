#include "codegen/op_alone.h"
#include "passes/memory_places.h"
#include "passes/stages.h"

using namespace mlir;

namespace tcc {

void forgetPlan(Operation *op) {
  for (StringRef name :
       {StringRef(placesAttr), StringRef(scratchAttr), StringRef(keptPackingAttr), StringRef(stageAttr)})
    op->removeAttr(name);
}

OwningOpRef<func::FuncOp> functionAround(Operation *op) {
  OpBuilder builder(op->getContext());
  auto function =
      func::FuncOp::create(op->getLoc(), "alone", builder.getFunctionType(op->getOperandTypes(), op->getResultTypes()));
  Block *block = function.addEntryBlock();
  builder.setInsertionPointToEnd(block);
  Operation *copy = builder.clone(*op);
  forgetPlan(copy);
  copy->setOperands(block->getArguments());
  func::ReturnOp::create(builder, op->getLoc(), copy->getResults());
  return function;
}

runtime::Expected<std::unique_ptr<GraphRunner>> runnerOf(func::FuncOp function, const CompileOptions &options,
                                                         const std::shared_ptr<runtime::Device> &device) {
  OwningOpRef<ModuleOp> alone = ModuleOp::create(function.getLoc());
  alone->push_back(function.clone());
  CompileOptions plain = options;
  plain.pipeline = {};
  plain.pipeline.level = 0;
  plain.device = nullptr; // an op's check does not check it
  plain.remarks = plain.costs = false;
  auto artefact = compileArtefact(std::move(alone), std::move(plain));
  if (!artefact)
    return artefact.error();
  return GraphRunner::load(std::move(*artefact), function, {.device = device});
}

} // namespace tcc
