// The targets that this build has, by name.
#pragma once
#include "codegen/cpu/emit_kernels.h"
#include "codegen/target.h"
#include <memory>

namespace tcc {

/// "cpu", or "cuda" with an architecture behind a colon ("cuda:sm_80"; sm_90a without one). An error says what
/// there is where the name is another.
runtime::Expected<std::unique_ptr<Target>> makeTarget(llvm::StringRef name, const cpu::EmitOptions &cpu, int threads);

} // namespace tcc
