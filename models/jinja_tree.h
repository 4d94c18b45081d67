// The tree of a Jinja template, and how its nodes compute. Errors are "line N: why".
#pragma once
#include "frontend/error.h"
#include "models/jinja_lexer.h"
#include "models/jinja_values.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tcc::models::jinja {

constexpr int deepest = 100; // nesting of expressions, statements and macros
constexpr int64_t mostSteps = 1000000;
constexpr size_t mostText = size_t(64) << 20;

struct Macro;

/// The variables of a loop's turn or a macro's call, and those around it.
struct Scope {
  explicit Scope(Scope *outer = nullptr) : outer(outer) {}
  Scope *outer;
  std::map<std::string, Value> values;
  std::map<std::string, const Macro *> macros;
};

/// What ends a turn of a loop early.
enum class Leaves : uint8_t { no, turn, loop };

/// One rendering.
struct Rendering {
  std::string text;
  int64_t steps = 0;
  int depth = 0;

  void step(int line) {
    if (++steps > mostSteps)
      failAt(line, "the template takes more than a million steps");
  }
  void write(int line, std::string_view more) {
    if (text.size() + more.size() > mostText)
      failAt(line, "the template writes more than 64 MiB");
    text += more;
  }
};

struct Expression {
  explicit Expression(int line) : line(line) {}
  virtual ~Expression() = default;
  virtual Value value(Scope &scope, Rendering &rendering) const = 0;
  int line;
};
using ExpressionPtr = std::unique_ptr<Expression>;

struct Statement {
  explicit Statement(int line) : line(line) {}
  virtual ~Statement() = default;
  virtual Leaves run(Scope &scope, Rendering &rendering) const = 0;
  int line;
};
using Statements = std::vector<std::unique_ptr<Statement>>;

inline Leaves runAll(const Statements &statements, Scope &scope, Rendering &rendering) {
  for (const std::unique_ptr<Statement> &statement : statements) {
    rendering.step(statement->line);
    if (const Leaves leaves = statement->run(scope, rendering); leaves != Leaves::no)
      return leaves;
  }
  return Leaves::no;
}

/// `compute()`, whose errors get the line.
template <typename Compute>
auto onLine(int line, Compute compute) {
  try {
    return compute();
  } catch (const Error &error) {
    failAt(line, error.what());
  }
}

//===- Expressions ---------------------------------------------------------------------------------------------===//

struct Literal : Expression {
  Literal(int line, Json json) : Expression(line), json(std::move(json)) {}
  Value value(Scope &, Rendering &) const override { return json; }
  Json json;
};

struct Name : Expression {
  Name(int line, std::string name) : Expression(line), name(std::move(name)) {}
  Value value(Scope &scope, Rendering &) const override {
    for (Scope *each = &scope; each; each = each->outer)
      if (const auto found = each->values.find(name); found != each->values.end())
        return found->second;
    // A function is defined, for `is defined`; its call does not ask for a value.
    return jinja::isFunction(name) ? Value(Json(name)) : Value();
  }
  std::string name;
};

struct List : Expression {
  using Expression::Expression;
  Value value(Scope &scope, Rendering &rendering) const override {
    Json made = Json::array();
    for (const ExpressionPtr &element : elements)
      made.push_back(onLine(line, [&] { return element->value(scope, rendering).get("a list's element"); }));
    return made;
  }
  std::vector<ExpressionPtr> elements;
};

struct Object : Expression {
  using Expression::Expression;
  Value value(Scope &scope, Rendering &rendering) const override {
    Json made = Json::object();
    for (const auto &[key, member] : members)
      onLine(line, [&, key = key.get(), member = member.get()] {
        made[jinja::textOf(key->value(scope, rendering))] = member->value(scope, rendering).get("a member");
      });
    return made;
  }
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> members;
};

struct Operation : Expression {
  Operation(int line, std::string op, ExpressionPtr a, ExpressionPtr b)
      : Expression(line), op(std::move(op)), a(std::move(a)), b(std::move(b)) {}
  Value value(Scope &scope, Rendering &rendering) const override {
    const Value left = a->value(scope, rendering);
    if (op == "and" || op == "or")
      return jinja::isTrue(left) == (op == "and") ? b->value(scope, rendering) : left;
    const Value right = b->value(scope, rendering);
    return onLine(line, [&] { return jinja::operate(op, left, right); });
  }
  std::string op;
  ExpressionPtr a, b;
};

struct Not : Expression {
  Not(int line, ExpressionPtr of) : Expression(line), of(std::move(of)) {}
  Value value(Scope &scope, Rendering &rendering) const override {
    return Json(!jinja::isTrue(of->value(scope, rendering)));
  }
  ExpressionPtr of;
};

