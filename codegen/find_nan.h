// findNonFinite: says where the values of a step stop being finite. It runs the step again on the CPU, instruction by
// instruction.
#pragma once
#include "codegen/check_device.h"
#include "codegen/compile_session.h"

namespace tcc {

/// Compiles the captured `module` for the CPU as `options` say (at -O0 each op is a kernel of its own) and runs one
/// step. `valueOf` gives the bytes of its inputs and states, which stay as they are. If an output is not finite, the
/// text names where that begins: an input, a state, or the result of an instruction whose operands were finite, by
/// label and source line. It is empty if every output is finite; an infinity in a mask does not count. Errors: the step
/// cannot be compiled (see CompileSession) or run.
runtime::Expected<std::string> findNonFinite(mlir::OwningOpRef<mlir::ModuleOp> module, const CompileOptions &options,
                                             const StepValue &valueOf);

} // namespace tcc
