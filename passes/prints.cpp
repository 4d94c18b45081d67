#include "passes/prints.h"
#include "ir/host_ops.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace tcc {

void printsToResults(func::FuncOp function) {
  Operation *terminator = function.getBody().front().getTerminator();
  Builder builder(function.getContext());
  size_t number = 0;
  for (PrintOp op : llvm::make_early_inc_range(function.getBody().front().getOps<PrintOp>())) {
    const std::string name = (Twine(printPrefix) + Twine(number++) + "." + op.getName()).str();
    (void)function.insertResult(function.getNumResults(), op.getX().getType(),
                                builder.getDictionaryAttr(builder.getNamedAttr(nameAttr, builder.getStringAttr(name))));
    terminator->insertOperands(terminator->getNumOperands(), op.getX());
    op.erase();
  }
}

} // namespace tcc
