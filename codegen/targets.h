// The kinds of targets that this build has, and targets by name.
#pragma once
#include "codegen/target_kind.h"

namespace tcc {

/// All kinds: those of this build, with the default first, then those that were added.
std::vector<const TargetKind *> targetKinds();
/// Adds a kind, which must live as long as the process. Must be called before anything is compiled.
void addTargetKind(const TargetKind &kind);

/// The kind with whose name the target's name begins: "cuda" for "cuda:sm_90a". Null if there is none.
const TargetKind *targetKindOf(llvm::StringRef target);

/// The names of all kinds, or of those for which `includes` is true, with `separator` between them: "cpu or cuda".
std::string kindNames(llvm::StringRef separator, bool (*includes)(const TargetKind &) = nullptr);

/// `target` with the architecture of -march=, unless it has one itself: "cpu" and "x86-64-v3" give "cpu:x86-64-v3".
std::string withArchitecture(llvm::StringRef target, llvm::StringRef march);

/// The target called `name`, which is the name of a kind, alone or with an architecture after a colon: "cpu",
/// "cuda:sm_80". `threads` is the number of threads at run time, for which the scratch of matmuls is sized. If there is
/// no such target, the error says which ones there are.
runtime::Expected<std::unique_ptr<Target>> makeTarget(llvm::StringRef name, const CodeOptions &options, int threads);

} // namespace tcc
