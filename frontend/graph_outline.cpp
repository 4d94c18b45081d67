// Tokens, then a descent that never fails: what it does not understand it steps over.
#include "frontend/graph_outline.h"
#include "frontend/characters.h"
#include <algorithm>

namespace tcc {
namespace {

enum class Kind { word, value, string, symbol, type, literal, arrow, sign, end };

struct Token {
  Kind kind = Kind::end;
  TextRange range;
  char sign = 0; ///< of Kind::sign
};

class Lexer {
public:
  explicit Lexer(std::string_view text) : text(text) {}

  std::vector<Token> run() {
    while (next())
      ;
    tokens.push_back({Kind::end, {text.size(), text.size()}});
    return std::move(tokens);
  }

private:
  void add(Kind kind, size_t begin) { tokens.push_back({kind, {begin, at}, kind == Kind::sign ? text[begin] : '\0'}); }

  void skip() {
    while (at < text.size()) {
      if (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r')
        ++at;
      else if (text.substr(at, 2) == "//")
        at = std::min(text.find('\n', at), text.size());
      else
        break;
    }
  }

  bool next() {
    skip();
    if (at >= text.size())
      return false;
    const size_t begin = at;
    const char c = text[at++];
    if (c == '"') {
      while (at < text.size() && text[at] != '"')
        at += text[at] == '\\' ? 2 : 1;
      at = std::min(at + 1, text.size());
      add(Kind::string, begin);
    } else if (c == '%' || c == '@') {
      while (at < text.size() && isNameCharacter(text[at]))
        ++at;
      const size_t end = at;
      if (c == '%' && at < text.size() && text[at] == '#')
        for (++at; at < text.size() && isDigit(text[at]);)
          ++at;
      tokens.push_back({c == '%' ? Kind::value : Kind::symbol, {begin, end}});
    } else if (c == '-' && at < text.size() && text[at] == '>') {
      ++at;
      add(Kind::arrow, begin);
    } else if (isWordCharacter(c)) {
      word(begin);
    } else {
      add(Kind::sign, begin);
    }
    return true;
  }

  /// A word or number; with tensor< and dense< goes what their brackets hold.
  void word(size_t begin) {
    while (at < text.size() && isWordCharacter(text[at]))
      ++at;
    const std::string_view name = text.substr(begin, at - begin);
    const bool opens = at < text.size() && text[at] == '<';
    if (!opens || (name != "tensor" && name != "dense"))
      return add(Kind::word, begin);
    for (int depth = 0; at < text.size(); ++at) {
      depth += text[at] == '<';
      if (text[at] == '>' && --depth == 0) {
        ++at;
        break;
      }
    }
    add(name == "tensor" ? Kind::type : Kind::literal, begin);
  }

  std::string_view text;
  size_t at = 0;
  std::vector<Token> tokens;
};

class OutlineReader {
public:
  explicit OutlineReader(std::string_view text) : text(text), tokens(Lexer(text).run()) {}

  std::optional<GraphOutline> run() {
    // @name followed by a bracket is the function's.
    while (kind() != Kind::end && !(kind() == Kind::symbol && isSign('(', 1)))
      ++at;
    if (kind() == Kind::end)
      return std::nullopt;
    outline.function = named(tokens[at]);
    size_t keyword = at;
    while (keyword > 0 && tokens[keyword - 1].kind == Kind::word &&
           (keyword == at || word(keyword) == "private" || word(keyword) == "public"))
      --keyword;
    if (keyword < at)
      outline.keyword = named(tokens[keyword]);
    ++at;
    readList(outline.arguments);
    readResults();
    if (kind() == Kind::word && word(at) == "attributes") {
      ++at;
      if (isSign('{'))
        outline.attributes = attributes();
    }
    if (!isSign('{'))
      return std::nullopt;
    readBody();
    readTypes();
    return std::move(outline);
  }

private:
  Kind kind(size_t ahead = 0) const { return tokens[std::min(at + ahead, tokens.size() - 1)].kind; }
  bool isSign(char sign, size_t ahead = 0) const {
    const Token &token = tokens[std::min(at + ahead, tokens.size() - 1)];
    return token.kind == Kind::sign && token.sign == sign;
  }
  std::string_view word(size_t index) const {
    const TextRange range = tokens[index].range;
    return text.substr(range.begin, range.end - range.begin);
  }
  NamedRange named(const Token &token) const {
    return {std::string(text.substr(token.range.begin, token.range.end - token.range.begin)), token.range};
  }
  bool startsLine(size_t index) const {
    return index == 0 ||
           text.substr(tokens[index - 1].range.end, tokens[index].range.begin - tokens[index - 1].range.end)
                   .find('\n') != std::string_view::npos;
  }
  static int nesting(const Token &token) {
    if (token.kind != Kind::sign)
      return 0;
    constexpr std::string_view opening = "([{<", closing = ")]}>";
    return opening.find(token.sign) != std::string_view::npos   ? 1
           : closing.find(token.sign) != std::string_view::npos ? -1
                                                                : 0;
  }
  /// Moves `at` to the place after the bracket that closes the one at `at`.
  void skipBrackets() {
    int depth = 0;
    do
      depth += nesting(tokens[at++]);
    while (depth > 0 && kind() != Kind::end);
  }

