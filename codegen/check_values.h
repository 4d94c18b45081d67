// Part of check_device.cpp: whether a device's values differ from the CPU's by no more than rounding.
#pragma once
#include "ir/kernel.h"
#include "runtime/gemm.h"
#include <optional>
#include <string>
#include <vector>

namespace tcc {

/// Element `index` as a double; for an 8-bit float, the number that its bits are.
double elementAt(const std::string &bytes, runtime::DType dtype, int64_t index);

/// True if both are finite, both are NaN, or both are the same infinity.
bool sameKind(double a, double b);

/// The first value that differs too much.
struct ValueDifference {
  int64_t index = -1; // none
  double device = 0, cpu = 0, allowed = 0;
  explicit operator bool() const { return index >= 0; }
};

/// `argument` with every f32 moved by up to one ulp; `seed` and the position say whether up or down. Other types stay
/// as they are.
std::string nudged(std::string argument, runtime::DType dtype, uint32_t seed);

/// The form with each value that is rounded to 16 bits, and then read by the kernel itself, moved to a neighbour: an
/// ulp of f32 before such a rounding can make that much of it. The second of two `variants` moves every other value
/// down. Nothing where the form rounds no such value. Stored results are those that were not moved.
std::optional<KernelInfo> withRoundingsMoved(const KernelInfo &form, unsigned variant);
constexpr unsigned roundingVariants = 2;

/// The CPU's results from what was moved a little.
struct NearbyResults {
  std::vector<std::string> operands;  // from operands that nudged() has moved
  std::vector<std::string> roundings; // from forms of withRoundingsMoved()
};

/// Compares one result of a kernel. `terms` is the number of terms of the kernel's largest sum, 1 without sums.
ValueDifference compareResult(const std::string &device, const std::string &cpu, const NearbyResults &nearby,
                              runtime::DType dtype, int64_t terms);

/// The number of terms of the longest sum in a kernel.
int64_t longestSum(const KernelInfo &form);

/// The operands of a matmul, and its result before and after it ran. `bias` and `before` are empty if it reads none.
struct ProductValues {
  std::string a, b, bias, before, after, aux = {};
};

/// Compares a matmul with the CPU's. Errors: the CPU's library does not have the matmul.
runtime::Expected<ValueDifference> compareProduct(const runtime::GemmDesc &desc, const ProductValues &values);

} // namespace tcc
