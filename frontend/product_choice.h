// --dtype=auto: chooses the element type of matmuls that a target multiplies fastest. This header needs no MLIR.
#pragma once
#include "frontend/compiler_flags.h"

namespace tcc {

/// If `flags` leave the type of matmuls to the target, sets it and returns which it is and why ("bf16, which cpu
/// multiplies fastest"); if not, returns nothing. The choice is bf16 if that is fast, else f16 with loss scaling if
/// that is fast, else f32. On a CPU bf16 counts as fast only if its matmuls were also measured to be faster
/// (runtime/machine_limits.h). With a tuning file, the file's choice for this machine is taken; if it has none, the new
/// choice is added. The file is checked in any case, and made if there is none. `targetName` is as for makeTarget()
/// (codegen/targets.h). Throws Error for an unknown target, and for a tuning file that cannot be used.
std::optional<std::string> chooseProducts(CompilerFlags &flags, const std::string &targetName);

/// The warning that the type of matmuls which the user has named gains nothing on the target, since that has no
/// instructions for it; empty if it has some, and for f32 (not TF32). Throws Error as above.
std::string slowProducts(const CompilerFlags &flags, const std::string &targetName);

} // namespace tcc
