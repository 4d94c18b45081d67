// Shape: the sizes of a tensor, held inline, so that copying one costs nothing.
#pragma once
#include "frontend/error.h"
#include "runtime/dtype.h"
#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace tcc {

using runtime::DType;

/// Sizes, outermost first; no sizes for a scalar. Throws Error above `maxRank` sizes.
class Shape {
public:
  static constexpr size_t maxRank = 8;

  constexpr Shape() = default;
  Shape(std::initializer_list<int64_t> sizes) : Shape(std::span<const int64_t>(sizes.begin(), sizes.size())) {}
  explicit Shape(std::span<const int64_t> sizes) {
    for (int64_t size : sizes)
      push(size);
  }

  int64_t rank() const { return count; }
  size_t size() const { return count; }
  bool empty() const { return count == 0; }
  /// Size of dim `dim`; a negative one counts from the end. Throws Error outside the rank.
  int64_t dim(int64_t dim) const {
    const int64_t index = dim < 0 ? dim + count : dim;
    if (index < 0 || index >= count)
      throw Error("dim " + std::to_string(dim) + " is outside rank " + std::to_string(count));
    return sizes[static_cast<size_t>(index)];
  }
  int64_t operator[](size_t dim) const { return sizes[dim]; } ///< unchecked
  int64_t &operator[](size_t dim) { return sizes[dim]; }      ///< unchecked
  const int64_t *begin() const { return sizes.data(); }
  const int64_t *end() const { return sizes.data() + count; }
  operator std::span<const int64_t>() const { return {sizes.data(), count}; }
  void push(int64_t size) {
    if (count == maxRank)
      throw Error("a shape has more than 8 dims; 8 is the limit");
    sizes[count++] = size;
  }
  int64_t elements() const {
    int64_t product = 1;
    for (int64_t size : *this)
      product *= size;
    return product;
  }
  /// "[16, 256]"
  std::string text() const {
    std::string result = "[";
    for (size_t i = 0; i < count; ++i)
      result += (i ? ", " : "") + std::to_string(sizes[i]);
    return result + "]";
  }
  bool operator==(const Shape &other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

private:
  std::array<int64_t, maxRank> sizes{};
  uint8_t count = 0;
};

/// The type of a tensor.
struct ValueType {
  DType dtype = DType::f32;
  Shape shape;
  bool operator==(const ValueType &) const = default;
  /// "f32[2, 3]".
  std::string text() const { return std::string(runtime::name(dtype)) + shape.text(); }
};

} // namespace tcc