  /// {key, key = value, ...}; afterwards `at` is the place after it.
  std::vector<OutlineAttribute> attributes() {
    std::vector<OutlineAttribute> list;
    const size_t begin = ++at;
    int depth = 1;
    for (size_t first = begin; kind() != Kind::end; ++at) {
      depth += nesting(tokens[at]);
      const bool ends = depth == 0, separates = ends || (depth == 1 && isSign(','));
      if (separates && at > first)
        list.push_back({named(tokens[first]), {tokens[first].range.begin, tokens[at - 1].range.end}});
      if (separates)
        first = at + 1;
      if (ends)
        break;
    }
    if (kind() != Kind::end)
      ++at;
    return list;
  }

  /// (%x: type {attributes}, ...), or the same without names; afterwards `at` is the place after it.
  void readList(std::vector<OutlineArgument> &list) {
    if (!isSign('('))
      return;
    ++at;
    while (kind() != Kind::end && !isSign(')')) {
      OutlineArgument argument;
      if (kind() == Kind::value) {
        argument.value = named(tokens[at++]);
        if (isSign(':'))
          ++at;
      }
      argument.type = readType();
      if (isSign('{'))
        argument.attributes = attributes();
      list.push_back(std::move(argument));
      while (kind() != Kind::end && !isSign(',') && !isSign(')'))
        skipOne();
      if (isSign(','))
        ++at;
    }
    if (kind() != Kind::end)
      ++at;
  }
  void skipOne() {
    if (nesting(tokens[at]) > 0)
      skipBrackets();
    else
      ++at;
  }

  /// Up to a comma, a closing bracket or a brace.
  TextRange readType() {
    TextRange range = {tokens[at].range.begin, tokens[at].range.begin};
    while (kind() != Kind::end && !isSign(',') && !isSign(')') && !isSign('{')) {
      if (kind() == Kind::word && isSign('<', 1) && tokens[at].range.end == tokens[at + 1].range.begin)
        outline.misnamed.push_back(named(tokens[at]));
      skipOne();
      range.end = tokens[at - 1].range.end;
    }
    return range;
  }

  void readResults() {
    if (kind() != Kind::arrow)
      return;
    ++at;
    if (isSign('('))
      return readList(outline.results);
    OutlineArgument result;
    result.type = {tokens[at].range.begin, tokens[at].range.begin};
    while (kind() != Kind::end && !isSign('{') && !(kind() == Kind::word && word(at) == "attributes")) {
      if (kind() == Kind::word && isSign('<', 1))
        outline.misnamed.push_back(named(tokens[at]));
      skipOne();
      result.type.end = tokens[at - 1].range.end;
    }
    outline.results.push_back(result);
  }

  /// Whether names before an equals sign begin at token `at`, which is a value.
  bool beginsResults() {
    if (at < operandsEnd)
      return false;
    size_t ahead = 0;
    while (kind(ahead) == Kind::value) {
      ++ahead;
      if (isSign(':', ahead) && kind(ahead + 1) == Kind::word)
        ahead += 2;
      if (!isSign(',', ahead))
        break;
      ++ahead;
    }
    if (isSign('=', ahead))
      return true;
    operandsEnd = at + ahead;
    return false;
  }

  /// Whether a statement begins at token `at`: names before an equals sign; or, first in its line, an op's name, or a
  /// value whose equals sign is missing.
  bool beginsStatement() {
    if (kind() == Kind::value)
      return beginsResults() || (startsLine(at) && kind(1) == Kind::word &&
                                 word(at + 1).find('.') != std::string_view::npos && !isDigit(word(at + 1)[0]));
    if (!startsLine(at))
      return false;
    if (kind() == Kind::string)
      return isSign('(', 1);
    if (kind() != Kind::word || isDigit(word(at)[0]))
      return false;
    return word(at) == "return" || word(at).find('.') != std::string_view::npos ||
           (kind(1) == Kind::value && !continues(at - 1) && column(at) <= bodyColumn);
  }
  size_t column(size_t index) const {
    const size_t begin = tokens[index].range.begin, line = text.rfind('\n', begin);
    return line == std::string_view::npos ? begin : begin - line - 1;
  }
  /// Whether the token before a line asks for more: a comma, a colon, an arrow, an equals sign.
  bool continues(size_t index) const {
    const Token &token = tokens[index];
    return token.kind == Kind::arrow ||
           (token.kind == Kind::sign && (token.sign == ',' || token.sign == ':' || token.sign == '='));
  }

