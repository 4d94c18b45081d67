// Where the values of a step stop being finite: the step once more, instruction by instruction, on the CPU.
#pragma once
#include "codegen/check_device.h"
#include "codegen/compile_session.h"

namespace tcc {

/// Compiles the captured `module` for the CPU as `options` say (at -O0 each op is a kernel of its own) and runs one
/// step over `valueOf` its inputs and states, which stay as they are. The text names the tensor that the first output
/// which is not finite comes from: the result of an instruction whose operands were finite, by label and source line,
/// or an input or a state. Empty where every output is finite: an infinity in a mask is no fault. An error where the
/// step cannot be compiled (see CompileSession) or run.
runtime::Expected<std::string> findNonFinite(mlir::OwningOpRef<mlir::ModuleOp> module, const CompileOptions &options,
                                             const StepValue &valueOf);

} // namespace tcc
