// The outline of a .graph text: function, arguments, statements, and where each name stands. It is read in a way that
// forgives mistakes, for messages about a text that MLIR refuses; only MLIR decides what a text means. This header
// needs no MLIR.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tcc {

/// Bytes [begin, end) of the text.
struct TextRange {
  size_t begin = 0, end = 0;
  bool contains(size_t at) const { return at >= begin && at < end; }
};

/// A name and where it stands: "%x" (without #k), "tcc.exp", "@f", "eps".
struct NamedRange {
  std::string name;
  TextRange range;
};

/// A tensor<...> and its parts, as they are written.
struct OutlineType {
  TextRange range;
  std::string sizes; ///< "4x?x"; also a text that is no list of sizes
  NamedRange element;
};

/// `key` or `key = value` of a {...}.
struct OutlineAttribute {
  NamedRange key;
  TextRange range;
};

struct OutlineArgument {
  NamedRange value; ///< empty for a result
  TextRange type;
  std::vector<OutlineAttribute> attributes;
};

struct OutlineStatement {
  TextRange range;
  std::vector<NamedRange> results;
  bool assigned = false; ///< an equals sign follows the results
  NamedRange op;         ///< empty if there is no word in its place
  std::vector<NamedRange> uses;
  std::vector<OutlineAttribute> attributes;
  TextRange last; ///< the last type, or the last word
};

struct GraphOutline {
  NamedRange keyword, function;
  std::vector<OutlineArgument> arguments, results;
  std::vector<OutlineAttribute> attributes; ///< of the function
  std::vector<OutlineStatement> body;
  TextRange bodyRange;              ///< with its braces
  std::vector<OutlineType> types;   ///< all of the text
  std::vector<NamedRange> misnamed; ///< words before a '<' where `tensor` was expected

  /// The statement that holds byte `at`; null where there is none.
  const OutlineStatement *statementAt(size_t at) const;
};

/// The outline. Nothing if the text has no function with a body, or has it in MLIR's generic form.
std::optional<GraphOutline> outlineGraph(std::string_view text);

/// Lines and columns of a text, from 1, and back.
class LineIndex {
public:
  explicit LineIndex(std::string_view text);
  struct Place {
    unsigned line = 1, column = 1;
  };
  Place place(size_t offset) const;
  size_t offset(unsigned line, unsigned column) const;

private:
  std::vector<size_t> starts;
  size_t size;
};

} // namespace tcc
