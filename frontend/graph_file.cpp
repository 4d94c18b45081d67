// Reads and writes .graph text.
#include "frontend/graph_file.h"
#include "frontend/capture.h"
#include "frontend/graph_explain.h"
#include "frontend/graph_literals.h"
#include "ir/names.h"
#include "ir/provided.h"
#include "mlir/IR/AsmState.h"
#include "mlir/Parser/Parser.h"
#include "passes/bodies.h"
#include "passes/memory_places.h"
#include "passes/pipeline.h"
#include "passes/stages.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include <cerrno>
#include <cstdio>
#include <cstring>

using namespace mlir;

namespace tcc {

runtime::Expected<std::string> readText(const std::string &path, int64_t limit) {
  const auto unreadable = [&] { return runtime::Error("cannot read '" + path + "': " + std::strerror(errno)); };
  const bool standard = path == "-";
  auto close = [standard](std::FILE *opened) {
    if (!standard)
      std::fclose(opened);
  };
  const std::unique_ptr<std::FILE, decltype(close)> file(standard ? stdin : std::fopen(path.c_str(), "rb"), close);
  if (!file)
    return unreadable();
  std::string text;
  std::array<char, 1 << 16> block;
  size_t count = 0;
  while ((count = std::fread(block.data(), 1, block.size(), file.get())) > 0) {
    text.append(block.data(), count);
    if (static_cast<int64_t>(text.size()) > limit)
      return runtime::Error("'" + path + "' is larger than " + std::to_string(limit) + " bytes, the limit (graph_c1)");
  }
  if (std::ferror(file.get()))
    return unreadable();
  return text;
}

namespace {

/// The name that the user gave to a value: "inner" for "%inner", "" for "%0". The printer puts a number after an op's
/// own name to tell values of one name apart; it is removed: "h.3.transpose" for "%h.3.transpose_6".
StringRef givenName(StringRef value, StringRef op = {}) {
  StringRef name = value.ltrim('%'), stem = name.rtrim("0123456789");
  if (stem.size() < name.size() && stem.consume_back("_") && !op.empty() && stem.rsplit('.').second == op)
    return stem;
  return llvm::all_of(name, llvm::isDigit) ? StringRef() : name;
}

/// The value at the front of the text, with its '%'.
StringRef valueAt(StringRef text) {
  return text.take_while([](char c) { return llvm::isAlnum(c) || StringRef("%_.$-").contains(c); });
}

/// Keeps the names of values in regions: of their arguments, and of results that stand in front of their op in a line.
void keepNamesInRegions(Operation &outer, StringRef text, const LineIndex &lines) {
  const auto textAt = [&](Location loc) {
    auto place = dyn_cast<FileLineColLoc>(loc);
    return place ? text.drop_front(lines.offset(place.getLine(), place.getColumn())) : StringRef();
  };
  const auto keepIn = [&](Region &region) {
    for (BlockArgument argument : region.getArguments())
      if (StringRef name = givenName(valueAt(textAt(argument.getLoc()))); !name.empty())
        argument.setLoc(named(argument.getLoc(), name));
    for (Operation &op : region.getOps()) {
      StringRef rest = textAt(op.getLoc()), line = text.drop_back(rest.size());
      line = line.substr(line.rfind('\n') + 1).trim();
      if (rest.empty() || !line.consume_back("="))
        continue;
      if (StringRef name = givenName(valueAt(line), nameOf(&op)); line.starts_with("%") && !name.empty())
        op.setLoc(named(op.getLoc(), name));
    }
  };
  outer.walk([&](Operation *op) {
    if (isa<BodyOpInterface, CustomOp>(op))
      llvm::for_each(op->getRegions(), keepIn);
  });
}

/// Keeps the names of the text's values in locations.
void keepNames(ModuleOp module, StringRef text) {
  const std::optional<GraphOutline> outline = outlineGraph({text.data(), text.size()});
  if (!outline)
    return;
  const LineIndex lines({text.data(), text.size()});
  func::FuncOp function = functionOf(module);
  for (auto [argument, written] : llvm::zip(function.getArguments(), outline->arguments))
    if (StringRef name = givenName(written.value.name); !name.empty())
      argument.setLoc(named(argument.getLoc(), name));
  for (Operation &op : function.getBody().front()) {
    keepNamesInRegions(op, text, lines);
    auto place = dyn_cast<FileLineColLoc>(op.getLoc());
    const OutlineStatement *statement =
        place ? outline->statementAt(lines.offset(place.getLine(), place.getColumn())) : nullptr;
    if (!statement || statement->results.empty() || statement->op.name != op.getName().getStringRef())
      continue;
    const std::vector<NamedRange> &results = statement->results;
    if (results.size() > 1 && !StringRef(results[1].name).starts_with(results[0].name + "_"))
      continue; // names of their own, and none of the op
    const StringRef own = nameOf(&op), name = givenName(results[0].name, own);
    const bool keepsOwn = isa<CustomOp>(op) && name != own && !name.ends_with(("." + own).str());
    if (!name.empty()) // what the user called a custom op says more than its value's name alone
      op.setLoc(named(place, keepsOwn ? (name + "." + own).str() : name.str()));
  }
}

} // namespace

/// Whether the beginning holds a zero byte or many control characters: an object file, an archive, a picture.
static bool isBinary(StringRef text) {
  const StringRef begin = text.take_front(8192);
  const auto controls = llvm::count_if(
      begin, [](char c) { return (static_cast<unsigned char>(c) < 0x20 && !llvm::isSpace(c)) || c == 0x7f; });
  return begin.contains('\0') || static_cast<size_t>(controls) * 32 > begin.size();
}

/// A text is read in another process than the one that had the function; says so.
static bool namesHostCode(ModuleOp module) {
  CustomOp op = findHostCode(module);
  if (op)
    op->emitError() << "custom op '" << op.getCalled() << "' names a function of a process, which a text cannot have";
  return static_cast<bool>(op);
}

/// Words, and none that every graph has.
static bool isOfAnotherLanguage(StringRef text) {
  const bool isGraph = text.contains("func.func") || text.contains("tcc.") || text.contains("tensor<");
  return !isGraph && llvm::any_of(text, llvm::isAlpha);
}

/// Floats beyond their type are a warning (graph_warnings.h).
static bool integersFit(ModuleOp module, StringRef text, StringRef name, DiagnosticPrinter &printer) {
  const LineIndex lines({text.data(), text.size()});
  const int before = printer.errors();
  module.walk([&](ConstantOp op) {
    if (!isa<IntegerType>(tensorType(op.getResult()).getElementType()))
      return;
    if (const std::optional<LiteralProblem> problem = numberBeyondType(op, text, lines)) {
      const LineIndex::Place at = lines.place(problem->range.begin);
      const auto length = static_cast<unsigned>(problem->range.end - problem->range.begin);
      printer.print(Severity::error, {name.str(), at.line, at.column, length}, problem->message);
    }
  });
  return printer.errors() == before;
}

OwningOpRef<ModuleOp> parseGraph(StringRef text, StringRef name, MLIRContext &context, DiagnosticPrinter &printer,
                                 const GraphLimits &limits) {
  printer.addSource(name, text);
  if (isBinary(text)) {
    printer.print(Severity::error, {name.str()}, "the file is binary; a .graph file is text that holds one func.func");
    return {};
  }
  if (isOfAnotherLanguage(text) && static_cast<int64_t>(text.size()) <= limits.bytes) {
    printer.print(Severity::error, {name.str(), 1, 1},
                  "the text holds no func.func; a .graph file is one function of ops such as tcc.add (function_c1)");
    return {};
  }
  if (auto problem = scanGraphText({text.data(), text.size()}, limits)) {
    printer.print(Severity::error, {name.str(), problem->line, problem->column}, problem->message);
    return {};
  }
  if (text.trim().empty()) {
    printer.print(Severity::error, {name.str(), 1, 1}, "the file is empty; a .graph file holds one public func.func");
    return {};
  }
  std::vector<std::pair<TextPlace, std::string>> refusals;
  OwningOpRef<ModuleOp> module;
  {
    ScopedDiagnosticHandler quiet(&context, [&](Diagnostic &diagnostic) {
      refusals.emplace_back(placeOf(diagnostic.getLocation()), diagnostic.str());
    });
    module = parseSourceString<ModuleOp>(text, ParserConfig(&context), name);
    if (module && succeeded(verifyGraph(*module)) && (limits.hostCode || !namesHostCode(*module))) {
      if (!integersFit(*module, text, name, printer))
        return {};
      keepNames(*module, text);
      return module;
    }
  }
  const int before = printer.errors();
  explainGraph(text, name, context, printer);
  if (printer.errors() > before)
    return {};
  const OutlinedText unknown{name.str(), text, LineIndex({text.data(), text.size()}), {}};
  for (auto [place, message] : refusals) {
    if (module) { // a rule for texts, which the parser does not know
      message = userMessage(message);
    } else { // a text without an outline
      GraphProblem problem =
          inOurWords(message, unknown.lines.offset(place.line, place.column), nullptr, unknown, context);
      const LineIndex::Place at = unknown.lines.place(problem.range.begin);
      place = {place.file, at.line, at.column};
      message = std::move(problem.message);
    }
    printer.print(Severity::error, place, message);
  }
  if (refusals.empty())
    printer.print(Severity::error, {name.str(), 1, 1}, "the text is no module");
  return {};
}

namespace {

/// Attributes that passes write, which dumps of later phases hold.
constexpr llvm::StringLiteral planAttributes[] = {placesAttr, scratchAttr, keptPackingAttr, arenaAttr,
                                                  arenasAttr, stagingAttr, stageAttr};

/// Checks one function; every failure is a diagnostic of its own.
class GraphVerifier {
public:
  GraphVerifier(func::FuncOp function, const OutlinedText *source) : function(function), source(source) {}

