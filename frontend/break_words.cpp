#include "frontend/break_words.h"

namespace tcc {

std::string_view nameOf(ReadKind kind) {
  switch (kind) {
  case ReadKind::item:
    return "`item()`";
  case ReadKind::array:
    return "`toHost()`";
  case ReadKind::print:
    return "`print()`";
  case ReadKind::branch:
    return "a condition";
  }
  return "a value";
}

std::string breakReason(ReadKind kind, std::string_view name) {
  std::string text(nameOf(kind));
  text += kind == ReadKind::branch ? " needs its value" : " asks for a value";
  if (!name.empty())
    text += ", '" + std::string(name) + "'";
  return text;
}

std::string_view insteadOf(ReadKind kind) {
  switch (kind) {
  case ReadKind::item:
    return "return the value from the function, or stay in the graph: detach() for a value that gradients stop at";
  case ReadKind::array:
    return "return the tensor from the function";
  case ReadKind::print:
    return "return the tensor from the function and print it after the call";
  case ReadKind::branch:
    return "select() computes both sides in the graph; or make what decides an input";
  }
  return "";
}

std::string breakRefusal(ReadKind kind, std::string_view function) {
  return "graph break: " + std::string(nameOf(kind)) + " asks for a value in the middle of '" + std::string(function) +
         "'; return the value instead [-Werror=graph-break]";
}

} // namespace tcc
