#include "frontend/break_words.h"
#include <charconv>

namespace tcc {
namespace {

/// "`tanh` at step.cpp:37", "a state", …
std::string placed(std::string_view what, Loc place) {
  std::string text(what);
  if (!what.starts_with("a "))
    text = "`" + text + "`";
  return !place.isKnown() ? text : text + " at " + shortPlace(place);
}

std::string digitsOf(double value) {
  char digits[40];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr}; // shortest that reads back
}

} // namespace

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
    return "cond() computes the side that is chosen, in the graph, and repeat() a known number of turns; or make what "
           "decides an input";
  }
  return "";
}

std::string breakRefusal(ReadKind kind, std::string_view function) {
  return "graph break: " + std::string(nameOf(kind)) + " asks for a value in the middle of '" + std::string(function) +
         "'; return the value instead [-Werror=graph-break]";
}

std::string shortPlace(Loc place) {
  const std::string_view file = place.file();
  const size_t slash = file.find_last_of('/');
  return std::string(file.substr(slash == std::string_view::npos ? 0 : slash + 1)) + ":" + std::to_string(place.line());
}

std::string wayChanged(const Departure &departure) {
  const auto &[is, was, place, wasPlace] = departure;
  if (is.empty())
    return "recompiled: ends where the last call went on with " + placed(was, wasPlace);
  if (was.empty())
    return "recompiled: goes on where the last call ended, with " + placed(is, place);
  if (is == was && place.line() == wasPlace.line())
    return "recompiled: other operands or attributes than in the last call of " + placed(is, place);
  return "recompiled: another way than the last call's, " + placed(is, place) + " instead of " + placed(was, wasPlace);
}

std::string constantBecomesInput(double before, double after, Loc place, size_t more) {
  std::string text = "recompiled: constant " + digitsOf(before) + " → " + digitsOf(after) + " at " + shortPlace(place);
  if (more > 0)
    text += " (and " + std::to_string(more) + " more)";
  return text + ", computed from a value that was read, is an input from now on";
}

} // namespace tcc
