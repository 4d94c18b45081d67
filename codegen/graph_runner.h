// GraphRunner: runs a compiled graph on the interpreter's tensors, for checks of what was compiled.
#pragma once
#include "ir/reference/interpreter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/executable.h"

namespace tcc {

/// A loaded graph whose arguments and results are tensors in the order of the captured function, states among them.
class GraphRunner {
public:
  /// `function` must outlive the graph.
  static runtime::Expected<std::unique_ptr<GraphRunner>> load(runtime::Artefact artefact, mlir::func::FuncOp function,
                                                              const runtime::ExecutableOptions &options);

  /// Runs one step, each time with fresh states and outputs. It is also an error if a state has changed that no result
  /// updates.
  runtime::Expected<std::vector<RefTensor>> run(llvm::ArrayRef<RefTensor> arguments);

private:
  mlir::func::FuncOp function;
  std::unique_ptr<runtime::Executable> executable;
};

} // namespace tcc
