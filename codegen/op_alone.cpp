#include "codegen/op_alone.h"
#include "passes/memory_places.h"
#include "passes/stages.h"

using namespace mlir;

namespace tcc {

void forgetPlan(Operation *op) {
  for (StringRef name : {StringRef(placesAttr), StringRef(scratchAttr), StringRef(stageAttr)})
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

std::unique_ptr<GraphRunner> runnerOf(func::FuncOp function, const CompileOptions &options,
                                      const std::shared_ptr<runtime::Device> &device, std::string &error) {
  OwningOpRef<ModuleOp> alone = ModuleOp::create(function.getLoc());
  alone->push_back(function.clone());
  CompileOptions plain = options;
  plain.pipeline = {};
  plain.pipeline.level = 0;
  CompileReport report;
  std::optional<runtime::Artefact> artefact = compileModule(*alone, plain, report, error);
  return artefact ? GraphRunner::load(std::move(*artefact), function, {.device = device}, error) : nullptr;
}

} // namespace tcc
