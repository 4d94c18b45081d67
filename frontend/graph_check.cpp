// Compares the names in a text with what is known of them.
#include "frontend/graph_check.h"
#include "frontend/diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OperationSupport.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace tcc {
namespace {

/// More than anybody reads; each costs a search among all names.
constexpr size_t mostProblems = 64;

constexpr llvm::StringLiteral typeNames[] = {"f32", "bf16", "f16", "f8E4M3FN", "f8E5M2", "i1", "i32", "i64"};

std::vector<std::string> elementNames() {
  return {std::begin(typeNames), std::end(typeNames)};
}

/// Whether MLIR has such a type, which tensors here have not: no misspelling.
bool isForeignType(StringRef name) {
  for (StringRef prefix : {"ui", "si", "i"})
    if (StringRef digits = name; digits.consume_front(prefix))
      if (!digits.empty() && llvm::all_of(digits, llvm::isDigit))
        return true;
  return llvm::is_contained({"f64", "f80", "f128", "tf32", "index", "none"}, name) || name.starts_with("f8E");
}

/// The element type that a misspelt name or one of another language stands for: f23, float32, bfloat16, int64, bool.
std::string elementMeant(StringRef name) {
  if (isForeignType(name))
    return {};
  std::string shorter = name.str();
  for (auto [spelt, letter] : {std::pair("float", "f"), std::pair("int", "i")})
    if (const size_t at = shorter.find(spelt); at != std::string::npos)
      shorter.replace(at, StringRef(spelt).size(), letter);
  if (shorter == "bool")
    return "i1";
  if (shorter == "f" || shorter == "i")
    shorter += "32";
  for (StringRef type : typeNames) { // also with letters in another order
    std::string known = type.str(), given = shorter;
    llvm::sort(known);
    llvm::sort(given);
    if (known == given)
      return type.str();
  }
  return name == shorter ? nearest(name, elementNames()) : "";
}

class Checker {
public:
  Checker(StringRef text, const GraphOutline &outline, MLIRContext &context) : text(text), outline(outline) {
    for (RegisteredOperationName name : context.getRegisteredOperations()) {
      registered.insert(name.getStringRef());
      if (name.getDialectNamespace() == "tcc" && name.getStringRef() != "tcc.yield")
        graphOps.push_back(name.getStringRef().str());
    }
    graphOps.push_back("func.return");
    llvm::sort(graphOps);
  }

  std::vector<GraphProblem> run() {
    if (outline.keyword.name != "func.func" && outline.keyword.name != "\"func.func\"")
      add(outline.keyword.range, "'" + outline.keyword.name + "' begins no function; func.func does");
    for (const NamedRange &word : outline.misnamed)
      add(word.range, "unknown type '" + word.name + "'" + didYouMean(word.name, {"tensor"}));
    for (const OutlineType &type : outline.types)
      checkType(type);
    for (const OutlineArgument &argument : outline.arguments)
      define(argument.value);
    for (size_t i = 0; i < outline.body.size(); ++i)
      for (const NamedRange &result : outline.body[i].results)
        later.try_emplace(result.name, result.range);
    for (const OutlineStatement &statement : outline.body)
      checkStatement(statement);
    if (outline.body.empty() || !isReturn(outline.body.back()))
      add({outline.bodyRange.end - 1, outline.bodyRange.end},
          "function '" + outline.function.name.substr(1) + "' ends without func.return, which gives its " +
              (outline.results.size() == 1 ? "result" : std::to_string(outline.results.size()) + " results") +
              " (function_c2)");
    return std::move(problems);
  }

private:
  void add(TextRange range, std::string message, std::vector<GraphNote> notes = {}) {
    if (problems.size() < mostProblems)
      problems.push_back({range, std::move(message), std::move(notes)});
  }
  static bool isReturn(const OutlineStatement &statement) {
    return statement.op.name == "return" || StringRef(statement.op.name).ends_with(".return");
  }

  void checkType(const OutlineType &type) {
    const std::string &element = type.element.name;
    if (isElementType(element) || !said.insert(element).second)
      return; // one mistake, though it stands in many types
    const std::string whole = text.slice(type.range.begin, type.range.end).str();
    if (element.find(',') != std::string::npos) {
      std::string fixed = whole;
      llvm::erase(fixed, ' ');
      std::replace(fixed.begin(), fixed.end(), ',', 'x');
      return add(type.range, "'" + whole + "' has commas between its sizes; 'x' separates them: " + fixed);
    }
    if (element.empty() || StringRef(element).find_first_not_of("0123456789?x ") == StringRef::npos)
      return add(type.range, "'" + whole + "' has no element type; tensors hold " + list(elementNames()));
    const std::string meant = elementMeant(element);
    add(type.element.range,
        "unknown element type '" + element + "'" +
            (meant.empty() ? "; tensors hold " + list(elementNames()) : "; did you mean '" + meant + "'?"));
  }

  static std::string list(std::vector<std::string> names) {
    const std::string last = names.back();
    names.pop_back();
    return llvm::join(names, ", ") + " or " + last;
  }

  void define(const NamedRange &value) {
    if (value.name.empty())
      return;
    auto [place, fresh] = defined.try_emplace(value.name, value.range);
    if (!fresh)
      add(value.range, "'" + value.name + "' is defined twice", {{place->second, "it is defined here first"}});
  }

  void checkStatement(const OutlineStatement &statement) {
    if (!statement.results.empty() && !statement.assigned)
      return add(statement.op.range,
                 "'=' is missing between '" + statement.results.back().name + "' and '" + statement.op.name + "'"),
             defineResults(statement);
    checkOp(statement);
    for (const NamedRange &use : statement.uses)
      checkUse(use, statement);
    defineResults(statement);
  }

