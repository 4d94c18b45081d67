#include "runtime/printed.h"
#include <charconv>
#include <cstring>

namespace tcc::runtime {
namespace {

template <typename Stored>
Stored stored(const void *data, int64_t index) {
  Stored value;
  std::memcpy(&value, static_cast<const char *>(data) + index * static_cast<int64_t>(sizeof value), sizeof value);
  return value;
}

template <typename Number>
std::string digitsOf(Number value) {
  char digits[40];
  return {digits, std::to_chars(digits, std::end(digits), value).ptr};
}

std::string elementText(DType dtype, const void *data, int64_t index) {
  switch (dtype) {
  case DType::f32:
    return digitsOf(stored<float>(data, index));
  case DType::bf16:
    return digitsOf(bf16ToFloat(stored<uint16_t>(data, index)));
  case DType::f16:
    return digitsOf(f16ToFloat(stored<uint16_t>(data, index)));
  case DType::i1:
    return stored<uint8_t>(data, index) ? "1" : "0";
  case DType::i32:
    return digitsOf(stored<int32_t>(data, index));
  case DType::i64:
    return digitsOf(stored<int64_t>(data, index));
  case DType::f8e4m3:
  case DType::f8e5m2:
    break;
  }
  return "?";
}

} // namespace

std::optional<std::string_view> printedAs(const TensorSpec &output) {
  std::string_view name = output.name;
  if (!name.starts_with(printPrefix))
    return std::nullopt;
  name.remove_prefix(printPrefix.size());
  const size_t dot = name.find('.');
  if (dot == 0 || dot == std::string_view::npos || name.substr(0, dot).find_first_not_of("0123456789") < dot)
    return std::nullopt;
  return name.substr(dot + 1);
}

void silencePrints(Plan &plan) {
  for (TensorSpec &output : plan.outputs)
    if (printedAs(output))
      output.name = "printed." + output.name.substr(printPrefix.size());
}

std::string printedLine(std::string_view name, DType dtype, std::span<const int64_t> shape, const void *data) {
  std::string line(name);
  int64_t elements = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    line += (i ? ", " : " [") + std::to_string(shape[i]);
    elements *= shape[i];
  }
  line += shape.empty() ? " =" : "] =";
  for (int64_t i = 0; i < elements; ++i)
    line += " " + elementText(dtype, data, i);
  return line;
}

} // namespace tcc::runtime
