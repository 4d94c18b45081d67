// The checker of compiled graphs: compiles a captured module, runs it in checked mode, and holds every result against
// the interpreter. Op table, random graphs and planted faults all go through it.
#pragma once
#include "codegen/compile_session.h"
#include "codegen/cpu/emit_kernels.h"
#include "codegen/graph_reference.h"
#include "codegen/graph_runner.h"
#include "tests/expected.h"

namespace tcc::test {

/// The one function of a module.
mlir::func::FuncOp onlyFunction(mlir::ModuleOp module);

/// The module's text, without locations.
std::string textOf(mlir::ModuleOp module);

/// The CPUs that this one can be: itself, the baseline, and what lies between.
std::vector<cpu::Target> cpuTargets();

struct CheckOptions {
  int level = 2;
  bool verifyEach = false;
  bool matchAttention = false; // a Reference has to be told, too: of a graph as it is written other sums cancel
  int threads = 1;             // at run time
  bool checked = true;         // arena and outputs start as NaN, and the float environment must not change
  int64_t padding = 0;         // sizes of matmuls grow to its multiples, whether that pays or not; 0: where it pays
  bool separate = false;       // each value in memory of its own
  cpu::Target target;
};

/// An artefact from a copy of `module`; nothing and in `error` what the compiler said.
std::optional<runtime::Artefact> compileGraph(mlir::ModuleOp module, const CheckOptions &options, std::string &error);

/// A loaded graph whose arguments and results are tensors in the order of the captured function, states among them.
class CompiledGraph {
public:
  /// Null and in `error` the reason where the artefact cannot be loaded. `function` must outlive the graph.
  static std::unique_ptr<CompiledGraph> load(runtime::Artefact artefact, mlir::func::FuncOp function,
                                             const CheckOptions &options, std::string &error);
  /// compileGraph and load.
  static std::unique_ptr<CompiledGraph> compile(mlir::ModuleOp module, const CheckOptions &options, std::string &error);

  std::optional<std::vector<RefTensor>> run(llvm::ArrayRef<RefTensor> arguments, std::string &error) {
    return take(runner->run(arguments), error);
  }

private:
  std::unique_ptr<GraphRunner> runner;
};

/// One module whose function takes the arguments of all and returns the results of all, in order.
mlir::OwningOpRef<mlir::ModuleOp> joinModules(llvm::ArrayRef<mlir::ModuleOp> modules);

} // namespace tcc::test
