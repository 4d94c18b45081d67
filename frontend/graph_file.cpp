// .graph text in and out.
#include "frontend/graph_file.h"
#include "mlir/IR/AsmState.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringSet.h"
#include <cerrno>
#include <cstdio>
#include <cstring>

using namespace mlir;

namespace tcc {

std::optional<std::string> readText(const std::string &path, int64_t limit, std::string &error) {
  const bool standard = path == "-";
  std::FILE *file = standard ? stdin : std::fopen(path.c_str(), "rb");
  if (!file) {
    error = "cannot read '" + path + "': " + std::strerror(errno);
    return std::nullopt;
  }
  std::string text;
  std::array<char, 1 << 16> block;
  size_t count = 0;
  while ((count = std::fread(block.data(), 1, block.size(), file)) > 0) {
    text.append(block.data(), count);
    if (static_cast<int64_t>(text.size()) > limit) {
      error = "'" + path + "' is larger than " + std::to_string(limit) + " bytes, the limit (graph_c1)";
      break;
    }
  }
  if (std::ferror(file))
    error = "cannot read '" + path + "': " + std::strerror(errno);
  if (!standard)
    std::fclose(file);
  if (!error.empty())
    return std::nullopt;
  return text;
}

OwningOpRef<ModuleOp> parseGraph(StringRef text, StringRef name, MLIRContext &context, DiagnosticPrinter &printer,
                                 const GraphLimits &limits) {
  printer.addSource(name, text);
  if (auto problem = scanGraphText({text.data(), text.size()}, limits)) {
    printer.print(Severity::error, {name.str(), problem->line, problem->column}, problem->message);
    return {};
  }
  if (text.trim().empty()) {
    printer.print(Severity::error, {name.str(), 1, 1}, "the file is empty; a .graph file holds one public func.func");
    return {};
  }
  ScopedDiagnostics diagnostics(&context, printer);
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, ParserConfig(&context), name);
  if (!module || failed(verifyGraph(*module))) {
    if (!printer.errors())
      printer.print(Severity::error, {name.str(), 1, 1}, "the text is no module");
    return {};
  }
  return module;
}

func::FuncOp graphFunction(ModuleOp module) {
  return *module.getOps<func::FuncOp>().begin();
}

LogicalResult verifyGraph(ModuleOp module) {
  // 1. One function, with one block of known ops.
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
  if (function.isExternal() || !function.isPublic())
    return function.emitError() << "function '" << function.getName() << "' must be public and have a body "
                                << "(function_c1)";
  if (!function.getBody().hasOneBlock())
    return function.emitError() << "function '" << function.getName() << "' has several blocks; one is the rule "
                                << "(function_c2)";
  WalkResult walk = function.getBody().walk([&](Operation *op) {
    if (isa_and_present<TccDialect>(op->getDialect()) || isa<func::ReturnOp>(op))
      return WalkResult::advance();
    op->emitError() << "'" << op->getName() << "' may not stand in a graph; only ops of 'tcc' may (function_c2)";
    return WalkResult::interrupt();
  });
  if (walk.wasInterrupted())
    return failure();

  // 2. Types of arguments and results; a verified body has no others but what these imply.
  for (Type type : llvm::concat<const Type>(function.getArgumentTypes(), function.getResultTypes()))
    if (!isa<RankedTensorType>(type))
      return function.emitError() << "type " << type << " of an argument or result; they are ranked tensors "
                                  << "(function_c2)";

  // 3. Names.
  llvm::StringMap<Type> states;
  llvm::StringSet<> arguments, results, updated;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto name = function.getArgAttrOfType<StringAttr>(i, nameAttr);
    if (name && !arguments.insert(name.getValue()).second)
      return function.emitError() << "two arguments are named '" << name.getValue() << "' (function_c3)";
    if (function.getArgAttr(i, stateAttr)) {
      if (!name)
        return function.emitError() << "argument " << i << " is a state without tcc.name (function_c3)";
      states[name.getValue()] = function.getArgumentTypes()[i];
    }
  }
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    auto name = function.getResultAttrOfType<StringAttr>(i, nameAttr);
    if (name && !results.insert(name.getValue()).second)
      return function.emitError() << "two results are named '" << name.getValue() << "' (function_c3)";
    auto updates = function.getResultAttrOfType<StringAttr>(i, updatesAttr);
    if (!updates)
      continue;
    auto state = states.find(updates.getValue());
    if (state == states.end())
      return function.emitError() << "result " << i << " updates '" << updates.getValue()
                                  << "', which is no argument with tcc.state (function_c4)";
    if (state->second != function.getResultTypes()[i])
      return function.emitError() << "result " << i << " of type " << function.getResultTypes()[i] << " updates '"
                                  << updates.getValue() << "' of type " << state->second << " (function_c4)";
    if (!updated.insert(updates.getValue()).second)
      return function.emitError() << "two results update '" << updates.getValue() << "' (function_c4)";
  }
  return success();
}

void printGraph(ModuleOp module, raw_ostream &os) {
  module->print(os, OpPrintingFlags().useLocalScope());
  os << '\n';
}

std::string graphText(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  printGraph(module, stream);
  return text;
}

} // namespace tcc
