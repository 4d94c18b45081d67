// A test case laid out in memory: strided 16-bit tensors from dense ones and back, and the kernels' arguments. Used by
// the emulator's tests and by the GPU program alike.
#pragma once

#include "codegen/cuda/attention/attention.h"
#include "reference.h"

#include <string>

namespace tcc::attention_test {

/// One tensor's place in a buffer of its own.
struct Place {
  long long batchStride, headStride, rowStride, offset;
  int heads, rows;
  /// The size of the whole buffer; at least one.
  std::size_t elements;
};

enum class Tensor { Query, Key, Value, Output, OutputGradient, QueryGradient, KeyGradient, ValueGradient };
constexpr int tensorCount = 8;

/// Separate tensors are [batch, head, row, headDim], packed ones [batch, row, head, headDim]. A packed input has a head
/// of another tensor on each side, as queries, keys and values have in one tensor.
Place placeOf(const Problem &problem, Tensor tensor, bool packed);

/// The buffer's contents; elements that belong to no tensor are NaN.
std::vector<std::uint16_t> scatter(const Problem &problem, const Place &place, const std::vector<double> &dense);
std::vector<double> gather(const Problem &problem, const Place &place, const std::uint16_t *buffer);

/// Everything but the addresses of statistics, seed and bias: `bases[i]` is tensor i's buffer.
tcc::cuda::AttentionArguments argumentsOf(const Problem &problem, bool packed, void *const (&bases)[tensorCount]);

tcc::cuda::AttentionCase caseOf(const Problem &problem, tcc::cuda::AttentionPass pass);

/// Largest error against `exact`, and what is allowed: three times that of `rounded`, but at least one unit in the last
/// place of the largest exact value, and float rounding of `largestTerm` where large terms cancel. NaN counts as an
/// infinite error.
struct Deviation {
  double error = 0, allowed = 0;
  std::size_t worst = 0;
};
Deviation deviation(const std::vector<double> &got, const std::vector<double> &exact,
                    const std::vector<double> &rounded, Element element, double largestTerm);

/// bf16 d=64 batch=2 heads=4/2 T=200x237 causal+37 dropout=0.1 packed.
std::string describe(const Problem &problem, bool packed);

} // namespace tcc::attention_test
