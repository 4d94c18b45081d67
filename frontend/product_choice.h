// --dtype=auto: the element type of products that a target multiplies fastest. No MLIR.
#pragma once
#include "frontend/compiler_flags.h"

namespace tcc {

/// Where `flags` leave the products' type to the target: sets it, and returns which it is and why ("bf16, which cpu
/// multiplies fastest"); nothing where they do not. bf16 where it is fast, else f16 with loss scaling where that is,
/// else f32. `targetName` as in makeTarget (codegen/targets.h): "cpu", "cuda:sm_90a". Throws Error for an unknown one.
std::optional<std::string> chooseProducts(CompilerFlags &flags, const std::string &targetName);

} // namespace tcc
