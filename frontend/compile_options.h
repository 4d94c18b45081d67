// From the flags that programs share (compiler_flags.h) to the compiler's own options.
#pragma once
#include "codegen/compile_session.h"
#include "frontend/compiler_flags.h"

namespace tcc {

/// Sets what the flags say. Throws Error for a pass that does not exist and for a type that products cannot have.
void applyFlags(const CompilerFlags &flags, CompileOptions &options);

/// Where the flags let steps and kernels be kept; nowhere with --no-cache.
FileCache fileCache(const CompilerFlags &flags);

/// "; did you mean '-fno-simplify'?" for the first of `flags`' passes that does not exist, behind its spelling; nothing
/// where all exist.
std::optional<std::string> unknownPass(const CompilerFlags &flags);

} // namespace tcc
