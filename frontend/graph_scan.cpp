// One pass over the characters: a small lexer that knows comments, strings, brackets, tensor types and dense literals.
#include "frontend/graph_scan.h"
#include "frontend/characters.h"
#include <algorithm>
#include <array>
#include <functional>

namespace tcc {
namespace {

class Scanner {
public:
  Scanner(std::string_view text, const GraphLimits &limits) : text(text), limits(limits) {}

  std::optional<TextProblem> run() {
    if (static_cast<int64_t>(text.size()) > limits.bytes)
      return TextProblem{1, 1,
                         "file of " + std::to_string(text.size()) + " bytes; the limit is " +
                             std::to_string(limits.bytes) + " (graph_c1)"};
    while (!problem && at < text.size())
      step();
    if (!problem && depth > 0)
      fail(opened[depth - 1], std::string("bracket '") + text[opened[depth - 1]] + "' is never closed");
    return problem;
  }

private:
  void fail(size_t position, std::string message) {
    if (problem)
      return;
    unsigned line = 1;
    size_t lineStart = 0;
    for (size_t i = 0; i < position; ++i)
      if (text[i] == '\n') {
        ++line;
        lineStart = i + 1;
      }
    problem = TextProblem{line, static_cast<unsigned>(position - lineStart + 1), std::move(message)};
  }

  void step() {
    const char c = text[at];
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      ++at;
    } else if (c == '/' && at + 1 < text.size() && text[at + 1] == '/') {
      while (at < text.size() && text[at] != '\n')
        ++at;
    } else if (++tokens > limits.tokens) {
      fail(at, "more than " + std::to_string(limits.tokens) + " words and signs (graph_c2)");
    } else if (c == '"') {
      string();
    } else if (isWordCharacter(c)) {
      word();
    } else {
      sign(c);
    }
  }

  void string() {
    const size_t start = at++;
    while (at < text.size() && text[at] != '"' && text[at] != '\n')
      at += text[at] == '\\' ? 2 : 1;
    if (at >= text.size() || text[at] != '"')
      return fail(start, "string is never closed");
    ++at;
  }

  void word() {
    const size_t start = at;
    while (at < text.size() && isWordCharacter(text[at]))
      ++at;
    const std::string_view name = text.substr(start, at - start);
    const bool opens = at < text.size() && text[at] == '<';
    if (opens && (name == "tensor" || name == "vector" || name == "memref"))
      shape(at + 1);
    else if (opens && name == "dense" && literalDepth == 0) {
      literalDepth = depth + 1;
      literalStart = start;
    } else if (name == "dense_resource" || name == "affine_map" || name == "affine_set")
      fail(start, "'" + std::string(name) + "' is no part of a .graph file (graph_c6)");
    else
      integerType(name, start);
  }

  /// i1 … i64, also at the end of a shape, which the parser would allocate by.
  void integerType(std::string_view name, size_t start) {
    size_t digits = name.size();
    while (digits > 0 && isDigit(name[digits - 1]))
      --digits;
    const bool isType = digits > 0 && digits < name.size() && name[digits - 1] == 'i' &&
                        (digits == 1 || (digits == 2 && (name[0] == 's' || name[0] == 'u')));
    if (isType && (name.size() - digits > 2 || std::stoi(std::string(name.substr(digits))) > 64))
      fail(start, "integer type '" + std::string(name) + "'; 64 bits are the most (graph_c4)");
  }

  /// The sizes of a tensor type that start at `from`; the element type is scanned as a word.
  void shape(size_t from) {
    int64_t rank = 0, elements = 1;
    bool zero = false;
    size_t i = from;
    while (true) {
      const size_t size = i;
      int64_t value = 0;
      bool huge = false;
      if (i < text.size() && text[i] == '?') {
        ++i;
        value = 1;
      } else {
        while (i < text.size() && isDigit(text[i])) {
          huge = huge || value > limits.elements;
          value = huge ? value : value * 10 + (text[i] - '0');
          ++i;
        }
      }
      if (i == size || i >= text.size() || text[i] != 'x')
        break;
      ++i;
      if (++rank > limits.rank)
        return fail(size, "tensor of more than " + std::to_string(limits.rank) + " dims (graph_c3)");
      if (huge || value > limits.elements)
        return fail(size, "size beyond 2^40, the largest one (graph_c4)");
      zero = zero || value == 0;
      if (!zero && __builtin_mul_overflow(elements, value, &elements))
        elements = limits.elements + 1;
      if (!zero && elements > limits.elements)
        return fail(from, "tensor of more than 2^40 elements (graph_c4)");
    }
    // `i` may stand within a word such as 4xi128: its tail is an element type.
    size_t end = i;
    while (end < text.size() && isWordCharacter(text[end]))
      ++end;
    integerType(text.substr(i, end - i), i);
  }