  void readBody() {
    const size_t open = tokens[at++].range.begin;
    bodyColumn = column(at); // a word further to the right continues the line above
    while (kind() != Kind::end && !isSign('}'))
      readStatement();
    outline.bodyRange = {open, tokens[at].range.end};
  }

  void readStatement() {
    OutlineStatement statement;
    statement.range.begin = tokens[at].range.begin;
    while (kind() == Kind::value) {
      statement.results.push_back(named(tokens[at++]));
      if (isSign(':') && kind(1) == Kind::word)
        at += 2;
      if (isSign(',') && kind(1) == Kind::value)
        ++at;
    }
    if (isSign('=')) {
      statement.assigned = true;
      ++at;
    }
    if (kind() == Kind::word || kind() == Kind::string) {
      statement.op = named(tokens[at++]);
      std::erase(statement.op.name, '"');
    } else if (kind() != Kind::end && !isSign('}') && !beginsStatement()) {
      skipOne();
    }
    while (kind() != Kind::end && !isSign('}') && !beginsStatement())
      readPart(statement);
    statement.range.end = tokens[at - 1].range.end;
    if (statement.last.end == 0)
      statement.last = tokens[at - 1].range;
    outline.body.push_back(std::move(statement));
  }

  /// A token, a group in brackets, an attribute dictionary or a region of a statement.
  void readPart(OutlineStatement &statement) {
    if (isSign('{')) {
      const bool dictionary = isSign('}', 1) || ((kind(1) == Kind::word || kind(1) == Kind::string) &&
                                                 (isSign('=', 2) || isSign(',', 2) || isSign('}', 2)));
      if (!dictionary)
        return skipBrackets();
      for (OutlineAttribute &attribute : attributes())
        statement.attributes.push_back(std::move(attribute));
      return;
    }
    if (kind() == Kind::word && word(at) == "gradient" && isSign('(', 1)) { // of a custom op: arguments of a region
      ++at;
      return skipBrackets();
    }
    int depth = 0; // names in round brackets may be bound, as those of a kernel are
    do {
      depth += nesting(tokens[at]);
      if (kind() == Kind::value && !isSign('=', 1))
        statement.uses.push_back(named(tokens[at]));
      if (kind() == Kind::type)
        statement.last = tokens[at].range;
      ++at;
    } while (depth > 0 && kind() != Kind::end);
  }

  void readTypes() {
    for (const Token &token : tokens) {
      if (token.kind != Kind::type)
        continue;
      const size_t begin = token.range.begin + 7, end = std::max(begin, token.range.end - 1); // tensor<
      size_t element = begin;
      for (size_t i = begin; i < end && (isDigit(text[i]) || text[i] == '?' || text[i] == ' '); ++i)
        if (i + 1 < end && text[i + 1] == 'x')
          element = ++i + 1;
      outline.types.push_back({token.range,
                               std::string(text.substr(begin, element - begin)),
                               {std::string(text.substr(element, end - element)), {element, end}}});
    }
  }

  std::string_view text;
  std::vector<Token> tokens;
  size_t at = 0, bodyColumn = 0;
  size_t operandsEnd = 0; // where the last list of values ends that no equals sign follows
  GraphOutline outline;
};

} // namespace

const OutlineStatement *GraphOutline::statementAt(size_t at) const {
  // Statements stand in the order of their places.
  const auto after =
      std::upper_bound(body.begin(), body.end(), at,
                       [](size_t place, const OutlineStatement &statement) { return place < statement.range.begin; });
  return after != body.begin() && (after - 1)->range.contains(at) ? &*(after - 1) : nullptr;
}

std::optional<GraphOutline> outlineGraph(std::string_view text) {
  return OutlineReader(text).run();
}

LineIndex::LineIndex(std::string_view text) : starts{0}, size(text.size()) {
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] == '\n')
      starts.push_back(i + 1);
}

LineIndex::Place LineIndex::place(size_t offset) const {
  const auto line = std::upper_bound(starts.begin(), starts.end(), offset) - 1;
  return {static_cast<unsigned>(line - starts.begin() + 1), static_cast<unsigned>(offset - *line + 1)};
}

size_t LineIndex::offset(unsigned line, unsigned column) const {
  if (line == 0 || line > starts.size())
    return size;
  return std::min(size, starts[line - 1] + (column ? column - 1 : 0));
}

} // namespace tcc
