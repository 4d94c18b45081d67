// Parses a template into a tree by recursive descent over its pieces' tokens.
#include "models/jinja.h"
#include "frontend/error.h"
#include "frontend/quotes.h"
#include "models/jinja_lexer.h"
#include "models/jinja_tree.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace tcc::models {

namespace jinja {

namespace {

class Parser {
public:
  explicit Parser(std::vector<Piece> pieces) : pieces(std::move(pieces)) {}

  Statements parse() {
    Statements made = body();
    if (at < pieces.size())
      failAt(pieces[at].line, fmt::format("{} is not expected here", inQuotes(pieces[at].tokens[0].word)));
    return made;
  }

private:
  const Token &token() const { return pieces[at].tokens[next]; }
  bool is(std::string_view word) const {
    return token().word == word && (token().kind == Token::Kind::sign || token().kind == Token::Kind::name);
  }
  bool take(std::string_view word) {
    const bool found = is(word);
    next += found;
    return found;
  }
  void expect(std::string_view word) {
    if (!take(word))
      failAt(token().line, fmt::format("{} is expected, not {}", inQuotes(word), seenWord()));
  }
  /// What `takeOne` takes, up to `closing`, with commas between.
  template <typename Take>
  void list(std::string_view closing, Take takeOne) {
    while (!take(closing)) {
      takeOne();
      if (!is(closing))
        expect(",");
    }
  }
  /// Takes the first word of the next tag if it is `word`: one that divides a block.
  bool takeTag(std::string_view word) {
    next = 0;
    return at < pieces.size() && take(word);
  }
  std::string seenWord() const { return token().kind == Token::Kind::end ? "the tag's end" : inQuotes(token().word); }
  std::string name() {
    if (token().kind != Token::Kind::name)
      failAt(token().line, fmt::format("a name is expected, not {}", seenWord()));
    return pieces[at].tokens[next++].word;
  }
  void endTag() {
    if (token().kind != Token::Kind::end)
      failAt(token().line, fmt::format("the tag's end is expected, not {}", seenWord()));
    ++at;
    next = 0;
  }

  /// Counts nesting while it lives.
  struct Deeper {
    explicit Deeper(Parser &parser) : parser(parser) {
      if (++parser.depth > deepest)
        failAt(parser.at < parser.pieces.size() ? parser.pieces[parser.at].line : 0, "nested too deep");
    }
    ~Deeper() { --parser.depth; }
    Parser &parser;
  };

  /// Statements up to a tag that ends or divides a block, which is left.
  Statements body() {
    const Deeper deeper(*this);
    Statements made;
    for (; at < pieces.size();) {
      Piece &piece = pieces[at];
      if (piece.kind == Piece::Kind::text) {
        made.push_back(std::make_unique<Text>(piece.line, std::move(piece.text)));
        ++at;
        continue;
      }
      next = 0;
      if (piece.kind == Piece::Kind::print) {
        made.push_back(std::make_unique<Print>(piece.line, expression()));
        endTag();
        continue;
      }
      const std::string &word = piece.tokens[0].word;
      if (word.starts_with("end") || word == "else" || word == "elif")
        return made;
      made.push_back(statement());
    }
    return made;
  }

  /// Takes the tag `word` of the block that began at `line`.
  void close(int line, std::string_view word) {
    if (at >= pieces.size())
      failAt(line, fmt::format("a block does not end, {} is expected", inQuotes(word)));
    next = 0;
    expect(word);
    endTag();
  }

  std::unique_ptr<Statement> statement() {
    const int line = pieces[at].line;
    const std::string word = name();
    if (word == "if")
      return ifStatement(line);
    if (word == "for")
      return forStatement(line);
    if (word == "set")
      return setStatement(line);
    if (word == "macro")
      return macroStatement(line);
    if (word == "break" || word == "continue") {
      endTag();
      return std::make_unique<Leave>(line, word == "break" ? Leaves::loop : Leaves::turn);
    }
    if (word == "generation") {
      endTag();
      auto made = std::make_unique<Block>(line);
      made->body = body();
      close(line, "endgeneration");
      return made;
    }
    failAt(line, fmt::format("the statement {} is not known here", inQuotes(word)));
  }

  std::unique_ptr<Statement> ifStatement(int line) {
    auto made = std::make_unique<If>(line);
    ExpressionPtr condition = expression();
    endTag();
    for (;;) {
      Statements statements = body();
      const bool wasElse = !condition;
      made->branches.emplace_back(std::move(condition), std::move(statements));
      if (!wasElse && takeTag("elif")) {
        condition = expression();
      } else if (wasElse || !takeTag("else")) {
        close(line, "endif");
        return made;
      }
      endTag();
    }
  }

