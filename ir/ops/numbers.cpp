#include "ir/ops/numbers.h"
#include <array>
#include <cmath>
#include <cstdio>

namespace tcc {

bool isFiniteF32(double value) {
  return std::isfinite(static_cast<float>(value));
}

std::string numberText(double value) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%g", value);
  return text.data();
}

} // namespace tcc
