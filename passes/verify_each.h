// -fverify-each: the reference interpreter runs a function before and after a pass and compares the results.
#pragma once
#include "ir/reference/interpreter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <memory>

namespace tcc {
struct PipelineOptions;

/// `random`: floats lie in [-1, 1), but in [0.01, 1) for scalars and for arguments of which a root or logarithm is
/// taken (second moments); integers lie in 0..3. `adversarial`: the same, but a quarter of the floats are zeros of both
/// signs, equal to each other, large or tiny.
enum class VerifyInputs { random, adversarial };
std::vector<RefTensor> verifyInputs(mlir::func::FuncOp function, VerifyInputs kind);

/// Runs `function` on construction and keeps its results, if options.verifyEach asks for it.
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
