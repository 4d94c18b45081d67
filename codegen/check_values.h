// Whether a device's values are the CPU's but for rounding; for check_device.cpp.
#pragma once
#include "ir/kernel.h"
#include "runtime/gemm.h"
#include <string>
#include <vector>

namespace tcc {

/// Element `index` as a double; 8-bit floats as their bits.
double elementAt(const std::string &bytes, runtime::DType dtype, int64_t index);

/// True of two finite values, two NaNs, or one infinity twice.
bool sameKind(double a, double b);

/// The first value that is too far.
struct ValueDifference {
  int64_t index = -1; // none
  double device = 0, cpu = 0, allowed = 0;
  explicit operator bool() const { return index >= 0; }
};

/// `argument` with every f32 moved by up to one ulp, up or down by `seed` and position; other types as they are.
std::string nudged(std::string argument, runtime::DType dtype, uint32_t seed);

/// One result of a kernel: `nearby` are the CPU's results from nudged operands. `terms` is the number of terms of the
/// kernel's largest sum, 1 without sums.
ValueDifference compareResult(const std::string &device, const std::string &cpu, const std::vector<std::string> &nearby,
                              runtime::DType dtype, int64_t terms);

/// The number of terms of the longest sum in a kernel.
int64_t longestSum(const KernelInfo &form);

/// A product's operands and its result before and after; `bias` and `before` are empty where it has none.
struct ProductValues {
  std::string a, b, bias, before, after, aux = {};
};

/// Compares a product with the CPU's. An error where the CPU's library does not have it.
runtime::Expected<ValueDifference> compareProduct(const runtime::GemmDesc &desc, const ProductValues &values);

} // namespace tcc
