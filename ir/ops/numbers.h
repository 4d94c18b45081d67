// Which numbers attributes may hold, and how messages spell them.
#pragma once
#include "llvm/ADT/StringRef.h"
#include <string>

namespace tcc {

/// Whether `value`, which an op computes with in f32, is a finite number there.
bool isFiniteF32(double value);

/// The number as a person would write it: 1e+60, -0.001.
std::string numberText(double value);

/// What messages say about a value that is not isFiniteF32().
inline constexpr llvm::StringLiteral beyondF32 = "is no finite number in f32 (at most 3.4e+38)";

} // namespace tcc
