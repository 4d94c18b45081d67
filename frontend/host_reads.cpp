// What asks for a value in the middle of a traced function: item, toHost, conditions, print.
#include "frontend/trace.h"
#include <charconv>
#include <cstdio>
#include <cstring>

namespace tcc {
namespace {

/// The one element, for what needs a single number.
double oneElement(const Tensor &tensor, ReadKind kind, const char *what, Loc loc) {
  Tracer &tracer = Tracer::current(loc);
  const ValueType type = tracer.typeOf(tensor, loc);
  if (type.shape.elements() != 1)
    throw Error(std::string(what) + " of shape " + type.shape.text() + "; it needs exactly one element",
                loc.file_name(), loc.line(), loc.column());
  return tracer.read(tensor, kind, {}, loc).item();
}

/// Digits that read back to the same bits in the array's own dtype.
std::string elementText(const Array &array, int64_t index) {
  char digits[40];
  const double value = array.item(index);
  const bool isInteger = array.dtype() == DType::i32 || array.dtype() == DType::i1;
  auto [end, problem] = array.dtype() == DType::i64
                            ? std::to_chars(digits, std::end(digits), array.read<int64_t>()[static_cast<size_t>(index)])
                        : isInteger ? std::to_chars(digits, std::end(digits), static_cast<int32_t>(value))
                                    : std::to_chars(digits, std::end(digits), static_cast<float>(value));
  return {digits, end};
}

} // namespace

double Tensor::item(Loc loc) const {
  return oneElement(*this, ReadKind::item, "item()", loc);
}

Array Tensor::toHost(Loc loc) const {
  const Array value = Tracer::current(loc).read(*this, ReadKind::array, {}, loc);
  Array copy = Array::uninitialized(value.shape(), value.dtype()); // the step goes on with the other one
  if (value.bytes() > 0)
    std::memcpy(copy.raw(), value.rawForReading(), static_cast<size_t>(value.bytes()));
  return copy;
}

Tensor::operator bool() const {
  Tracer &tracer = Tracer::current(Loc());
  return oneElement(*this, ReadKind::branch, "a condition", tracer.placeOf(*this)) != 0;
}

void print(std::string_view name, const Tensor &tensor, Loc loc) {
  const Array value = Tracer::current(loc).read(tensor, ReadKind::print, name, loc);
  std::string line(name);
  if (!value.shape().empty())
    line += " " + value.shape().text();
  line += " =";
  for (int64_t i = 0; i < value.shape().elements(); ++i)
    line += " " + elementText(value, i);
  std::puts(line.c_str());
}

} // namespace tcc
