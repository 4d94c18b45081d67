// CPUs as a kind of target.
#pragma once
#include "codegen/cpu/emit_kernels.h"
#include "codegen/target_kind.h"

namespace tcc::cpu {

const TargetKind &kind();

/// For a CPU by LLVM's name; empty: this machine's.
EmitOptions emitOptions(llvm::StringRef architecture, const CodeOptions &options);
/// For the CPU that the target is; this machine's where it is none.
EmitOptions hostOptions(llvm::StringRef target, const CodeOptions &options);

} // namespace tcc::cpu
