// --dtype=auto: the element type of products that a target multiplies fastest. No MLIR.
#pragma once
#include "frontend/compiler_flags.h"

namespace tcc {

/// Where `flags` leave the products' type to the target: sets it, and returns which it is and why ("bf16, which cpu
/// multiplies fastest"); nothing where they do not. bf16 where it is fast, else f16 with loss scaling where that is,
/// else f32. A CPU's instructions are not enough: its products of bf16 must have been measured faster too
/// (runtime/machine_limits.h). With a tuning file its choice for this machine is taken, or the new one put into it; the
/// file is checked in any case, and made where there is none. `targetName` as in makeTarget (codegen/targets.h). Throws
/// Error for an unknown one, and for a tuning file that cannot be used.
std::optional<std::string> chooseProducts(CompilerFlags &flags, const std::string &targetName);

/// The warning that the products' type, which the user has named, gains nothing on the target, since that has no
/// instructions for it; empty where it has, and for f32. Throws Error as above.
std::string slowProducts(const CompilerFlags &flags, const std::string &targetName);

} // namespace tcc
