// Diagnostics of MLIR in the words of this project: what was seen, then the rule.
#include "frontend/capture.h"
#include "frontend/graph_explain.h"
#include "frontend/graph_literals.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace tcc {
namespace {

std::string replaced(std::string text, std::initializer_list<std::pair<StringRef, StringRef>> words) {
  for (auto [from, to] : words)
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  return text;
}

/// MLIR's description of a constraint on types in the spelling of .graph files.
std::string plainTypes(StringRef constraint) {
  return replaced(constraint.str(), {{"ranked tensor of ", "a tensor of "},
                                     {"bfloat16 type", "bf16"},
                                     {"32-bit float", "f32"},
                                     {"16-bit float", "f16"},
                                     {"1-bit signless integer", "i1"},
                                     {"32-bit signless integer", "i32"},
                                     {"64-bit signless integer", "i64"},
                                     {" type", ""},
                                     {" values", ""},
                                     {"variadic of ", ""}});
}

/// 'a' of "... 'a' ...".
StringRef quoted(StringRef text) {
  return text.split('\'').second.split('\'').first;
}

/// The word, value or type that stands at `at`.
TextRange tokenAt(StringRef text, size_t at) {
  size_t end = at;
  while (end < text.size() && (llvm::isAlnum(text[end]) || StringRef("%@_.$#").contains(text[end])))
    ++end;
  if (text.slice(at, end) == "tensor" && text.substr(end).starts_with("<"))
    end = std::min(text.find('>', end), text.size() - 1) + 1;
  return {at, std::max(end, std::min(at + 1, text.size()))};
}

class Words {
public:
  Words(StringRef message, size_t offset, const OutlineStatement *statement, const OutlinedText &source,
        MLIRContext &context)
      : message(message), offset(offset), statement(statement), source(source), context(context) {
    op = statement ? statement->op.name : "";
    problem.range = tokenAt(source.text, offset);
  }

  GraphProblem run() {
    if (unknownOp())
      return std::move(problem);
    // "custom op 'tcc.exp' expected ..." and "'tcc.exp' op attribute ...": the statement says which op.
    if (message.consume_front("custom op '"))
      message = message.split("' ").second;
    const std::string head = "'" + op + "' op ";
    const bool named = message.consume_front(head);
    if (literals() || expected() || outsideValue() || types() || counts() || attributes())
      return std::move(problem);
    problem.message = userMessage((named ? head : "") + message.str());
    return std::move(problem);
  }

private:
  std::string shortOp() const {
    StringRef name = op;
    name.consume_front("tcc.");
    return "`" + name.str() + "`";
  }
  bool say(TextRange range, const std::string &text) {
    problem.range = range;
    problem.message = text;
    return true;
  }
  TextRange use(size_t index) const {
    return statement && index < statement->uses.size() ? statement->uses[index].range : problem.range;
  }

  /// A word that begins a statement, or stands where an op should, and is none.
  bool unknownOp() {
    if (!message.contains("is unknown (tried '") && !message.contains("' not found for custom op '"))
      return false;
    const std::string word = source.text.slice(problem.range.begin, problem.range.end).str();
    std::string hint;
    if (word == "dense")
      hint = "; a literal belongs to an op, as in tcc.constant dense<1.0> : tensor<4xf32>";
    else if (source.text.substr(problem.range.end).ltrim(" \t").starts_with("="))
      hint = "; the name of a value begins with %, as in %" + word;
    return say(problem.range, "unknown op '" + word + "'" + hint);
  }

  /// The body of an op names a value of the function around it.
  bool outsideValue() {
    if (!message.contains("using value defined outside the region"))
      return false;
    StringRef inner = quoted(message); // the statement is that of the body
    inner.consume_front("tcc.");
    return say(problem.range, "`" + inner.str() +
                                  "` uses a value from outside of the body that it stands in; a body has its "
                                  "own arguments alone");
  }

  /// The element type of the literal that `offset` is in.
  std::string literalElement() const {
    const StringRef type = source.text.substr(source.text.find('>', offset)).split("tensor<").second;
    return type.take_until([](char c) { return c == '>'; }).rsplit('x').second.str();
  }

  /// What stands in dense<...>.
  bool literals() {
    StringRef rest = message;
    if (rest.consume_front("inferred shape of elements literal (")) {
      const auto [has, wanted] = rest.split(") does not match type (");
      return say(problem.range,
                 "the literal has shape " + has.str() + ", and its type " + StringRef(wanted).drop_back().str());
    }
    const std::string word = source.text.slice(problem.range.begin, problem.range.end).str();
    if (message.contains("ranks are not consistent between elements"))
      return say({offset, offset + 1}, "the literal's rows have different lengths");
    if (message.starts_with("integer constant out of range")) {
      const bool isNegative = offset > 0 && source.text[offset - 1] == '-';
      const std::string element = literalElement();
      unsigned width = 32;
      StringRef(element).drop_front().getAsInteger(10, width);
      return say({offset - isNegative, problem.range.end},
                 beyondType((isNegative ? "-" : "") + word, IntegerType::get(&context, width)));
    }
    if (message.starts_with("unexpected decimal integer literal for a floating point value"))
      return say(problem.range, "'" + word + "' has no point; " + literalElement() + " is written " + word + ".0");
    if (message.starts_with("expected integer elements, but parsed floating-point"))
      return say(problem.range, "'" + word + "' is no " + literalElement());
    return false;
  }

