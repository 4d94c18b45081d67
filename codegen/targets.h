// The targets that this build has, by name.
#pragma once
#include "codegen/cpu/emit_kernels.h"
#include "codegen/target.h"
#include <memory>

namespace tcc {

/// "cpu", or "cuda" with an architecture behind a colon ("cuda:sm_80"; sm_90a without one). Null and in `error` what
/// there is where the name is another.
std::unique_ptr<Target> makeTarget(llvm::StringRef name, const cpu::EmitOptions &cpu, int threads, std::string &error);

} // namespace tcc
