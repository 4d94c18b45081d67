// TextPattern: splits texts by regular expressions of Oniguruma, as the `tokenizers` package does.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tcc::models {

/// How GPT-2 splits a text.
constexpr const char *gpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// A pattern that cuts texts into pieces.
class TextPattern {
public:
  /// Throws Error, with `where` before it, if `pattern` is no regular expression.
  TextPattern(const std::string &pattern, const std::string &where);

  /// The matches and what lies between them, in order and without empty pieces; together they are `text` (valid UTF-8).
  /// Throws Error if a match goes back more than ten million steps.
  std::vector<std::string_view> pieces(std::string_view text) const;

private:
  struct Regex;
  std::shared_ptr<const Regex> regex;
  std::string where;
};

} // namespace tcc::models
