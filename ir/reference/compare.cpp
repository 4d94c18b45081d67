// The tolerance rule for compiled results.
#include "ir/reference/compare.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/Support/FormatVariadic.h"
#include <cstring>

using namespace mlir;

namespace tcc {
namespace {

double difference(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b)))
    return 0;
  double distance = std::fabs(a - b);
  return std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance;
}

/// The largest magnitude that the element type can hold as a finite number.
double scaleOf(const RefTensor &tensor) {
  double scale = 0;
  for (double value : tensor.data)
    if (std::isfinite(roundToElement(value, tensor.element())))
      scale = std::max(scale, std::fabs(value));
  return scale;
}

/// x moved by about one ulp of its type; integers and special values stay.
RefTensor nudged(const RefTensor &tensor, double direction) {
  RefTensor moved = tensor;
  if (isa<FloatType>(tensor.element()))
    for (double &value : moved.data)
      if (std::isfinite(value))
        value += direction * ulpAt(std::fabs(value), tensor.element());
  return moved;
}

} // namespace

double ulpAt(double scale, Type element) {
  const llvm::fltSemantics &format = cast<FloatType>(element).getFloatSemantics();
  int exponent = scale > 0 ? std::ilogb(scale) : APFloat::semanticsMinExponent(format);
  exponent = std::max<int>(exponent, APFloat::semanticsMinExponent(format));
  return std::ldexp(1.0, exponent - static_cast<int>(APFloat::semanticsPrecision(format)) + 1);
}

double largestDifference(ArrayRef<double> a, ArrayRef<double> b) {
  if (a.size() != b.size())
    return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (auto [x, y] : llvm::zip_equal(a, b))
    largest = std::max(largest, difference(x, y));
  return largest;
}

bool sameBits(ArrayRef<RefTensor> a, ArrayRef<RefTensor> b) {
  if (a.size() != b.size())
    return false;
  for (auto [x, y] : llvm::zip_equal(a, b))
    if (x.type != y.type || x.data.size() != y.data.size() ||
        (!x.data.empty() && std::memcmp(x.data.data(), y.data.data(), x.data.size() * sizeof(double)) != 0))
      return false;
  return true;
}

bool sameElements(const RefTensor &a, const RefTensor &b) {
  const bool signedZeros = isa<FloatType>(a.element());
  return a.type == b.type && llvm::equal(a.data, b.data, [&](double x, double y) {
           return (std::isnan(x) && std::isnan(y)) || (x == y && (!signedZeros || std::signbit(x) == std::signbit(y)));
         });
}

bool allClose(ArrayRef<double> a, ArrayRef<double> b, double rtol, double atol) {
  if (a.size() != b.size())
    return false;
  for (auto [x, y] : llvm::zip_equal(a, b))
    if (double distance = difference(x, y); distance > 0 && !(distance <= atol + rtol * std::fabs(y)))
      return false;
  return true;
}

Comparison compare(const RefTensor &actual, const RefTensor &exact, const RefTensor &unfused,
                   const std::vector<bool> &excluded, Tolerance tolerance) {
  Comparison answer;
  auto fail = [&](int64_t element, const Twine &message) {
    answer.ok = false;
    answer.worst = element;
    answer.message = message.str();
    return answer;
  };
  if (actual.type != exact.type || unfused.type != exact.type || actual.size() != exact.size())
    return fail(-1, "types " + typeText(actual.type) + " and " + typeText(exact.type) + " differ");

  bool isFloat = isa<FloatType>(exact.element());
  double unfusedError = 0;
  for (int64_t i = 0; i < exact.size(); ++i) {
    if (i < static_cast<int64_t>(excluded.size()) && excluded[i]) {
      ++answer.excluded;
      continue;
    }
    double value = actual.data[i], expected = exact.data[i], other = unfused.data[i];
    auto text = [&] {
      return llvm::formatv("element {0} is {1:e9}, exactly {2:e9}, unfused {3:e9}", i, value, expected, other).str();
    };
    if (!isFloat) {
      if (value != expected && value != other)
        return fail(i, text());
      continue;
    }
    double rounded = roundToElement(expected, exact.element());
    if (!std::isfinite(value) || !std::isfinite(rounded)) {
      if (difference(value, rounded) != 0 && difference(value, other) != 0)
        return fail(i, text());
      continue;
    }
    if (std::isfinite(other))
      unfusedError = std::max(unfusedError, difference(other, expected));
    if (double distance = difference(value, expected); distance > answer.error || answer.worst < 0) {
      answer.error = distance;
      answer.worst = i;
    }
  }
  if (!isFloat)
    return answer;
  double factor = tolerance.factor > 0 ? tolerance.factor : exact.element().isF32() ? 2 : 3;
  double ulp = ulpAt(scaleOf(exact), exact.element());
  answer.allowed = std::max(factor * unfusedError, tolerance.floorUlps * ulp);
  answer.ulps = answer.error / ulp;
  if (answer.error > answer.allowed)
    return fail(answer.worst,
                llvm::formatv(
                    "element {0} is {1:e9}, exactly {2:e9}, unfused {3:e9}: error {4:e2} is {5:f1} ulps of the scale, "
                    "allowed {6:e2}",
                    answer.worst, actual.data[answer.worst], exact.data[answer.worst], unfused.data[answer.worst],
                    answer.error, answer.ulps, answer.allowed)
                    .str());
  return answer;
}

runtime::Expected<std::vector<std::vector<bool>>> findJumps(func::FuncOp function, ArrayRef<RefTensor> arguments,
                                                            ArrayRef<RefTensor> exactResults, double threshold) {
  std::vector<std::vector<bool>> jumps;
  for (const RefTensor &result : exactResults)
    jumps.emplace_back(result.size(), false);
  for (double direction : {1.0, -1.0}) {
    std::vector<RefTensor> moved;
    for (const RefTensor &argument : arguments)
      moved.push_back(nudged(argument, direction));
    runtime::Expected<std::vector<RefTensor>> results = interpret(function, moved, RefMode::exact);
    if (!results)
      return results.error();
    for (size_t r = 0; r < exactResults.size(); ++r) {
      const RefTensor &exact = exactResults[r];
      bool isFloat = isa<FloatType>(exact.element());
      double limit = isFloat ? threshold * ulpAt(scaleOf(exact), exact.element()) : 0;
      for (int64_t i = 0; i < exact.size(); ++i)
        if (difference((*results)[r].data[i], exact.data[i]) > limit)
          jumps[r][i] = true;
    }
  }
  return jumps;
}

} // namespace tcc
