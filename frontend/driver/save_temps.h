// -save-temps: every stage of a compilation in a file of its own.
#pragma once
#include "codegen/target_kind.h"
#include "frontend/driver/options.h"
#include "mlir/IR/BuiltinOps.h"

namespace tcc::driver {

/// The suffixes of the stages' files, in order: the phases, the plan, and the kernels in each text form of the target.
std::vector<std::string> stageSuffixes(const TargetKind &kind);

/// Writes them for `input`, whose captured graph is `module`, into `folder`, which is made. Throws Error.
void saveTemps(const std::string &folder, const std::string &input, mlir::ModuleOp module,
               const CompileOptions &options);

} // namespace tcc::driver
