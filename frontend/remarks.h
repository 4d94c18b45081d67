// Shows the remarks of a compilation: -Rpass and its kin on the terminal, -fsave-optimization-record as YAML that
// LLVM's opt-viewer opens.
#pragma once
#include "frontend/compiler_flags.h"
#include "frontend/diagnostics.h"
#include "passes/remarks.h"

namespace tcc {

/// Whether a flag asks for remarks; without one nothing is collected.
bool wantsRemarks(const CompilerFlags &flags);
/// Whether a flag asks for the costs of kernels and matmuls.
bool wantsCosts(const CompilerFlags &flags);

/// Prints each remark whose pass is matched by the flag of its kind: "FILE:3:4: remark: … [-Rpass=fuse-kernels]".
void printRemarks(const Remarks &remarks, const CompilerFlags &flags, DiagnosticPrinter &printer);

/// All remarks about `function` as text, one YAML document for each.
std::string optimizationRecord(const Remarks &remarks, llvm::StringRef function);

/// Where the record of a function or file `name` goes: the flags' file, or "NAME.opt.yaml".
std::string optimizationRecordPath(const CompilerFlags &flags, llvm::StringRef name);

} // namespace tcc
