// 1. The outline's own checks. 2. Parsing without what is wrong, until nothing new is found. 3. The verifier, op by op.
#include "frontend/graph_explain.h"
#include "frontend/graph_file.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace tcc {
namespace {

constexpr size_t mostErrors = 20, mostRounds = 32;
/// Longer texts are parsed once for their first error: an explanation takes no longer than a compilation.
constexpr size_t longText = 1 << 20;

/// A diagnostic that was caught instead of printed.
struct Caught {
  Severity severity;
  TextPlace place;
  std::string message;
};

class Catcher {
public:
  explicit Catcher(MLIRContext &context)
      : handler(&context, [this](Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
            errors.push_back({Severity::error, placeOf(diagnostic.getLocation()), diagnostic.str()});
        }) {}
  std::vector<Caught> errors;

private:
  ScopedDiagnosticHandler handler;
};

class Explainer {
public:
  Explainer(const OutlinedText &source, MLIRContext &context)
      : source(source), outline(source.outline), context(context), mended(source.text.str()),
        dropped(outline.body.size(), false) {}

  std::vector<GraphProblem> run() {
    checkNames();
    if (!signatureIsBroken)
      if (OwningOpRef<ModuleOp> module = parseTheRest())
        verifyTheRest(*module);
    llvm::stable_sort(problems,
                      [](const GraphProblem &a, const GraphProblem &b) { return a.range.begin < b.range.begin; });
    return std::move(problems);
  }

private:
  /// The statement at a byte; an error about something missing stands right after its statement.
  const OutlineStatement *statementAt(size_t at) const {
    const OutlineStatement *found = outline.statementAt(at);
    for (const OutlineStatement &statement : outline.body)
      if (!found && statement.range.end == at)
        found = &statement;
    return found;
  }
  void drop(const OutlineStatement &statement) {
    dropped[static_cast<size_t>(&statement - outline.body.data())] = true;
  }

  void checkNames() {
    problems = checkOutline(source.text, outline, context);
    signatureIsBroken = outline.body.empty(); // the parser takes no empty body
    for (const GraphProblem &problem : problems) {
      if (const OutlineStatement *statement = outline.statementAt(problem.range.begin))
        drop(*statement);
      else if (problem.range.begin < outline.bodyRange.begin)
        signatureIsBroken = true;
    }
    // A misspelt element type is said once, though it may stand in many places.
    for (const OutlineType &type : outline.types) {
      if (isElementType(type.element.name))
        continue;
      if (const OutlineStatement *statement = outline.statementAt(type.range.begin))
        drop(*statement);
      else
        signatureIsBroken = true;
    }
  }

  /// Drops what uses a value that only dropped statements define.
  void dropDependents() {
    llvm::StringSet<> known;
    for (const OutlineArgument &argument : outline.arguments)
      known.insert(argument.value.name);
    for (size_t i = 0; i < outline.body.size(); ++i) {
      for (const NamedRange &use : outline.body[i].uses)
        if (!known.contains(use.name))
          dropped[i] = true;
      for (const NamedRange &result : outline.body[i].results)
        if (!dropped[i])
          known.insert(result.name);
    }
  }

  /// The text with dropped statements as spaces: every other place stays where it is.
  void blank() {
    dropDependents();
    for (size_t i = 0; i < outline.body.size(); ++i)
      if (dropped[i])
        for (size_t at = outline.body[i].range.begin; at < outline.body[i].range.end; ++at)
          if (mended[at] != '\n')
            mended[at] = ' ';
  }

  void add(const Caught &caught) {
    const size_t offset = source.lines.offset(caught.place.line, caught.place.column);
    problems.push_back(inOurWords(caught.message, offset, statementAt(offset), source, context));
  }

  OwningOpRef<ModuleOp> parseTheRest() {
    for (size_t round = 0; round < (source.text.size() > longText ? 1 : mostRounds); ++round) {
      blank();
      Catcher caught(context);
      OwningOpRef<ModuleOp> module =
          parseSourceString<ModuleOp>(mended, ParserConfig(&context, /*verifyAfterParse=*/false), source.file);
      if (module || caught.errors.empty())
        return module;
      const Caught &first = caught.errors.front();
      add(first);
      const OutlineStatement *statement = statementAt(source.lines.offset(first.place.line, first.place.column));
      if (!statement)
        return {};
      drop(*statement);
    }
    return {};
  }

  void verifyTheRest(ModuleOp module) {
    {
      Catcher caught(context);
      if (failed(verifyGraph(module, &source)))
        for (const Caught &error : llvm::ArrayRef(caught.errors).take_front(mostErrors))
          add(error);
    }
    for (func::FuncOp function : module.getOps<func::FuncOp>())
      if (function->getBlock() && !function.isExternal())
        for (Operation &op : function.getBody().front()) {
          if (problems.size() > mostErrors)
            break;
          Catcher caught(context);
          if (failed(mlir::verify(&op)) && !caught.errors.empty())
            add(caught.errors.front());
        }
    if (!problems.empty())
      return;
    Catcher caught(context); // what stands in no single op
    if (failed(mlir::verify(module)))
      for (const Caught &error : caught.errors)
        add(error);
  }

  const OutlinedText &source;
  const GraphOutline &outline;
  MLIRContext &context;
  std::string mended;
  std::vector<bool> dropped;
  bool signatureIsBroken = false;
  std::vector<GraphProblem> problems;
};

} // namespace

void explainGraph(StringRef text, StringRef name, MLIRContext &context, DiagnosticPrinter &printer) {
  std::optional<GraphOutline> outline = outlineGraph({text.data(), text.size()});
  if (!outline)
    return;
  const OutlinedText source{name.str(), text, LineIndex({text.data(), text.size()}), std::move(*outline)};
  auto place = [&](TextRange range) {
    const LineIndex::Place at = source.lines.place(range.begin);
    const StringRef line = text.slice(range.begin, range.end).split('\n').first;
    return TextPlace{source.file, at.line, at.column, static_cast<unsigned>(std::max<size_t>(line.size(), 1))};
  };
  const std::vector<GraphProblem> problems = Explainer(source, context).run();
  for (size_t i = 0; i < problems.size() && i < mostErrors; ++i) {
    printer.print(Severity::error, place(problems[i].range), problems[i].message);
    for (const GraphNote &note : problems[i].notes)
      if (note.range.end)
        printer.print(Severity::note, place(note.range), note.message);
      else
        printer.print(Severity::note, TextPlace{source.file}, note.message);
  }
  if (problems.size() > mostErrors)
    printer.print(Severity::note, TextPlace{source.file},
                  std::to_string(problems.size() - mostErrors) + " more errors are not shown");
}

} // namespace tcc
