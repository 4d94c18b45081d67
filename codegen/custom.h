// Custom ops that run as code of the user's: what a CPU's plan calls, and the check against what they mean.
#pragma once
#include "codegen/target.h"
#include "ir/dialect.h"
#include "mlir/IR/BuiltinOps.h"
#include <memory>

namespace tcc {

namespace runtime {
class Device;
}

/// What a CPU calls for the op, without buffers.
runtime::CustomCall customCall(CustomOp op);

/// Appends the call of the op's function.
void lowerCustomCall(const StructuredCall &call, runtime::Plan &plan);

/// An error for the first custom op that runs as code which a text has named: a library, or a kernel for a target.
runtime::Error refuseCustomCode(mlir::ModuleOp module);

struct CustomCheckOptions {
  bool always = false;    // also what was checked before in this process, and on adversarial inputs too
  double mostSeconds = 2; // of an op's meaning; where it would take longer, a remark says that nothing was checked
};

/// Runs every custom op of a planned function that the CPU calls on random operands, in guarded memory, beside what it
/// means. An error is the first that is wrong: op, result, index and both values.
runtime::Error checkCustomOps(mlir::ModuleOp planned, const CustomCheckOptions &options);

struct CompileOptions;

/// The same of the ops that run as text for the device's target, each compiled alone with `options` and run on the
/// device for which the function was planned.
runtime::Error checkCustomOpsOn(const std::shared_ptr<runtime::Device> &device, mlir::ModuleOp planned,
                                const CompileOptions &options, const CustomCheckOptions &check);

} // namespace tcc