  LogicalResult run() {
    if (function.isExternal() || !function.isPublic())
      return fail(function.getLoc()) << "function '" << function.getName() << "' must be public and have a body "
                                     << "(function_c1)";
    if (!function.getBody().hasOneBlock())
      return fail(function.getLoc()) << "function '" << function.getName() << "' has several blocks; one is the rule "
                                     << "(function_c2)";
    function.getBody().walk([&](Operation *op) { checkOp(op); });
    for (NamedAttribute attribute : function->getDiscardableAttrs())
      if (!llvm::is_contained(planAttributes, attribute.getName()))
        fail(placeOf(attribute.getName(), source ? &source->outline.attributes : nullptr, function.getLoc()))
            << "the function has no attribute '" << attribute.getName().getValue() << "'; it has none (function_c5)";
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      checkArgument(i);
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      checkResult(i);
    return success(good);
  }

private:
  InFlightDiagnostic fail(Location location) {
    good = false;
    return emitError(location);
  }
  Location locate(TextRange range) {
    const LineIndex::Place at = source->lines.place(range.begin);
    return FileLineColLoc::get(function.getContext(), source->file, at.line, at.column);
  }
  /// Where the text has attribute `key` among `list`.
  Location placeOf(StringRef key, const std::vector<OutlineAttribute> *list, Location otherwise) {
    for (const OutlineAttribute &attribute : list ? *list : std::vector<OutlineAttribute>())
      if (StringRef(attribute.key.name).trim('"') == key)
        return locate(attribute.range);
    return otherwise;
  }
  const OutlineArgument *outlined(unsigned index, bool result) const {
    if (!source)
      return nullptr;
    const auto &list = result ? source->outline.results : source->outline.arguments;
    return index < list.size() ? &list[index] : nullptr;
  }
  Location placeOf(unsigned index, bool result, StringRef key = {}) {
    const OutlineArgument *text = outlined(index, result);
    const Location whole = text     ? locate(result || text->value.name.empty() ? text->type : text->value.range)
                           : result ? function.getLoc()
                                    : function.getArgument(index).getLoc();
    return placeOf(key, text ? &text->attributes : nullptr, whole);
  }
  Location typePlace(unsigned index, bool result) {
    const OutlineArgument *text = outlined(index, result);
    return text ? locate(text->type) : placeOf(index, result);
  }

