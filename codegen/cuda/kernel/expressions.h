// Parts of a kernel form as expressions of kernel text: indices, literals, scalar steps, loads and stores of elements.
#pragma once
#include "ir/kernel.h"
#include <string>

namespace tcc::cuda {

/// The type of a computed value: float, bool, i32 or i64.
std::string valueType(ElementType type);
/// The type of an element in memory: float, bf16, f16, u8 (i1), i32 or i64.
std::string elementType(ElementType type);

/// A computed value of type `type` as a literal.
std::string literal(ScalarLiteral value, ElementType type);
std::string zero(ElementType type);
/// What an access outside of a table gives: NaN, or 0 for integers.
std::string outsideValue(ElementType type);

/// Whether the expression and all that is computed on the way to it fits 32 bits.
bool fits32(const IndexExpr &expr);
/// The expression over the variables o, r, c and d3, d4, …, computed in 64 bits if 32 are not enough.
std::string indexText(const IndexExpr &expr);

/// The computed value for an element of memory.
std::string loaded(const std::string &element, ElementType type);
/// The element of memory for a computed value.
std::string stored(const std::string &value, ElementType type);
/// The value rounded to what the type can hold. The text changes only for 16-bit floats.
std::string rounded(const std::string &value, ElementType type);

/// The step's value; `operands` are names or literals, with the types they have.
struct TypedText {
  std::string text;
  ElementType type;
};
std::string stepText(const ScalarStep &step, llvm::ArrayRef<TypedText> operands);

} // namespace tcc::cuda
