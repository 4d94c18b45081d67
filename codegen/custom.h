// Custom ops that run as code of the user's: their calls in the plan of a CPU, and the check of their results.
#pragma once
#include "codegen/target.h"
#include "ir/dialect.h"
#include "mlir/IR/BuiltinOps.h"
#include <memory>

namespace tcc {

namespace runtime {
class Device;
}

/// The call of the op's function on a CPU, without buffers.
runtime::CustomCall customCall(CustomOp op);

/// Appends the call of the op's function.
void lowerCustomCall(const StructuredCall &call, runtime::Plan &plan);

/// Gives an error for the first custom op whose code is named in the graph's text: a library, or a kernel for a target.
runtime::Error refuseCustomCode(mlir::ModuleOp module);

struct CustomCheckOptions {
  bool always = false;    // whether ops that this process has checked are checked again, with adversarial inputs too
  double mostSeconds = 2; // the most that an op's reference may take; if it takes longer, a remark says: not checked
};

/// Runs every custom op of a planned function that the CPU calls, on random operands in guarded memory, and compares it
/// with what the op means. The error names the first wrong value: op, result, index and both values.
runtime::Error checkCustomOps(mlir::ModuleOp planned, const CustomCheckOptions &options);

struct CompileOptions;

/// The same for ops that run as kernel text for the device's target. Each is compiled alone with `options` and runs on
/// the device for which the function was planned.
runtime::Error checkCustomOpsOn(const std::shared_ptr<runtime::Device> &device, mlir::ModuleOp planned,
                                const CompileOptions &options, const CustomCheckOptions &check);

} // namespace tcc