  void checkOp(Operation *op) {
    if (!isa_and_present<TccDialect>(op->getDialect()) && !isa<func::ReturnOp>(op)) {
      fail(op->getLoc()) << "'" << op->getName() << "' may not stand in a graph; only ops of 'tcc' may (function_c2)";
      return;
    }
    for (NamedAttribute attribute : op->getDiscardableAttrs()) {
      if (llvm::is_contained(planAttributes, attribute.getName()))
        continue;
      const OutlineStatement *statement = nullptr;
      if (auto place = dyn_cast<FileLineColLoc>(op->getLoc()); place && source)
        statement = source->outline.statementAt(source->lines.offset(place.getLine(), place.getColumn()));
      StringRef name = op->getName().getStringRef();
      name.consume_front("tcc.");
      fail(placeOf(attribute.getName(), statement ? &statement->attributes : nullptr, op->getLoc()))
          << "`" << name << "` has no attribute '" << attribute.getName().getValue() << "'"
          << instead(attribute.getName(), op->getName().getAttributeNames()) << " (function_c5)";
    }
  }

  /// What an unknown attribute's name may have meant, or all that could stand there.
  static std::string instead(StringRef name, ArrayRef<StringAttr> known) {
    std::vector<std::string> names;
    for (StringAttr attribute : known)
      names.push_back(attribute.str());
    return instead(name, names);
  }
  static std::string instead(StringRef name, const std::vector<std::string> &known) {
    const std::string candidate = didYouMean(name, known);
    return !candidate.empty() ? candidate : known.empty() ? "; it has none" : "; it has " + llvm::join(known, ", ");
  }

  /// Attribute `key`, where it is of the kind that it should be.
  template <typename Kind>
  Kind read(unsigned index, bool result, NamedAttribute attribute, const char *form) {
    auto value = dyn_cast<Kind>(attribute.getValue());
    if (!value)
      fail(placeOf(index, result, attribute.getName()))
          << "attribute '" << attribute.getName().getValue() << "' of another kind; it is written " << form
          << (result ? " (result_c1)" : " (argument_c1)");
    return value;
  }

