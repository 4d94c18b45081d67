// Compile, load, join.
#include "tests/random_graphs/graph_check.h"
#include "codegen/messages.h"
#include "mlir/IR/IRMapping.h"
#include "runtime/cpu.h"
#include "tests/codegen/eager_padding.h"

using namespace mlir;

namespace tcc::test {

func::FuncOp onlyFunction(ModuleOp module) {
  return *module.getOps<func::FuncOp>().begin();
}

std::string textOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  for (Operation &op : module.getBody()->getOperations())
    op.print(stream, OpPrintingFlags().enableDebugInfo(false));
  return text + "\n";
}

std::vector<cpu::Target> cpuTargets() {
  std::vector<cpu::Target> found = {{}, {"x86-64", "", 0}};
  if (!runtime::requireCpuFeatures("avx2,fma"))
    found.push_back({"x86-64-v3", "", 0});
  return found;
}

OwningOpRef<ModuleOp> joinModules(ArrayRef<ModuleOp> modules) {
  MLIRContext *context = ModuleOp(modules.front()).getContext();
  OpBuilder builder(context);
  Location loc = builder.getUnknownLoc();
  OwningOpRef<ModuleOp> joined(ModuleOp::create(loc));
  SmallVector<Type> argumentTypes, resultTypes;
  for (ModuleOp module : modules) {
    llvm::append_range(argumentTypes, onlyFunction(module).getArgumentTypes());
    llvm::append_range(resultTypes, onlyFunction(module).getResultTypes());
  }
  builder.setInsertionPointToEnd(joined->getBody());
  auto function = func::FuncOp::create(builder, loc, "main", builder.getFunctionType(argumentTypes, resultTypes));
  Block *block = function.addEntryBlock();
  builder.setInsertionPointToEnd(block);
  SmallVector<Value> results;
  unsigned next = 0;
  for (ModuleOp module : modules) {
    IRMapping map;
    Block &body = onlyFunction(module).getBody().front();
    for (BlockArgument argument : body.getArguments())
      map.map(argument, block->getArgument(next++));
    for (Operation &op : body.without_terminator())
      builder.clone(op, map);
    for (Value value : body.getTerminator()->getOperands())
      results.push_back(map.lookupOrDefault(value));
  }
  func::ReturnOp::create(builder, loc, results);
  return joined;
}

//===- compiling -----------------------------------------------------------------------------------------------===//

std::optional<runtime::Artefact> compileGraph(ModuleOp module, const CheckOptions &options, std::string &error) {
  Messages messages(module.getContext());
  CompileOptions compile;
  compile.pipeline.level = options.level;
  compile.pipeline.verifyEach = options.verifyEach;
  compile.pipeline.passes["match-attention"] = options.matchAttention;
  compile.threads = options.threads;
  const cpu::CpuTarget plain({.target = options.target}, options.threads);
  const EagerPadding eager({1e6, 1e6}, options.padding, {.target = options.target}, options.threads);
  compile.target = &plain;
  if (options.padding > 0) {
    compile.target = &eager;
    compile.pipeline.padding = options.padding;
  }
  auto artefact = compileArtefact(module.clone(), compile);
  if (artefact)
    return std::move(*artefact);
  error = "-O" + std::to_string(options.level) + " does not compile: " + messages.text + artefact.error().message();
  return std::nullopt;
}

std::unique_ptr<CompiledGraph> CompiledGraph::load(runtime::Artefact artefact, func::FuncOp function,
                                                   const CheckOptions &options, std::string &error) {
  auto runner =
      take(GraphRunner::load(std::move(artefact), function,
                             {.threads = options.threads, .checked = options.checked, .separate = options.separate}),
           error);
  if (!runner)
    return nullptr;
  auto graph = std::make_unique<CompiledGraph>();
  graph->runner = std::move(*runner);
  return graph;
}

std::unique_ptr<CompiledGraph> CompiledGraph::compile(ModuleOp module, const CheckOptions &options,
                                                      std::string &error) {
  std::optional<runtime::Artefact> artefact = compileGraph(module, options, error);
  return artefact ? load(std::move(*artefact), onlyFunction(module), options, error) : nullptr;
}

} // namespace tcc::test
