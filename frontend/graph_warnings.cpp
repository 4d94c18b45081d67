// One rule a function; all read the parsed graph and point into its text.
#include "frontend/graph_warnings.h"
#include "frontend/graph_explain.h"
#include "frontend/graph_literals.h"
#include "frontend/graph_values.h"
#include "ir/host_ops.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace tcc {
namespace {

constexpr const char *unusedArgument = "unused-argument", *unusedValue = "unused-value", *staleState = "stale-state",
                     *narrowing = "narrowing", *literalRange = "literal-range", *inexactIota = "inexact-iota";

constexpr WarningInfo table[] = {
    {unusedArgument, "an argument that no op uses"},
    {unusedValue, "an op whose results nothing uses"},
    {staleState, "a state that is never updated, though others are"},
    {narrowing, "an i64 of which only 32 bits count"},
    {slowDtype, "a --dtype= that the target has no instructions for"},
    {invalidIndexWarning, "an index of --input that makes NaN"},
    {literalRange, "a literal beyond the largest number of its type"},
    {inexactIota, "coordinates that their element type does not tell apart"},
};

struct Warning {
  const char *name;
  TextPlace place;
  std::string message;
};

class Finder {
public:
  Finder(func::FuncOp function, StringRef text, StringRef file)
      : function(function), text(text), file(file), lines({text.data(), text.size()}) {
    if (std::optional<GraphOutline> found = outlineGraph({text.data(), text.size()}))
      outline = std::move(*found);
  }

  std::vector<Warning> run() {
    findStates();
    for (BlockArgument argument : function.getArguments())
      checkArgument(argument);
    for (Operation &op : function.getBody().front().without_terminator()) {
      checkUses(op);
      checkWidth(op);
    }
    function.walk([&](ConstantOp op) { checkLiteral(op); });
    function.walk([&](IotaOp op) { checkCoordinates(op); });
    llvm::stable_sort(warnings, [](const Warning &a, const Warning &b) {
      return std::pair(a.place.line, a.place.column) < std::pair(b.place.line, b.place.column);
    });
    return std::move(warnings);
  }

private:
  void findStates() {
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (auto updates = function.getResultAttrOfType<StringAttr>(i, updatesAttr))
        updated.insert(updates.getValue());
  }

  TextPlace placeOf(const NamedRange &name) const {
    const LineIndex::Place at = lines.place(name.range.begin);
    return {file.str(), at.line, at.column, static_cast<unsigned>(name.name.size())};
  }

  void checkArgument(BlockArgument argument) {
    const unsigned i = argument.getArgNumber();
    TextPlace place = tcc::placeOf(argument.getLoc());
    std::string name = argumentName(function, i);
    if (i < outline.arguments.size()) {
      place = placeOf(outline.arguments[i].value);
      name = outline.arguments[i].value.name;
    }
    const bool state = static_cast<bool>(function.getArgAttr(i, stateAttr)),
               next = state && updated.contains(argumentName(function, i));
    if (argument.use_empty() && !next)
      warnings.push_back({unusedArgument, place, "argument '" + name + "' is never used"});
    else if (state && !next && !updated.empty())
      warnings.push_back({staleState, place,
                          "state '" + argumentName(function, i) +
                              "' is never updated, though others are; a result with tcc.updates = \"" +
                              argumentName(function, i) + "\" is its next value"});
  }

  TextPlace placeOf(Operation &op) const {
    const TextPlace place = tcc::placeOf(op.getLoc());
    const OutlineStatement *statement = outline.statementAt(lines.offset(place.line, place.column));
    return statement ? placeOf(statement->op) : place;
  }
  static std::string shortName(Operation &op) { return "`" + op.getName().stripDialect().str() + "`"; }

  void checkUses(Operation &op) {
    if (op.use_empty() && op.getNumResults() && !isa<ItemOp>(op)) // the host has seen it
      warnings.push_back({unusedValue, placeOf(op),
                          shortName(op) + " has no effect: " +
                              (op.getNumResults() == 1 ? "its result is" : "its results are") + " never used"});
  }

  void checkWidth(Operation &op) {
    auto isWide = [](Value value) { return tensorType(value).getElementType().isInteger(64); };
    if (auto cast = dyn_cast<CastOp>(op);
        cast && isWide(cast.getX()) && tensorType(cast.getResult()).getElementType().isInteger(32))
      warnings.push_back({narrowing, placeOf(op), "`cast` narrows i64 to i32; values beyond 32 bits change"});
  }

  void checkLiteral(ConstantOp op) {
    const std::optional<LiteralProblem> problem = numberBeyondType(op, text, lines);
    if (problem)
      warnings.push_back({literalRange,
                          placeOf({text.slice(problem->range.begin, problem->range.end).str(), problem->range}),
                          problem->message});
  }
  static std::string typeName(Type type) {
    std::string name;
    llvm::raw_string_ostream(name) << type;
    return name;
  }

  /// Coordinates count up from 0; floats hold each integer up to a power of two.
  void checkCoordinates(IotaOp op) {
    RankedTensorType type = tensorType(op.getResult());
    const int64_t size = type.getDimSize(op.getDim());
    auto element = dyn_cast<FloatType>(type.getElementType());
    if (!element || ShapedType::isDynamic(size))
      return;
    const int64_t exact = int64_t(1) << APFloat::semanticsPrecision(element.getFloatSemantics());
    TextPlace place = tcc::placeOf(op.getLoc());
    place.length = static_cast<unsigned>(op->getName().getStringRef().size());
    if (size - 1 > exact)
      warnings.push_back({inexactIota, place,
                          "`iota` counts to " + std::to_string(size - 1) + ", and " + typeName(element) +
                              " holds every integer only up to " + std::to_string(exact) +
                              "; coordinates above are rounded"});
  }

  func::FuncOp function;
  StringRef text, file;
  LineIndex lines;
  GraphOutline outline;
  llvm::StringSet<> updated;
  std::vector<Warning> warnings;
};

} // namespace

ArrayRef<WarningInfo> warningTable() {
  return table;
}

bool Warnings::set(StringRef text, std::string &suggestion) {
  const bool on = !text.consume_front("no-");
  if (text == "error") {
    allErrors = on;
    if (!on)
      error.clear();
    return true;
  }
  if (text == "all" || text == "extra") {
    for (const WarningInfo &warning : table)
      off[warning.name] = !on;
    return true;
  }
  const bool asError = text.consume_front("error=");
  std::vector<std::string> names;
  for (const WarningInfo &warning : table)
    names.emplace_back(warning.name);
  if (!llvm::is_contained(names, text)) {
    const std::string candidate = nearest(text, names);
    suggestion = candidate.empty() ? "" : (on ? "-W" : "-Wno-") + std::string(asError ? "error=" : "") + candidate;
    return false;
  }
  if (asError)
    error[text] = on;
  if (!asError || on)
    off[text] = !on;
  return true;
}

Severity Warnings::severity(StringRef name) const {
  const auto own = error.find(name);
  return (own == error.end() ? allErrors : own->second) ? Severity::error : Severity::warning;
}

std::string Warnings::flagOf(StringRef name) const {
  return ((severity(name) == Severity::error ? " [-Werror=" : " [-W") + name + "]").str();
}

void warnAboutGraph(func::FuncOp function, StringRef text, StringRef file, const Warnings &warnings,
                    DiagnosticPrinter &printer) {
  for (const Warning &warning : Finder(function, text, file).run())
    if (warnings.isOn(warning.name))
      printer.print(warnings.severity(warning.name), warning.place, warning.message + warnings.flagOf(warning.name));
}

} // namespace tcc
