// What the compiler tells about its work: -Rpass and its kin on the terminal, -fsave-optimization-record as YAML that
// LLVM's opt-viewer opens.
#pragma once
#include "frontend/compiler_flags.h"
#include "frontend/diagnostics.h"
#include "passes/remarks.h"

namespace tcc {

/// Whether anything of it is asked for; nothing is collected else.
bool wantsRemarks(const CompilerFlags &flags);
/// Whether kernels' and products' cost is.
bool wantsCosts(const CompilerFlags &flags);

/// Prints those whose pass's name the flag of their kind matches: "FILE:3:4: remark: … [-Rpass=fuse-kernels]".
void printRemarks(const Remarks &remarks, const CompilerFlags &flags, DiagnosticPrinter &printer);

/// All of them as one YAML document each, of `function`.
std::string optimizationRecord(const Remarks &remarks, llvm::StringRef function);

/// Where the record of a function or file `name` goes: the flags' file, or "NAME.opt.yaml".
std::string optimizationRecordPath(const CompilerFlags &flags, llvm::StringRef name);

} // namespace tcc
