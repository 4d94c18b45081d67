// What asks for a value in the middle of a traced function: item, toHost, conditions, print.
#include "frontend/trace.h"
#include "runtime/printed.h"
#include <cstdio>
#include <cstring>

namespace tcc {
namespace {

/// The one element, for what needs a single number.
double oneElement(const Tensor &tensor, ReadKind kind, const char *what, Loc loc) {
  Tracer &tracer = Tracer::current(loc);
  const ValueType type = tracer.typeOf(tensor, loc);
  if (type.shape.elements() != 1)
    throw Error(std::string(what) + " of shape " + type.shape.text() + "; it needs exactly one element", loc);
  return tracer.read(tensor, kind, {}, loc).item();
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
  if (!defined())
    throw Error("a condition on an empty tensor; defined() asks whether a handle holds one");
  Tracer &tracer = Tracer::current(Loc());
  return oneElement(*this, ReadKind::branch, "a condition", tracer.placeOf(*this)) != 0;
}

void print(std::string_view name, const Tensor &tensor, Loc loc) {
  if (name.empty() || name.find('\n') != std::string_view::npos)
    throw Error("print() without a name of one line", loc);
  const Array value = Tracer::current(loc).read(tensor, ReadKind::print, name, loc);
  if (runtime::byteSize(value.dtype()) == 1 && value.dtype() != DType::i1)
    throw Error("print() of " + std::string(runtime::name(value.dtype())) + "; cast it to f32 first", loc);
  std::puts(runtime::printedLine(name, value.dtype(), std::span<const int64_t>(value.shape()), value.rawForReading())
                .c_str());
}

} // namespace tcc