  void checkType(unsigned index, bool result, Type type) {
    if (!isa<RankedTensorType>(type))
      fail(typePlace(index, result)) << "type " << type << " of " << (result ? "a result" : "an argument")
                                     << "; they are tensors, such as tensor<4x8xf32> (function_c2)";
  }

  void checkArgument(unsigned i) {
    checkType(i, false, function.getArgumentTypes()[i]);
    StringAttr name;
    bool state = false;
    for (NamedAttribute attribute : cast<FunctionOpInterface>(function.getOperation()).getArgAttrs(i)) {
      if (attribute.getName() == nameAttr)
        name = read<StringAttr>(i, false, attribute, "tcc.name = \"...\"");
      else if (attribute.getName() == stateAttr)
        state = static_cast<bool>(read<UnitAttr>(i, false, attribute, "tcc.state"));
      else
        fail(placeOf(i, false, attribute.getName()))
            << "arguments have no attribute '" << attribute.getName().getValue() << "'"
            << instead(attribute.getName(), {nameAttr.str(), stateAttr.str()}) << " (argument_c1)";
    }
    if (name && !arguments.insert(name.getValue()).second)
      fail(placeOf(i, false, nameAttr)) << "two arguments are named '" << name.getValue() << "' (function_c3)";
    if (state && !name)
      fail(placeOf(i, false, stateAttr)) << "argument " << i << " is a state without tcc.name (function_c3)";
    if (state && name)
      states[name.getValue()] = function.getArgumentTypes()[i];
  }

  void checkResult(unsigned i) {
    const Type type = function.getResultTypes()[i];
    checkType(i, true, type);
    for (NamedAttribute attribute : cast<FunctionOpInterface>(function.getOperation()).getResultAttrs(i)) {
      if (attribute.getName() == nameAttr) {
        if (auto name = read<StringAttr>(i, true, attribute, "tcc.name = \"...\"");
            name && !results.insert(name.getValue()).second)
          fail(placeOf(i, true, nameAttr)) << "two results are named '" << name.getValue() << "' (function_c3)";
      } else if (attribute.getName() == updatesAttr) {
        if (auto updates = read<StringAttr>(i, true, attribute, "tcc.updates = \"...\""))
          checkUpdate(i, updates.getValue(), type);
      } else {
        fail(placeOf(i, true, attribute.getName()))
            << "results have no attribute '" << attribute.getName().getValue() << "'"
            << instead(attribute.getName(), {nameAttr.str(), updatesAttr.str()}) << " (result_c1)";
      }
    }
  }

  std::vector<std::string> stateNames() const {
    std::vector<std::string> names;
    for (const auto &entry : states)
      names.push_back(entry.first().str());
    llvm::sort(names);
    return names;
  }

  void checkUpdate(unsigned i, StringRef updates, Type type) {
    auto state = states.find(updates);
    if (state == states.end())
      fail(placeOf(i, true, updatesAttr))
          << "result " << i << " updates '" << updates << "', which is no argument with tcc.state"
          << didYouMean(updates, stateNames()) << " (function_c4)";
    else if (state->second != type)
      fail(typePlace(i, true)) << "result " << i << " of type " << type << " updates '" << updates << "' of type "
                               << state->second << " (function_c4)";
    else if (!updated.insert(updates).second)
      fail(placeOf(i, true, updatesAttr)) << "two results update '" << updates << "' (function_c4)";
  }

  func::FuncOp function;
  const OutlinedText *source;
  bool good = true;
  llvm::StringMap<Type> states;
  llvm::StringSet<> arguments, results, updated;
};

} // namespace

LogicalResult verifyGraph(ModuleOp module, const OutlinedText *source) {
  func::FuncOp function;
  for (Operation &op : *module.getBody()) {
    auto next = dyn_cast<func::FuncOp>(op);
    if (!next)
      return op.emitError() << "'" << op.getName() << "' stands outside of a function; a module holds one public "
                            << "func.func (function_c1)";
    if (function)
      return next.emitError() << "a second function '" << next.getName() << "'; a module holds one (function_c1)";
    function = next;
  }
  if (!function)
    return module.emitError() << "no function; a module holds one public func.func (function_c1)";
  return GraphVerifier(function, source).run();
}

CustomOp findHostCode(ModuleOp module) {
  CustomOp found;
  module.walk([&](CustomOp op) {
    if (!found && (op.getHostFunction() || op.getHostReference() || isProvided(op)))
      found = op;
  });
  return found;
}

void printGraph(ModuleOp module, raw_ostream &os) {
  module->print(os, OpPrintingFlags().useLocalScope().printNameLocAsPrefix());
  os << '\n';
}

std::string graphText(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  printGraph(module, stream);
  return text;
}

} // namespace tcc
