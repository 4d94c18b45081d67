// How functions of tensor.h record an op: its operands, and its attributes as words.
#pragma once

#include "frontend/tensor.h"
#include "frontend/trace.h"
#include <bit>

namespace tcc {

/// The attribute words of one op, stored without allocation.
class Words {
public:
  Words &integer(int64_t value) { return push(static_cast<uint64_t>(value)); }
  Words &number(double value) { return push(std::bit_cast<uint64_t>(value)); }
  Words &dtype(std::optional<DType> value) { return push(value ? static_cast<uint64_t>(*value) : noDType); }
  Words &integers(std::span<const int64_t> values, Loc loc) {
    if (values.size() > Shape::maxRank)
      throw Error("a list of " + std::to_string(values.size()) + " entries; tensors have at most 8 dims", loc);
    push(values.size());
    for (int64_t value : values)
      integer(value);
    return *this;
  }
  Words &type(DType element, const Shape &shape) {
    push(static_cast<uint64_t>(element)).push(shape.size());
    for (int64_t size : shape)
      integer(size);
    return *this;
  }
  operator std::span<const uint64_t>() const { return {words.data(), count}; }

private:
  Words &push(uint64_t word) {
    words[count++] = word;
    return *this;
  }
  std::array<uint64_t, 1 + 4 * (1 + Shape::maxRank)> words; // an element type and four lists
  size_t count = 0;
};

inline Tensor record(OpKind kind, std::initializer_list<Tensor> operands, std::span<const uint64_t> words, Loc loc) {
  return Tracer::current(loc).op(kind, std::span(operands.begin(), operands.size()), words, loc);
}
inline Tensor record(OpKind kind, std::initializer_list<Tensor> operands, Loc loc) {
  return record(kind, operands, {}, loc);
}

inline const ValueType &typeOf(const Tensor &x, Loc loc) {
  return Tracer::current(loc).typeOf(x, loc);
}

/// Throws where a size is negative or the elements are too many.
void checkSizes(const Shape &shape, Loc loc);

} // namespace tcc
