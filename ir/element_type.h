// Element types of tensors, without MLIR: one table of what kernels and plans ask of them.
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

namespace tcc {

enum class ElementType : uint8_t { f32, bf16, f16, f8E4M3FN, f8E5M2, i1, i32, i64 };

struct ElementTypeFacts {
  ElementType type;
  std::string_view name;
  int64_t bytes; // of one element in memory; i1 takes one, 0 or 1
  bool isFloat;
  ElementType computed; // the type in which scalar steps compute; results are then rounded to the type itself
};

inline constexpr std::array<ElementTypeFacts, 8> elementTypes{{
    {ElementType::f32, "f32", 4, true, ElementType::f32},
    {ElementType::bf16, "bf16", 2, true, ElementType::f32},
    {ElementType::f16, "f16", 2, true, ElementType::f32},
    {ElementType::f8E4M3FN, "f8E4M3FN", 1, true, ElementType::f32},
    {ElementType::f8E5M2, "f8E5M2", 1, true, ElementType::f32},
    {ElementType::i1, "i1", 1, false, ElementType::i1},
    {ElementType::i32, "i32", 4, false, ElementType::i32},
    {ElementType::i64, "i64", 8, false, ElementType::i64},
}};

constexpr const ElementTypeFacts &facts(ElementType type) {
  return elementTypes[static_cast<uint8_t>(type)];
}

/// Whether the type is bf16 or f16.
constexpr bool is16BitFloat(ElementType type) {
  return facts(type).isFloat && facts(type).bytes == 2;
}

constexpr bool isInOrder() {
  for (size_t i = 0; i < elementTypes.size(); ++i)
    if (static_cast<size_t>(elementTypes[i].type) != i)
      return false;
  return true;
}
static_assert(isInOrder(), "elementTypes has a row for each type, in the order of the enum");

/// A literal: the value of a float or of an integer (i1: 0 or 1); a type stored beside it says which. Literals are
/// compared bit by bit: 0 and -0 differ, a NaN equals itself.
class ScalarLiteral {
public:
  constexpr ScalarLiteral() = default;
  static constexpr ScalarLiteral ofFloat(double value) { return ScalarLiteral(std::bit_cast<uint64_t>(value)); }
  static constexpr ScalarLiteral ofInteger(int64_t value) { return ScalarLiteral(static_cast<uint64_t>(value)); }

  constexpr double asFloat() const { return std::bit_cast<double>(bits); }
  constexpr int64_t asInteger() const { return static_cast<int64_t>(bits); }
  bool operator==(const ScalarLiteral &) const = default;

private:
  constexpr explicit ScalarLiteral(uint64_t bits) : bits(bits) {}
  uint64_t bits = 0;
};

} // namespace tcc
