// The checker of compiled graphs: compiles a captured module, runs it in checked mode, and holds every result against
// the interpreter. Op table, random graphs and planted faults all go through it.
#pragma once
#include "codegen/compile_module.h"
#include "ir/reference/compare.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/executable.h"

namespace tcc::test {

/// The one function of a module.
mlir::func::FuncOp onlyFunction(mlir::ModuleOp module);

/// The module's text, without locations.
std::string textOf(mlir::ModuleOp module);

struct CheckOptions {
  int level = 2;
  bool verifyEach = false;
  int threads = 1;     // at run time
  bool checked = true; // arena and outputs start as NaN, and the float environment must not change
  bool separate = false; // each value in memory of its own
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

  /// One step: fresh states and outputs each time. It is an error too if a state that no result updates has changed.
  std::optional<std::vector<RefTensor>> run(llvm::ArrayRef<RefTensor> arguments, std::string &error);

private:
  mlir::func::FuncOp function;
  std::unique_ptr<runtime::Executable> executable;
};

/// What the results should be: the interpreter's on the captured function (on the joint one where it has a
/// tcc.gradient) in fp64, and on the joint one with rounding.
class Reference {
public:
  /// Null and in `error` the reason where the interpreter or a pass before phase joint refuses.
  static std::unique_ptr<Reference> make(mlir::ModuleOp module, std::vector<RefTensor> arguments, std::string &error);

  /// Empty, or the first result outside of the tolerance rule and why. Where the rule fails at first, elements that
  /// jump under a change of the inputs by one ulp are excluded.
  std::string check(llvm::ArrayRef<RefTensor> actual, Tolerance tolerance = {});
  /// The same for chains of ops, where one run's error on one small result can be nothing by luck. Where the rule
  /// fails, the error of the unfused run is taken to be the largest of several: rounding runs of neighbouring inputs,
  /// and fp64 runs in which each op's result is off by up to one ulp of its type, as library functions are, and sums
  /// by what their order may change.
  std::string checkChain(llvm::ArrayRef<RefTensor> actual, Tolerance tolerance = {});

  /// Whether 16-bit rounding took place where the graph has it: a result without it is nearer to the exact one than any
  /// tolerance asks. For results whose rounding is far above f32's own error, at least half of the elements must be
  /// nearer to the rounded run than that is to the exact one, unless the compiled -O0 run (where given) is as far.
  std::string checkRounding(llvm::ArrayRef<RefTensor> actual, llvm::ArrayRef<RefTensor> unfusedRun = {});

  llvm::ArrayRef<RefTensor> arguments() const { return inputs; }
  llvm::ArrayRef<RefTensor> exact() const { return exactResults; }
  int64_t excluded() const { return excludedElements; } // by all checks so far

private:
  mlir::OwningOpRef<mlir::ModuleOp> captured, joint;
  bool hasGradient = false;
  std::vector<RefTensor> inputs, exactResults, roundedResults;
  std::vector<RefTensor> widened;       // exact result + the largest error seen, filled when first needed
  std::vector<std::vector<bool>> jumps; // likewise
  int64_t excludedElements = 0;

  void findJumpsOnce();
  void widenOnce();
  std::string checkAgainst(llvm::ArrayRef<RefTensor> actual, llvm::ArrayRef<RefTensor> unfused, Tolerance tolerance);
};

/// One module whose function takes the arguments of all and returns the results of all, in order.
mlir::OwningOpRef<mlir::ModuleOp> joinModules(llvm::ArrayRef<mlir::ModuleOp> modules);

} // namespace tcc::test
