// -fverify-each: the reference interpreter runs a function before and after a pass and compares the results.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <memory>

namespace tcc {
struct PipelineOptions;

/// Takes the results of `function` as it stands, if options.verifyEach asks for it.
class VerifyEach {
public:
  VerifyEach(mlir::func::FuncOp function, const PipelineOptions &options);
  ~VerifyEach();
  /// Runs the function again and compares; an error names the pass and the result that changed.
  mlir::LogicalResult compare(llvm::StringRef pass);

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace tcc
