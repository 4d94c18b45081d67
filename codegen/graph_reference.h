// Reference: computes by the interpreter what a graph's results should be, and says whether other results are near
// enough.
#pragma once
#include "ir/reference/compare.h"
#include "mlir/IR/OwningOpRef.h"
#include "passes/pipeline.h"

namespace tcc {

/// About how many seconds the interpreter takes for one element of an op's result, with rounding.
inline constexpr double secondsAnElement = 6e-8;

/// The tensor with each float moved up or down at random, by at most two ulps.
RefTensor nudged(const RefTensor &tensor, uint64_t seed);

/// What the results should be. The exact ones come from interpreting the captured function in fp64 (the joint function
/// where the captured one has a tcc.gradient or `?` sizes), the rounded ones from the joint function with rounding.
class Reference {
public:
  /// `options` are the pipeline's: shapes for `?`, and for the rounding run also the type of matmuls and whether
  /// activations are stored in 16 bits. If they ask for match-attention, results may also differ by the roundings and
  /// sums of attention itself; the exact results are still those of the graph as it is written, so that a wrong match
  /// is seen. Errors: the interpreter, or a pass before phase joint, refuses.
  static runtime::Expected<Reference> make(mlir::ModuleOp module, std::vector<RefTensor> arguments,
                                           const PipelineOptions &options = {});

  /// Empty, or the first result outside of the tolerance rule and why. If the rule fails at first, it is applied again
  /// without the elements that jump when the inputs change by one ulp.
  std::string check(llvm::ArrayRef<RefTensor> actual, Tolerance tolerance = {});
  /// The same for chains of ops, where one run can be exact on a small result by luck. If the rule fails, the error of
  /// the unfused run is taken to be the largest of several runs: rounding runs on neighbouring inputs, and fp64 runs in
  /// which each op's result is off by up to one ulp of its type, as library functions are, and each sum by what another
  /// order may change.
  std::string checkChain(llvm::ArrayRef<RefTensor> actual, Tolerance tolerance = {});

  /// Empty, or which result lacks the 16-bit rounding that the graph has. No tolerance finds this, since such a result
  /// is nearer to the exact one. It is checked for results whose rounding is far above f32's own error: their median
  /// distance from the rounded run must not be more than half of that run's median error, unless the unfused run (the
  /// compiled -O0 run, where given) is as far from it.
  std::string checkRounding(llvm::ArrayRef<RefTensor> actual, llvm::ArrayRef<RefTensor> unfusedRun = {});

  llvm::ArrayRef<RefTensor> arguments() const { return inputs; }
  llvm::ArrayRef<RefTensor> exact() const { return exactResults; }
  int64_t excluded() const { return excludedElements; } // elements that the checks so far have left out

private:
  mlir::OwningOpRef<mlir::ModuleOp> captured, joint, rounding;
  mlir::OwningOpRef<mlir::ModuleOp> matched; // the joint module after match-attention if that matched; else null
  bool meansJoint = false;                   // whether the exact results are those of the joint function
  std::vector<RefTensor> inputs, exactResults, roundedResults;
  std::vector<RefTensor> widened;       // exact result + the largest error seen; filled when first needed
  std::vector<std::vector<bool>> jumps; // the elements that jump; filled when first needed
  int64_t excludedElements = 0;

  void findJumpsOnce();
  void widenOnce();
  std::string checkAgainst(llvm::ArrayRef<RefTensor> actual, llvm::ArrayRef<RefTensor> unfused, Tolerance tolerance);
};

} // namespace tcc