  std::unique_ptr<Statement> forStatement(int line) {
    auto made = std::make_unique<For>(line);
    const bool inBrackets = take("(");
    do
      made->names.push_back(name());
    while (take(","));
    if (inBrackets)
      expect(")");
    expect("in");
    made->over = disjunction(); // `if` belongs to the loop
    if (take("if"))
      made->condition = expression();
    if (is("recursive"))
      failAt(line, "recursive loops are not known here");
    endTag();
    made->body = body();
    if (takeTag("else")) {
      endTag();
      made->otherwise = body();
    }
    close(line, "endfor");
    return made;
  }

  std::unique_ptr<Statement> setStatement(int line) {
    auto made = std::make_unique<Set>(line);
    made->name = name();
    if (take("."))
      made->attribute = name();
    if (take("=")) {
      made->value = expression();
      endTag();
      return made;
    }
    endTag();
    made->body = body();
    close(line, "endset");
    return made;
  }

  std::unique_ptr<Statement> macroStatement(int line) {
    auto made = std::make_unique<Macro>(line);
    made->name = name();
    expect("(");
    list(")", [&] {
      std::string parameter = name();
      ExpressionPtr otherwise = take("=") ? expression() : nullptr;
      made->parameters.emplace_back(std::move(parameter), std::move(otherwise));
    });
    endTag();
    made->body = body();
    close(line, "endmacro");
    return made;
  }

  // Expressions, from the loosest binding to the tightest.

  ExpressionPtr expression() {
    const Deeper deeper(*this);
    ExpressionPtr made = disjunction();
    while (is("if")) {
      auto choice = std::make_unique<Choice>(token().line);
      ++next;
      choice->condition = disjunction();
      choice->onTrue = std::move(made);
      if (take("else"))
        choice->onFalse = expression();
      made = std::move(choice);
    }
    return made;
  }

  template <typename Tighter>
  ExpressionPtr chain(std::initializer_list<std::string_view> ops, Tighter tighter) {
    ExpressionPtr made = tighter();
    for (;;) {
      const auto op = std::ranges::find_if(ops, [&](std::string_view op) { return is(op); });
      if (op == ops.end())
        return made;
      const int line = token().line;
      ++next;
      made = std::make_unique<Operation>(line, std::string(*op), std::move(made), tighter());
    }
  }

  ExpressionPtr disjunction() {
    return chain({"or"}, [&] { return chain({"and"}, [&] { return negation(); }); });
  }

  ExpressionPtr negation() {
    const Deeper deeper(*this);
    const int line = token().line;
    return take("not") ? std::make_unique<Not>(line, negation()) : comparison();
  }

  ExpressionPtr comparison() {
    ExpressionPtr made = sum();
    for (int count = 0;; ++count) {
      const int line = token().line;
      std::string op;
      for (const std::string_view each : {"==", "!=", "<=", ">=", "<", ">", "in"})
        if (op.empty() && take(each))
          op = each;
      const bool isNotIn = op.empty() && is("not") && pieces[at].tokens[next + 1].word == "in";
      if (op.empty() && !isNotIn)
        return made;
      if (count > 0)
        failAt(line, "comparisons in a row are not known here");
      next += isNotIn ? 2 : 0;
      made = std::make_unique<Operation>(line, isNotIn ? "in" : op, std::move(made), sum());
      if (isNotIn)
        made = std::make_unique<Not>(line, std::move(made));
    }
  }

  ExpressionPtr sum() {
    return chain({"+", "-"},
                 [&] { return chain({"~"}, [&] { return chain({"*", "//", "/", "%"}, [&] { return unary(); }); }); });
  }

  ExpressionPtr unary() {
    const Deeper deeper(*this);
    const int line = token().line;
    if (take("-"))
      return std::make_unique<Operation>(line, "-", std::make_unique<Literal>(line, 0), unary());
    if (take("+"))
      return unary();
    return filtered(postfix(primary()));
  }

  ExpressionPtr postfix(ExpressionPtr made) {
    for (;;) {
      const int line = token().line;
      if (take(".")) {
        std::string word = token().kind == Token::Kind::number ? pieces[at].tokens[next++].word : name();
        if (is("(")) {
          auto call = std::make_unique<Call>(line);
          call->of = std::move(made);
          call->name = std::move(word);
          call->arguments = given();
          made = std::move(call);
        } else {
          made = std::make_unique<Attribute>(line, std::move(made), std::move(word));
        }
      } else if (take("[")) {
        made = element(line, std::move(made));
      } else if (is("(")) {
        const auto *function = dynamic_cast<const Name *>(made.get());
        if (!function)
          failAt(line, "only names and methods can be called");
        auto call = std::make_unique<Call>(line);
        call->name = function->name;
        call->arguments = given();
        made = std::move(call);
      } else {
        return made;
      }
    }
  }

  ExpressionPtr element(int line, ExpressionPtr of) {
    auto made = std::make_unique<Element>(line);
    made->of = std::move(of);
    const auto bound = [&] { return is(":") || is("]") ? nullptr : expression(); };
    made->first = bound();
    if (take(":")) {
      made->isSlice = true;
      made->last = bound();
      if (take(":"))
        made->step = bound();
    } else if (!made->first) {
      failAt(line, "an index is expected");
    }
    expect("]");
    return made;
  }

