// Part of check_device.cpp: compares structured ops that a GPU runs by kernels of its own (attention, kernel text of
// users) with the same op compiled for the CPU.
#pragma once
#include "codegen/check_values.h"
#include "codegen/op_alone.h"
#include <map>

namespace tcc {

/// What a structured op was made into: instructions [first, last) of a plan.
struct LoweredOp {
  size_t first = 0, last = 0;
  std::shared_ptr<mlir::OwningOpRef<mlir::func::FuncOp>> function; // the op alone
  StructuredCall call;                                             // its op and the roots of its views no longer exist
};

class LoweredCheck {
public:
  /// `options` are those for the CPU.
  explicit LoweredCheck(CompileOptions options) : options(std::move(options)) {}

  /// The op's operands, from the bytes of their buffers, which must be read before the op runs.
  std::vector<RefTensor> operandsOf(const LoweredOp &op, llvm::ArrayRef<std::string> buffers) const;
  /// The number of the first result with a value that differs too much, and that value; the number of results if there
  /// is none. `results` are the bytes of the results. Errors: the CPU cannot run the op.
  runtime::Expected<std::pair<unsigned, ValueDifference>>
  compare(const LoweredOp &op, llvm::ArrayRef<RefTensor> operands, llvm::ArrayRef<std::string> results);

private:
  CompileOptions options;
  std::map<std::string, std::pair<LoweredOp, runtime::Expected<std::unique_ptr<GraphRunner>>>>
      runners; // by the op's text
};

} // namespace tcc
