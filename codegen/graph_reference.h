// What a graph's results should be, by the interpreter, and whether others are near enough.
#pragma once
#include "ir/reference/compare.h"
#include "mlir/IR/OwningOpRef.h"
#include "passes/pipeline.h"

namespace tcc {

/// What the interpreter takes for an element of an op's result, about, rounding included.
inline constexpr double secondsAnElement = 6e-8;

/// Each float of a tensor moved up or down by up to two ulps, at random.
RefTensor nudged(const RefTensor &tensor, uint64_t seed);

/// What the results should be: the interpreter's on the captured function (on the joint one where it has a
/// tcc.gradient or `?` sizes) in fp64, and on the joint one with rounding.
class Reference {
public:
  /// Null and in `error` the reason where the interpreter or a pass before phase joint refuses.
  /// `options` are the pipeline's: shapes for `?`; the products' type and whether activations are stored in 16 bits,
  /// which only the rounding run has. Where they ask for match-attention, results may also be as far off as attention's
  /// own roundings and sums make them; what they should be stays the graph's as it is written, so that a wrong match is
  /// seen.
  static std::unique_ptr<Reference> make(mlir::ModuleOp module, std::vector<RefTensor> arguments, std::string &error,
                                         const PipelineOptions &options = {});

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
  mlir::OwningOpRef<mlir::ModuleOp> captured, joint, rounding;
  mlir::OwningOpRef<mlir::ModuleOp> matched; // the joint one where attention was matched; else null
  bool meansJoint = false;                   // the captured function cannot be interpreted
  std::vector<RefTensor> inputs, exactResults, roundedResults;
  std::vector<RefTensor> widened;       // exact result + the largest error seen, filled when first needed
  std::vector<std::vector<bool>> jumps; // likewise
  int64_t excludedElements = 0;

  void findJumpsOnce();
  void widenOnce();
  std::string checkAgainst(llvm::ArrayRef<RefTensor> actual, llvm::ArrayRef<RefTensor> unfused, Tolerance tolerance);
};

} // namespace tcc