/// `a if condition else b`
struct Choice : Expression {
  using Expression::Expression;
  Value value(Scope &scope, Rendering &rendering) const override {
    if (jinja::isTrue(condition->value(scope, rendering)))
      return onTrue->value(scope, rendering);
    return onFalse ? onFalse->value(scope, rendering) : Value();
  }
  ExpressionPtr condition, onTrue, onFalse;
};

struct Attribute : Expression {
  Attribute(int line, ExpressionPtr of, std::string name)
      : Expression(line), of(std::move(of)), name(std::move(name)) {}
  Value value(Scope &scope, Rendering &rendering) const override {
    const Value whole = of->value(scope, rendering);
    return onLine(line, [&] { return jinja::attribute(whole, name); });
  }
  ExpressionPtr of;
  std::string name;
};

/// of[first], or of[first:last:step]
struct Element : Expression {
  using Expression::Expression;
  Value value(Scope &scope, Rendering &rendering) const override {
    const Value whole = of->value(scope, rendering);
    const auto part = [&](const ExpressionPtr &given) { return given ? given->value(scope, rendering) : Value(); };
    const Value begin = part(first), end = part(last), by = part(step);
    return onLine(line, [&] { return isSlice ? jinja::slice(whole, begin, end, by) : jinja::element(whole, begin); });
  }
  ExpressionPtr of, first, last, step;
  bool isSlice = false;
};

struct GivenArguments {
  std::vector<ExpressionPtr> places;
  std::vector<std::pair<std::string, ExpressionPtr>> names;

  Arguments values(Scope &scope, Rendering &rendering) const {
    Arguments made;
    for (const ExpressionPtr &place : places)
      made.places.push_back(place->value(scope, rendering));
    for (const auto &[name, given] : names)
      made.names.emplace_back(name, given->value(scope, rendering));
    return made;
  }
};

/// `of | name(…)`, or `of is [not] name(…)`
struct Applied : Expression {
  using Expression::Expression;
  Value value(Scope &scope, Rendering &rendering) const override {
    const Value whole = of->value(scope, rendering);
    const Arguments given = arguments.values(scope, rendering);
    return onLine(line, [&] {
      return isTest ? Value(Json(jinja::test(name, whole, given) != isNegated)) : jinja::filter(name, whole, given);
    });
  }
  ExpressionPtr of;
  std::string name;
  GivenArguments arguments;
  bool isTest = false, isNegated = false;
};

struct Call : Expression {
  using Expression::Expression;
  Value value(Scope &scope, Rendering &rendering) const override;
  ExpressionPtr of; // a method's object; else null
  std::string name;
  GivenArguments arguments;
};

//===- Statements ----------------------------------------------------------------------------------------------===//

struct Text : Statement {
  Text(int line, std::string text) : Statement(line), text(std::move(text)) {}
  Leaves run(Scope &, Rendering &rendering) const override {
    rendering.write(line, text);
    return Leaves::no;
  }
  std::string text;
};

struct Print : Statement {
  Print(int line, ExpressionPtr of) : Statement(line), of(std::move(of)) {}
  Leaves run(Scope &scope, Rendering &rendering) const override {
    const Value printed = of->value(scope, rendering);
    rendering.write(line, onLine(line, [&] { return jinja::textOf(printed); }));
    return Leaves::no;
  }
  ExpressionPtr of;
};

struct If : Statement {
  using Statement::Statement;
  Leaves run(Scope &scope, Rendering &rendering) const override {
    for (const auto &[condition, body] : branches)
      if (!condition || jinja::isTrue(condition->value(scope, rendering)))
        return runAll(body, scope, rendering);
    return Leaves::no;
  }
  std::vector<std::pair<ExpressionPtr, Statements>> branches; // a branch without a condition is `else`
};

struct For : Statement {
  using Statement::Statement;
  Leaves run(Scope &scope, Rendering &rendering) const override;
  void bind(Scope &turn, const Json &element) const;
  std::vector<std::string> names;
  ExpressionPtr over, condition;
  Statements body, otherwise;
};

struct Set : Statement {
  using Statement::Statement;
  Leaves run(Scope &scope, Rendering &rendering) const override;
  std::string name, attribute;
  ExpressionPtr value;
  Statements body;
};

struct Leave : Statement {
  Leave(int line, Leaves what) : Statement(line), what(what) {}
  Leaves run(Scope &, Rendering &) const override { return what; }
  Leaves what;
};

struct Macro : Statement {
  using Statement::Statement;
  Leaves run(Scope &scope, Rendering &) const override {
    scope.macros[name] = this;
    return Leaves::no;
  }
  Value call(Scope &scope, Rendering &rendering, const Arguments &arguments) const;
  std::string name;
  std::vector<std::pair<std::string, ExpressionPtr>> parameters; // with defaults, or null
  Statements body;
};

/// Statements in place of a block that changes nothing.
struct Block : Statement {
  using Statement::Statement;
  Leaves run(Scope &scope, Rendering &rendering) const override { return runAll(body, scope, rendering); }
  Statements body;
};

} // namespace tcc::models::jinja
