// Converts element types of graphs to dtypes of the runtime, and back. Both lists have the same types in the same
// order; there are two since ir and runtime do not know each other's.
#pragma once
#include "ir/element_type.h"
#include "runtime/dtype.h"

namespace tcc {

constexpr runtime::DType dtypeOf(ElementType type) {
  return runtime::dtypeTable[static_cast<size_t>(type)].dtype;
}
constexpr ElementType elementTypeOf(runtime::DType dtype) {
  return elementTypes[static_cast<size_t>(dtype)].type;
}

constexpr bool dtypesAgree() {
  for (const ElementTypeFacts &type : elementTypes) {
    const runtime::DTypeInfo &dtype = runtime::dtypeTable[static_cast<size_t>(type.type)];
    const size_t size = dtype.name.size();
    bool sameName = std::string_view(type.name).size() >= size;
    for (size_t i = 0; sameName && i < size; ++i) // f8E4M3FN is f8e4m3
      sameName = (type.name[i] | 0x20) == (dtype.name[i] | 0x20);
    if (elementTypeOf(dtype.dtype) != type.type || !sameName || type.bytes != dtype.bytes ||
        type.isFloat != dtype.isFloat)
      return false;
  }
  return runtime::dtypeTable.size() == elementTypes.size();
}
static_assert(dtypesAgree(), "each element type stands where its dtype stands");

} // namespace tcc
