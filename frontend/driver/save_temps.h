// -save-temps: every stage of a compilation in a file of its own.
#pragma once
#include "codegen/target_kind.h"
#include "frontend/driver/options.h"
#include "mlir/IR/BuiltinOps.h"

namespace tcc::driver {

/// What the stages' names end with, in their order: the phases, the plan, the kernels as each text that a target shows.
std::vector<std::string> stageSuffixes(const TargetKind &kind);

/// Writes them for `input`, whose captured graph is `module`, into `folder`, which is made. Throws Error.
void saveTemps(const std::string &folder, const std::string &input, mlir::ModuleOp module,
               const CompileOptions &options);

} // namespace tcc::driver
