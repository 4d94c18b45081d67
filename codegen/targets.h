// The kinds of targets that this build has, and targets by name.
#pragma once
#include "codegen/target_kind.h"

namespace tcc {

/// Those of this build, the default first, then those that were added.
std::vector<const TargetKind *> targetKinds();
/// One that lives as long as the process; before anything is compiled.
void addTargetKind(const TargetKind &kind);

/// The kind that the target's name begins with: "cuda" of "cuda:sm_90a". Null where there is none.
const TargetKind *targetKindOf(llvm::StringRef target);

/// "cpu or cuda" with `separator` " or ": the names of all kinds, or of those that `includes` takes.
std::string kindNames(llvm::StringRef separator, bool (*includes)(const TargetKind &) = nullptr);

/// `target` for the architecture of -march=, where it has none by itself: "cpu" and "x86-64-v3" are "cpu:x86-64-v3".
std::string withArchitecture(llvm::StringRef target, llvm::StringRef march);

/// `name` is a kind's, alone or with an architecture after a colon: "cpu", "cuda:sm_80". `threads` at run time: what
/// products' scratch is sized for. An error says what there is where the name is another.
runtime::Expected<std::unique_ptr<Target>> makeTarget(llvm::StringRef name, const CodeOptions &options, int threads);

} // namespace tcc
