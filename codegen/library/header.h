// The C header of a step library, and the functions that it declares.
#pragma once
#include "runtime/artefact.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace tcc {

/// What the first line of each header says.
inline constexpr llvm::StringLiteral writtenBy = "written by tcc.";

/// A function that each step has: NAME_suffix calls the runtime's tcc_suffix with the same arguments.
struct StepFunction {
  llvm::StringRef suffix;
  llvm::StringRef result;     ///< in C
  llvm::StringRef parameters; ///< in C
  llvm::StringRef signature;  ///< in LLVM IR: the result, then the parameters: "i32 ptr ptr"
};

/// All functions of a step that only pass on their arguments; create and run do more, and are not among them.
llvm::ArrayRef<StepFunction> forwardedFunctions();

/// A digest of the names, types and shapes of a step's tensors, for which a program that uses the step is compiled.
uint64_t signatureOf(const runtime::Artefact &step);

/// `text` as a C identifier: other characters become '_'.
std::string identifier(llvm::StringRef text);

} // namespace tcc