  /// The parser wanted something else.
  bool expected() {
    StringRef wanted = message;
    if (!wanted.consume_front("expected "))
      return false;
    std::string rule = replaced(wanted.str(), {{"SSA operand", "a value, such as %x,"},
                                               {"non-function type", "a type"},
                                               {"attribute value", "the value of an attribute"},
                                               {"valid '@'-identifier for symbol name", "a name, such as @main,"},
                                               {"operation name in quotes", "an op"},
                                               {" in dimension list", ""},
                                               {" after SSA name", ""}});
    if (wanted.contains("one of the following enum values"))
      rule = "one of " + wanted.split('[').second.split(']').first.str();
    // What is seen is the next word of the statement, where it has one.
    const StringRef text = source.text;
    const size_t end = statement ? statement->range.end : text.size(), next = text.find_first_not_of(" \t\r\n", offset);
    if (next < end)
      say(tokenAt(text, next),
          "'" + text.slice(next, tokenAt(text, next).end).str() + "' stands where " + rule + " is expected");
    else
      say({offset, offset + 1}, "the statement ends where " + rule + " is expected");
    if (const std::string syntax = opSyntax(op, context); !syntax.empty())
      problem.notes.push_back({{}, "it is written: " + syntax});
    return true;
  }

  bool types() {
    if (message.starts_with("use of value '")) {
      const StringRef value = quoted(message), both = message.split("prior uses: ").second;
      const StringRef written = quoted(both), known = quoted(both.split(" vs ").second);
      say(problem.range,
          "'" + value.str() + "' is " + known.str() + ", but " + written.str() + " is written for it here");
      for (const auto &place : definitions(value))
        problem.notes.push_back({place, "it is defined here"});
      return true;
    }
    if (message.starts_with("operand #")) {
      unsigned index = 0;
      StringRef rest = message.drop_front(9);
      rest.consumeInteger(10, index);
      const std::string rule = plainTypes(rest.split(" must be ").second.split(", but got").first);
      return say(use(index), shortOp() + " operand " + std::to_string(index + 1) + " is " +
                                 quoted(rest.split(", but got").second).str() + "; it must be " + rule);
    }
    if (message.starts_with("inferred type(s) ")) {
      const StringRef written = quoted(message.split("of operation").second);
      return say(statement ? statement->last : problem.range,
                 shortOp() + " gives " + quoted(message).str() + ", but " + written.str() + " is written");
    }
    if (message.starts_with("failed to verify that all of {")) {
      const auto [names, rule] = message.split('{').second.split('}');
      return say(problem.range, shortOp() + " needs the same " + StringRef(rule).rsplit(' ').second.str() + " for " +
                                    replaced(names.str(), {{", ", " and "}}));
    }
    if (message.starts_with("type of return operand ")) {
      unsigned index = 0;
      StringRef rest = message.drop_front(StringRef("type of return operand ").size());
      rest.consumeInteger(10, index);
      return say(use(index), "func.return gives " + quoted(rest).str() + " as result " + std::to_string(index) +
                                 ", which the function declares as " + quoted(rest.split("result type").second).str());
    }
    return false;
  }

  bool counts() {
    unsigned has = 0, given = 0;
    StringRef rest = message;
    if (rest.consume_front("operation defines ") && !rest.consumeInteger(10, has) &&
        rest.consume_front(" results but was provided ") && !rest.consumeInteger(10, given))
      return say(problem.range, shortOp() + " has " + std::to_string(has) + (has == 1 ? " result" : " results") +
                                    ", but " + std::to_string(given) + (given == 1 ? " name is" : " names are") +
                                    " given");
    rest = message;
    if (rest.consume_front("has ") && !rest.consumeInteger(10, given) && rest.contains("enclosing function")) {
      rest = rest.split(" returns ").second;
      rest.consumeInteger(10, has);
      return say(problem.range, "func.return gives " + std::to_string(given) + (given == 1 ? " value" : " values") +
                                    ", but the function declares " + std::to_string(has) +
                                    (has == 1 ? " result" : " results"));
    }
    return false;
  }

  bool attributes() {
    if (!message.starts_with("attribute '") || !message.contains("failed to satisfy constraint: "))
      return false;
    const StringRef name = quoted(message);
    TextRange range = problem.range;
    if (statement)
      for (const OutlineAttribute &attribute : statement->attributes)
        if (attribute.key.name == name)
          range = attribute.range;
    std::string rule = plainTypes(message.split("constraint: ").second);
    rule = replaced(rule, {{" attribute", ""}, {"64-bit float", "f64"}});
    if (rule == "f64")
      rule = "a number with a point, such as 1.0";
    return say(range, "attribute '" + name.str() + "' of " + shortOp() + " is of another kind; it must be " + rule);
  }

  /// Where a value's name is given.
  std::vector<TextRange> definitions(StringRef value) const {
    const StringRef name = value.split('#').first;
    for (const OutlineArgument &argument : source.outline.arguments)
      if (argument.value.name == name)
        return {argument.value.range};
    for (const OutlineStatement &other : source.outline.body)
      for (const NamedRange &result : other.results)
        if (result.name == name)
          return {result.range};
    return {};
  }

  StringRef message;
  size_t offset;
  const OutlineStatement *statement;
  const OutlinedText &source;
  MLIRContext &context;
  std::string op;
  GraphProblem problem;
};

} // namespace

GraphProblem inOurWords(StringRef message, size_t offset, const OutlineStatement *statement, const OutlinedText &source,
                        MLIRContext &context) {
  return Words(message, offset, statement, source, context).run();
}

} // namespace tcc
