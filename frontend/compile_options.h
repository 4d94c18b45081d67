// Turns the flags that programs share (compiler_flags.h) into the compiler's own options.
#pragma once
#include "codegen/compile_session.h"
#include "frontend/compiler_flags.h"

namespace tcc {

/// Sets what the flags say. Throws what checkFlags throws.
void applyFlags(const CompilerFlags &flags, CompileOptions &options);

/// The cache in which the flags let steps and kernels be kept; with --no-cache one that keeps nothing.
FileCache fileCache(const CompilerFlags &flags);

/// For the first pass of `flags` that does not exist: its spelling, followed by "; did you mean '-fno-simplify'?".
/// Nothing if all exist.
std::optional<std::string> unknownPass(const CompilerFlags &flags);

} // namespace tcc
