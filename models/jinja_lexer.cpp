#include "models/jinja_lexer.h"
#include "frontend/error.h"
#include "frontend/quotes.h"

#include <algorithm>
#include <fmt/format.h>

namespace tcc::models::jinja {

namespace {

bool isNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool isDigit(char c) {
  return c >= '0' && c <= '9';
}

class Lexer {
public:
  explicit Lexer(std::string_view text) : text(text) {
    if (this->text.ends_with('\n'))
      this->text.remove_suffix(1);
  }

  std::vector<Piece> pieces() {
    while (at < text.size()) {
      const size_t open = nextTag();
      addText(open);
      if (open < text.size())
        addTag();
    }
    return std::move(made);
  }

private:
  size_t nextTag() const {
    for (size_t i = text.find('{', at); i != std::string_view::npos; i = text.find('{', i + 1))
      if (i + 1 < text.size() && (text[i + 1] == '{' || text[i + 1] == '%' || text[i + 1] == '#'))
        return i;
    return text.size();
  }

  void countLines(std::string_view passed) { line += int(std::ranges::count(passed, '\n')); }

  /// The text before the tag at `open`, with the blanks that tags around it take away.
  void addText(size_t open) {
    std::string_view piece = text.substr(at, open - at);
    const int first = line;
    countLines(piece);
    at = open;
    if (trimsAll) {
      piece.remove_prefix(std::min(piece.find_first_not_of(" \t\n\r"), piece.size()));
    } else if (trimsLine && piece.starts_with('\n')) {
      piece.remove_prefix(1);
    }
    const bool hasTag = open + 2 < text.size();
    const bool isPrint = hasTag && text[open + 1] == '{';
    if (hasTag && text[open + 2] == '-') {
      piece = piece.substr(0, piece.find_last_not_of(" \t\n\r") + 1);
    } else if (hasTag && !isPrint && text[open + 2] != '+') { // blanks between a line's start and a block go
      const size_t kept = piece.find_last_not_of(" \t");
      const bool wholeLine = kept == std::string_view::npos ? startsLine || trimmedLine : piece[kept] == '\n';
      if (wholeLine)
        piece = piece.substr(0, kept == std::string_view::npos ? 0 : kept + 1);
    }
    if (!piece.empty())
      made.push_back({.kind = Piece::Kind::text, .line = first, .text = std::string(piece), .tokens = {}});
  }

  void addTag() {
    const char kind = text[at + 1];
    const int first = line;
    startsLine = false;
    size_t end;
    if (kind == '#') {
      end = text.find("#}", at + 2);
      if (end == std::string_view::npos)
        failAt(first, "a comment does not end");
      finishTag(end, /*isBlock=*/true);
      return;
    }
    Piece piece{
        .kind = kind == '{' ? Piece::Kind::print : Piece::Kind::statement, .line = first, .text = {}, .tokens = {}};
    at += 2;
    if (at < text.size() && (text[at] == '-' || text[at] == '+'))
      ++at;
    const std::string_view close = kind == '{' ? "}}" : "%}";
    int depth = 0; // of brackets: }} within them belongs to the expression
    for (;;) {
      const size_t next = std::min(text.find_first_not_of(" \t\n\r", at), text.size());
      countLines(text.substr(at, next - at));
      at = next;
      if (at >= text.size())
        failAt(first, fmt::format("a tag does not end, {} is expected", inQuotes(close)));
      const std::string_view rest = text.substr(at);
      const size_t mark = rest[0] == '-' || rest[0] == '+' ? 1 : 0;
      if (depth == 0 && rest.substr(mark).starts_with(close)) {
        end = at + mark;
        break;
      }
      piece.tokens.push_back(token());
      const Token &last = piece.tokens.back();
      if (last.kind == Token::Kind::sign)
        depth += last.word == "{" || last.word == "[" || last.word == "("   ? 1
                 : last.word == "}" || last.word == "]" || last.word == ")" ? -1
                                                                            : 0;
    }
    piece.tokens.push_back({Token::Kind::end, "", line});
    made.push_back(std::move(piece));
    finishTag(end, kind == '%');
  }

  /// Goes to the place after the tag that closes at `end`.
  void finishTag(size_t end, bool isBlock) {
    const char mark = text[end - 1];
    countLines(at < end ? text.substr(at, end - at) : std::string_view());
    at = end + 2;
    trimsAll = mark == '-';
    trimsLine = isBlock && mark != '+';
    trimmedLine = trimsLine && at < text.size() && text[at] == '\n';
  }

  Token token() {
    static constexpr std::string_view longSigns[] = {"==", "!=", "<=", ">=", "//", "**"};
    const std::string_view rest = text.substr(at);
    const auto take = [&](Token::Kind kind, size_t count) {
      at += count;
      return Token{kind, std::string(rest.substr(0, count)), line};
    };
    if (isNameStart(rest[0])) {
      size_t count = 1;
      while (count < rest.size() && (isNameStart(rest[count]) || isDigit(rest[count])))
        ++count;
      return take(Token::Kind::name, count);
    }
    if (isDigit(rest[0])) {
      size_t count = 1;
      while (count < rest.size() &&
             (isDigit(rest[count]) || (rest[count] == '.' && count + 1 < rest.size() && isDigit(rest[count + 1]))))
        ++count;
      return take(Token::Kind::number, count);
    }
    if (rest[0] == '\'' || rest[0] == '"')
      return string();
    for (const std::string_view sign : longSigns)
      if (rest.starts_with(sign))
        return take(Token::Kind::sign, 2);
    if (std::string_view("+-*/%~<>=|.,:()[]{}").find(rest[0]) == std::string_view::npos)
      failAt(line, fmt::format("{} is not expected in a tag", inQuotes(rest.substr(0, 1))));
    return take(Token::Kind::sign, 1);
  }

  Token string() {
    const char quote = text[at];
    Token made{Token::Kind::text, "", line};
    for (++at; at < text.size() && text[at] != quote; ++at) {
      if (text[at] == '\n')
        ++line;
      if (text[at] != '\\' || at + 1 == text.size()) {
        made.word += text[at];
        continue;
      }
      const char c = text[++at];
      if (c == 'n' || c == 't' || c == 'r')
        made.word += c == 'n' ? '\n' : c == 't' ? '\t' : '\r';
      else if (c == '\\' || c == '\'' || c == '"')
        made.word += c;
      else if (c == '\n') // a line that goes on
        ++line;
      else if (c == 'u' || c == 'x' || c == 'U' || c == 'N' || c == 'a' || c == 'b' || c == 'f' || c == 'v' ||
               isDigit(c))
        failAt(line, fmt::format("the escape \\{} is not known here", c));
      else
        made.word += std::string("\\") + c;
    }
    if (at == text.size())
      failAt(made.line, "a text does not end");
    ++at;
    return made;
  }

  std::string_view text;
  size_t at = 0;
  int line = 1;
  bool startsLine = true;   // nothing stands before this text
  bool trimsAll = false;    // the tag before ends with a minus
  bool trimsLine = false;   // the tag before is a block: the line's end after it goes
  bool trimmedLine = false; // … and was there
  std::vector<Piece> made;
};

} // namespace

std::vector<Piece> piecesOf(std::string_view text) {
  return Lexer(text).pieces();
}

void failAt(int line, std::string_view why) {
  throw Error(fmt::format("line {}: {}", line, why));
}

} // namespace tcc::models::jinja
