// findNonFinite: says where the values of a step stop being finite. It runs the step again on the CPU, instruction by
// instruction.
#pragma once
#include "codegen/check_device.h"
#include "codegen/compile_session.h"

namespace tcc {

/// Compiles the captured `module` for the CPU as `options` say (at -O0 each op is a kernel of its own) and runs one
/// step. `valueOf` gives the bytes of its inputs and states and is not written to. The text names the tensor from which
/// the first output that is not finite comes: an input, a state, or the result of an instruction whose operands were
/// finite, by label and source line. It is empty where every output is finite: an infinity in a mask is no fault. An
/// error says why the step cannot be compiled (see CompileSession) or run.
runtime::Expected<std::string> findNonFinite(mlir::OwningOpRef<mlir::ModuleOp> module, const CompileOptions &options,
                                             const StepValue &valueOf);

} // namespace tcc
