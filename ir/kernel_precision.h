// Where values need no more than about 16 bits, so that approximations of a few instructions stand for functions that
// are right to the last place:
//   - a sigmoid in a value that everything that reads it rounds to 16 bits (GELU and SiLU between casts);
//   - e^(x - m), m the maximum of the row and x of 16 bits: in softmax and cross-entropy. The difference is rounded, so
//     that its exponential has an error of |x - m| · 2^-24 of itself anyway; the approximation has about twice that.
#pragma once
#include "ir/kernel.h"

namespace tcc {

/// For each node, whether it is a float computed in f32 that is rounded to 16 bits before anything uses it.
std::vector<bool> readIn16Bits(const KernelInfo &form);

/// Whether the node is e^(x - m) as said above.
bool isExpBelowMaximum(const KernelInfo &form, unsigned id);

/// Whether step `step` of the node is e^y with y NaN or at most 0: -|x|, or x - m, m the maximum of x over its row.
bool isExpAtMostOne(const KernelInfo &form, unsigned id, size_t step);

/// sigmoid(x), or sigmoid(-x) if `isMirrored`, of the value with this number.
struct SigmoidOfStep {
  unsigned x = 0;
  bool isMirrored = false;
};

/// If step `step` computes a sigmoid. It is e^-|x|, or 1, times 1 / (1 + e^-|x|).
std::optional<SigmoidOfStep> sigmoidOf(const ScalarSteps &steps, size_t operands, size_t step);

/// For each step, whether the result needs it where these steps are computed as sigmoids of an earlier value.
std::vector<bool> neededSteps(const ScalarSteps &steps, size_t operands,
                              llvm::ArrayRef<std::optional<SigmoidOfStep>> sigmoids);

} // namespace tcc