  void defineResults(const OutlineStatement &statement) {
    for (const NamedRange &result : statement.results)
      define(result);
  }

  void checkOp(const OutlineStatement &statement) {
    const std::string &name = statement.op.name;
    if (name.empty() || name == "return" || name == "func.return" ||
        (registered.contains(name) && StringRef(name).starts_with("tcc.")))
      return;
    auto [dialect, rest] = StringRef(name).split('.');
    const bool prefixed = !rest.empty();
    const std::string meant = "tcc." + (prefixed ? rest : dialect).str();
    std::string message = "unknown op '" + name + "'";
    if (registered.contains(name))
      message = "'" + name + "' may not stand in a graph; only ops of 'tcc' may (function_c2)";
    else if (!prefixed && registered.contains(meant))
      message = "op '" + name + "' lacks its dialect";
    const std::string candidate = llvm::is_contained(graphOps, meant) ? meant
                                  : isReturn(statement)               ? "func.return"
                                                                      : nearestOp(StringRef(meant).split('.').second);
    add(statement.op.range, message + (candidate.empty() ? "" : "; did you mean '" + candidate + "'?"));
  }

  /// Without the dialect's letters, which every name shares.
  std::string nearestOp(StringRef name) const {
    std::vector<std::string> names;
    for (StringRef op : graphOps)
      names.push_back(op.split('.').second.str());
    const std::string found = nearest(name, names);
    return found.empty() ? found : found == "return" ? "func.return" : "tcc." + found;
  }

  void checkUse(const NamedRange &use, const OutlineStatement &statement) {
    if (defined.count(use.name) || problems.size() >= mostProblems)
      return;
    if (auto found = later.find(use.name); found != later.end()) {
      if (statement.range.contains(found->second.begin))
        return add(use.range, "'" + use.name + "' is used in its own definition");
      return add(use.range, "'" + use.name + "' is used before it is defined",
                 {{found->second, "it is defined here; statements stand in the order of their execution"}});
    }
    std::vector<std::string> names;
    for (const auto &entry : defined)
      names.push_back(entry.first().str());
    llvm::sort(names);
    add(use.range, "'" + use.name + "' is not defined" + didYouMean(use.name, names));
  }

  StringRef text;
  const GraphOutline &outline;
  llvm::StringSet<> registered, said;
  std::vector<std::string> graphOps;
  llvm::StringMap<TextRange> defined, later;
  std::vector<GraphProblem> problems;
};

//===- how ops are written ---------------------------------------------------------------------------------------===//

/// "operation ::= `tcc.exp` $x attr-dict `:` type($result)" of every op, made from Ops.td.
constexpr llvm::StringLiteral syntaxes[] = {
#include "frontend/op_syntax.inc"
};

/// The format of a definition as text that could stand in a graph: %x for operands, <axis> for attributes that the
/// format names, [...] around what may be left out, {...} for the other attributes.
std::string readable(StringRef format, ArrayRef<StringAttr> attributes) {
  std::string out;
  std::vector<std::string> others;
  for (StringAttr attribute : attributes)
    if (!format.contains(("$" + attribute.getValue()).str()))
      others.push_back(attribute.str() + " = …");
  auto put = [&](const std::string &word) {
    const bool tight = out.empty() || word == "," || word == "]" || out.back() == '[';
    out += (tight ? "" : " ") + word;
  };
  while (!(format = format.ltrim()).empty()) {
    if (format.consume_front("`")) {
      auto [literal, rest] = format.split('`');
      put(literal.str());
      format = rest;
    } else if (format.consume_front("attr-dict")) {
      if (!others.empty())
        put("{" + llvm::join(others, ", ") + "}");
    } else if (format.consume_front("type(")) {
      put("tensor<…>");
      format = format.split(')').second;
    } else if (format.consume_front("$")) {
      const StringRef name = format.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
      format = format.drop_front(name.size());
      const bool attribute = llvm::any_of(attributes, [&](StringAttr known) { return known.getValue() == name; });
      const bool flag = format.starts_with("^)?") && attribute; // a unit attribute, whose keyword stands before it
      if (!flag)
        put(attribute ? "<" + name.str() + ">" : "%" + name.str());
    } else if (format.consume_front("(")) {
      put("[");
    } else if (format.consume_front(")?")) {
      put("]");
    } else {
      format = format.drop_front();
    }
  }
  return out;
}

} // namespace

std::vector<GraphProblem> checkOutline(StringRef text, const GraphOutline &outline, MLIRContext &context) {
  return Checker(text, outline, context).run();
}

bool isElementType(StringRef name) {
  return llvm::is_contained(typeNames, name.trim());
}

std::string didYouMean(StringRef name, ArrayRef<std::string> known) {
  std::string candidate = name.size() > 2 ? nearest(name, known) : ""; // any letter is near another
  for (const std::string &other : known)                               // epsilon for eps
    if (candidate.empty() && std::min(name.size(), other.size()) > 2 &&
        (name.starts_with(other) || StringRef(other).starts_with(name)))
      candidate = other;
  return candidate.empty() ? "" : "; did you mean '" + candidate + "'?";
}

std::string opSyntax(StringRef op, MLIRContext &context) {
  std::optional<RegisteredOperationName> name = RegisteredOperationName::lookup(op, &context);
  if (!name)
    return {};
  for (StringRef syntax : syntaxes) {
    StringRef format = syntax;
    if (!format.consume_front("operation ::= `") || !format.consume_front(op) || !format.consume_front("`"))
      continue;
    SmallVector<StringAttr> written(name->getAttributeNames());
    llvm::erase_if(written, [](StringAttr attribute) { return attribute == "operandSegmentSizes"; }); // follows
    return op.str() + " " + readable(format, written);
  }
  return {};
}

} // namespace tcc