  GivenArguments given() {
    GivenArguments made;
    expect("(");
    list(")", [&] {
      const bool isNamed = token().kind == Token::Kind::name && pieces[at].tokens[next + 1].word == "=" &&
                           pieces[at].tokens[next + 1].kind == Token::Kind::sign;
      if (isNamed) {
        std::string word = name();
        expect("=");
        made.names.emplace_back(std::move(word), expression());
      } else {
        made.places.push_back(expression());
      }
    });
    return made;
  }

  ExpressionPtr filtered(ExpressionPtr made) {
    for (;;) {
      auto applied = std::make_unique<Applied>(token().line);
      if (take("|")) {
        applied->name = name();
      } else if (take("is")) {
        applied->isTest = true;
        applied->isNegated = take("not");
        applied->name = token().kind == Token::Kind::sign ? pieces[at].tokens[next++].word : name();
      } else {
        return made;
      }
      if (is("("))
        applied->arguments = given();
      else if (applied->isTest && startsArgument())
        applied->arguments.places.push_back(postfix(primary()));
      applied->of = std::move(made);
      made = std::move(applied);
    }
  }

  /// Whether a test's argument without brackets follows: `is divisibleby 3`.
  bool startsArgument() const {
    if (token().kind == Token::Kind::text || token().kind == Token::Kind::number || is("[") || is("{"))
      return true;
    if (token().kind != Token::Kind::name)
      return false;
    for (const std::string_view word : {"and", "or", "not", "if", "else", "in", "is"})
      if (is(word))
        return false;
    return true;
  }

  ExpressionPtr primary() {
    const Deeper deeper(*this);
    const Token &first = token();
    const int line = first.line;
    if (first.kind == Token::Kind::text) {
      std::string text;
      while (token().kind == Token::Kind::text) // side by side they are one, as in Python
        text += pieces[at].tokens[next++].word;
      return std::make_unique<Literal>(line, std::move(text));
    }
    if (first.kind == Token::Kind::number) {
      ++next;
      return std::make_unique<Literal>(line, numberOf(first));
    }
    if (first.kind == Token::Kind::name) {
      std::string word = name();
      if (word == "true" || word == "True" || word == "false" || word == "False")
        return std::make_unique<Literal>(line, word == "true" || word == "True");
      if (word == "none" || word == "None")
        return std::make_unique<Literal>(line, Json());
      return std::make_unique<Name>(line, std::move(word));
    }
    if (take("(")) {
      ExpressionPtr made = expression();
      if (is(",")) {
        auto tuple = std::make_unique<List>(line);
        tuple->elements.push_back(std::move(made));
        while (take(","))
          if (!is(")"))
            tuple->elements.push_back(expression());
        made = std::move(tuple);
      }
      expect(")");
      return made;
    }
    if (take("[")) {
      auto made = std::make_unique<List>(line);
      list("]", [&] { made->elements.push_back(expression()); });
      return made;
    }
    if (take("{")) {
      auto object = std::make_unique<Object>(line);
      list("}", [&] {
        ExpressionPtr key = expression();
        expect(":");
        object->members.emplace_back(std::move(key), expression());
      });
      return object;
    }
    failAt(line, fmt::format("a value is expected, not {}", seenWord()));
  }

  static Json numberOf(const Token &token) {
    const char *begin = token.word.data(), *end = begin + token.word.size();
    if (int64_t whole = 0; token.word.find('.') == std::string::npos) {
      if (std::from_chars(begin, end, whole).ptr == end && token.word.size() < 19)
        return whole;
    } else if (double fraction = 0; std::from_chars(begin, end, fraction).ptr == end) {
      return fraction;
    }
    failAt(token.line, fmt::format("{} is no number", inQuotes(token.word)));
  }

  std::vector<Piece> pieces;
  size_t at = 0, next = 0;
  int depth = 0;
};

} // namespace

} // namespace jinja

struct JinjaTemplate::Body {
  jinja::Statements statements;
};

JinjaTemplate::JinjaTemplate(std::string_view text) : body(std::make_unique<Body>()) {
  body->statements = jinja::Parser(jinja::piecesOf(text)).parse();
}

JinjaTemplate::JinjaTemplate(JinjaTemplate &&) noexcept = default;
JinjaTemplate &JinjaTemplate::operator=(JinjaTemplate &&) noexcept = default;
JinjaTemplate::~JinjaTemplate() = default;

std::string JinjaTemplate::render(const runtime::Json &variables) const {
  jinja::Scope global;
  for (const auto &[name, value] : variables.items())
    global.values[name] = value;
  jinja::Rendering rendering;
  jinja::runAll(body->statements, global, rendering);
  return std::move(rendering.text);
}

} // namespace tcc::models
