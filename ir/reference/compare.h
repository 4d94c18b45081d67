// The tolerance rule for compiled results. Their error is measured against fp64, and may be a small multiple of the
// error of an independent unfused run of the same graph.
#pragma once
#include "ir/reference/interpreter.h"

namespace tcc {

/// The allowed error: `factor` times the error of the unfused run, but at least `floorUlps` ulps of the tensor's scale
/// (the largest finite magnitude of the exact tensor).
struct Tolerance {
  double factor = 0; // 0: 2 for f32, 3 for narrower floats
  double floorUlps = 4;
};

struct Comparison {
  bool ok = true;
  double error = 0;   // largest |actual - exact| of the elements compared
  double allowed = 0; // the largest error that the rule allows
  double ulps = 0;    // `error` in ulps of the scale
  int64_t worst = -1; // the element of the largest error, or of the first wrong NaN or infinity
  int64_t excluded = 0;
  std::string message; // empty where ok
};

/// Compares `actual` with the exact interpreter's result. `unfused` is the result of the rounding interpreter, or of
/// any other independent run in the same precision. Floats must be within the tolerance; NaN and infinities must be
/// where the unfused run or the exact value, rounded to the element type, has them. Integers and i1 must be equal to
/// one of the two. Elements that `excluded` marks (it may be empty) are counted and not compared. Different types are a
/// mismatch.
Comparison compare(const RefTensor &actual, const RefTensor &exact, const RefTensor &unfused,
                   const std::vector<bool> &excluded = {}, Tolerance tolerance = {});

/// The largest |a - b|. NaN equals NaN, and an infinity equals itself. Any other pair with a NaN or an infinity is
/// infinitely far apart.
double largestDifference(llvm::ArrayRef<double> a, llvm::ArrayRef<double> b);

/// True if the two lists hold tensors of the same types and the same bits.
bool sameBits(llvm::ArrayRef<RefTensor> a, llvm::ArrayRef<RefTensor> b);

/// True if the two have one type and equal elements. Zeros of different signs are not equal; a NaN equals any NaN.
bool sameElements(const RefTensor &a, const RefTensor &b);

/// True if every element of a is within atol + rtol · |b| of b's element. NaN and infinities are equal to themselves.
bool allClose(llvm::ArrayRef<double> a, llvm::ArrayRef<double> b, double rtol, double atol);

/// One ulp of `element` at magnitude `scale` (of the smallest normal number for smaller scales).
double ulpAt(double scale, mlir::Type element);

/// For each result of `function`, the elements whose exact value jumps when every float argument moves by one ulp of
/// its type, up or down. A jump is a change by more than `threshold` ulps of the result's scale, or to or from NaN or
/// infinity.
runtime::Expected<std::vector<std::vector<bool>>> findJumps(mlir::func::FuncOp function,
                                                            llvm::ArrayRef<RefTensor> arguments,
                                                            llvm::ArrayRef<RefTensor> exactResults,
                                                            double threshold = 4096);

} // namespace tcc
