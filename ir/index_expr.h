// Index expressions over the axes of a kernel's iteration space: affine with div and mod, kept in a canonical form.
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdint>
#include <optional>

namespace tcc {

/// Axis numbers: the three of the iteration space; from `firstDerived` on, entries of KernelInfo::derived.
namespace axis {
inline constexpr unsigned outer = 0, row = 1, column = 2, firstDerived = 3;
}

/// coefficient · ((axis div divisor) mod modulus), without the mod if `modulus` is 0. What the coefficient multiplies
/// lies in [0, extent).
struct IndexTerm {
  unsigned axis;
  int64_t coefficient;
  int64_t divisor;
  int64_t modulus;
  int64_t extent;

  bool isPlain() const { return divisor == 1 && modulus == 0; }
  bool sameDigit(const IndexTerm &other) const {
    return axis == other.axis && divisor == other.divisor && modulus == other.modulus;
  }
  bool operator==(const IndexTerm &) const = default;
};

/// constant + sum of terms.
class IndexExpr {
public:
  IndexExpr(int64_t constant = 0) : constant(constant) {}
  /// The axis itself, which takes `extent` values; an axis of one value is the constant 0.
  static IndexExpr ofAxis(unsigned axis, int64_t extent);

  int64_t constant;
  llvm::SmallVector<IndexTerm, 3> terms;

  IndexExpr operator+(const IndexExpr &other) const;
  IndexExpr operator*(int64_t factor) const;
  /// Quotient and remainder by a positive divisor; nothing if they are not expressions of this kind.
  std::optional<IndexExpr> floorDiv(int64_t divisor) const;
  std::optional<IndexExpr> mod(int64_t divisor) const;

  int64_t minimum() const;
  int64_t maximum() const;
  bool isConstant() const { return terms.empty(); }
  bool dependsOn(unsigned axis) const;
  /// Whether every term of `axis` is the plain axis, without div and mod. `stride` gets its coefficient (0 if the axis
  /// is absent).
  bool isAffineIn(unsigned axis, int64_t &stride) const;
  /// only() gives the terms of `axis`, without() all other terms and the constant.
  IndexExpr only(unsigned axis) const;
  IndexExpr without(unsigned axis) const;
  /// The expression with `value` in place of `axis`; nothing where a term of the axis has a div or mod.
  std::optional<IndexExpr> substitute(unsigned axis, const IndexExpr &value) const;

  bool operator==(const IndexExpr &other) const { return constant == other.constant && terms == other.terms; }
  /// "384*row + column", with the names outer, row, column, d3, d4, …
  void print(llvm::raw_ostream &os) const;

private:
  void addTerm(const IndexTerm &term);
  void canonicalize();
};

/// The coordinates in `shape` of the element with row-major number `linear`; nothing if they are no index expressions.
std::optional<llvm::SmallVector<IndexExpr>> delinearize(const IndexExpr &linear, llvm::ArrayRef<int64_t> shape);
/// Row-major number of the element at `coordinates` in `shape`.
IndexExpr linearize(llvm::ArrayRef<IndexExpr> coordinates, llvm::ArrayRef<int64_t> shape);

} // namespace tcc
