// Structured ops that a GPU runs by kernels of its own, attention and kernel text of users, beside the same op compiled
// for the CPU; for check_device.cpp.
#pragma once
#include "codegen/check_values.h"
#include "codegen/op_alone.h"
#include <map>

namespace tcc {

/// What a structured op was made into: instructions [first, last) of a plan.
struct LoweredOp {
  size_t first = 0, last = 0;
  std::shared_ptr<mlir::OwningOpRef<mlir::func::FuncOp>> function; // the op alone
  StructuredCall call;                                             // its op and roots are gone
};

class LoweredCheck {
public:
  /// `options`: those of the CPU.
  explicit LoweredCheck(CompileOptions options) : options(std::move(options)) {}

  /// The op's operands from their buffers' bytes, which are read before it runs.
  std::vector<RefTensor> operandsOf(const LoweredOp &op, llvm::ArrayRef<std::string> buffers) const;
  /// The first result with a value that is too far, and that value; where no value is, the number of results.
  /// `results`: their bytes. An error where the CPU cannot run the op.
  runtime::Expected<std::pair<unsigned, ValueDifference>>
  compare(const LoweredOp &op, llvm::ArrayRef<RefTensor> operands, llvm::ArrayRef<std::string> results);

private:
  CompileOptions options;
  std::map<std::string, std::pair<LoweredOp, runtime::Expected<std::unique_ptr<GraphRunner>>>>
      runners; // by the op's text
};

} // namespace tcc
