// CPUs as a kind of target.
#pragma once
#include "codegen/cpu/emit_kernels.h"
#include "codegen/target_kind.h"

namespace tcc::cpu {

const TargetKind &kind();

/// The options for the CPU with this LLVM name, or for this machine's CPU if the name is empty.
EmitOptions emitOptions(llvm::StringRef architecture, const CodeOptions &options);
/// The same for the CPU that `target` ("cpu:x86-64-v3") names, or for this machine's if the target is no CPU.
EmitOptions hostOptions(llvm::StringRef target, const CodeOptions &options);

} // namespace tcc::cpu