  void sign(char c) {
    switch (c) {
    case '(':
    case '[':
    case '{':
    case '<':
      return open(c);
    case ')':
    case ']':
    case '}':
      return close(c);
    case '>':
      if (at > 0 && text[at - 1] == '-') { // the arrow
        ++at;
        return;
      }
      return close(c);
    case '#': // %x#0 is a result; elsewhere it begins an attribute's alias
      if (at > 0 && isWordCharacter(text[at - 1]) && at + 1 < text.size() && isDigit(text[at + 1]))
        return resultNumber();
      [[fallthrough]];
    case '!':
      return fail(at, std::string("'") + c + "' begins an alias; aliases are no part of a .graph file (graph_c6)");
    default:
      if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f)
        return fail(at,
                    "byte " +
                        (text.substr(at).starts_with("\xEF\xBB\xBF") ? "order mark"
                                                                     : std::to_string(static_cast<unsigned char>(c))) +
                        " outside of a string; the text is ASCII");
      ++at;
    }
  }

  /// `#N` after a value's name: the parser makes room for N + 1 results of each name. What it makes room for is counted
  /// by names, of which a fixed number is remembered; one that is not may be counted again.
  void resultNumber() {
    const size_t start = at++;
    int64_t value = 0;
    for (size_t i = at; i < text.size() && isDigit(text[i]) && value <= limits.results; ++i)
      value = value * 10 + (text[i] - '0');
    size_t nameStart = start;
    while (nameStart > 0 && isNameCharacter(text[nameStart - 1]))
      --nameStart;
    const std::string_view name = text.substr(nameStart, start - nameStart);
    ResultsOfName &known = resultsOfNames[std::hash<std::string_view>()(name) % resultsOfNames.size()];
    allResults += std::max<int64_t>(0, value - (known.name == name ? known.most : 0));
    if (value > known.most)
      known = {name, value};
    if (value > limits.results)
      fail(start, "result number beyond " + std::to_string(limits.results) + " (graph_c8)");
    else if (allResults > limits.allResults)
      fail(start, "result numbers add up to more than " + std::to_string(limits.allResults) + " (graph_c8)");
  }

  void open(char) {
    if (depth == limits.depth || depth == static_cast<int64_t>(opened.size()))
      return fail(at, "brackets are nested deeper than " + std::to_string(limits.depth) + " (graph_c5)");
    opened[static_cast<size_t>(depth++)] = at++;
  }

  void close(char c) {
    constexpr std::string_view opening = "([{<", closing = ")]}>";
    if (depth == 0)
      return fail(at, std::string("bracket '") + c + "' closes nothing");
    const size_t start = opened[static_cast<size_t>(depth - 1)];
    if (opening.find(text[start]) != closing.find(c))
      return fail(at, std::string("bracket '") + c + "' closes a '" + text[start] + "'");
    if (literalDepth == depth) {
      if (static_cast<int64_t>(at - literalStart) > limits.literalBytes)
        return fail(literalStart, "literal of " + std::to_string(at - literalStart) + " bytes of text; the limit is " +
                                      std::to_string(limits.literalBytes) + " (graph_c7)");
      literalDepth = 0;
    }
    --depth;
    ++at;
  }

  struct ResultsOfName {
    std::string_view name;
    int64_t most = 0; // the largest number
  };

  std::string_view text;
  const GraphLimits &limits;
  std::optional<TextProblem> problem;
  size_t at = 0;
  int64_t tokens = 0, depth = 0, allResults = 0;
  int64_t literalDepth = 0; // depth inside of dense<, 0 outside
  size_t literalStart = 0;
  std::array<size_t, 256> opened{};
  std::array<ResultsOfName, 256> resultsOfNames{};
};

} // namespace

std::optional<TextProblem> scanGraphText(std::string_view text, const GraphLimits &limits) {
  return Scanner(text, limits).run();
}

} // namespace tcc
