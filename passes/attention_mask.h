// Masks of attention written by hand: which keys each query sees, read from what the graph computes by coordinates and
// literals, element by element.
#pragma once
#include "ir/ops/attention.h"
#include "passes/axis_layout.h"
#include "passes/literal_rows.h"
#include <map>
#include <string>

namespace tcc {

/// A step between q·kᵀ and the softmax that changes scores by a literal value of several numbers.
struct MaskStep {
  enum class Kind { select, add, multiply };
  Kind kind;
  mlir::Operation *op;
  mlir::Value literal;   // the condition, addend or factor
  bool keepsTrue = true; // select: scores are kept where the condition holds
  double fill = 0;       // select: what the others become
  double factor = 1;     // of the step's literal numbers on their way into the softmax
  AxisLayout layout;     // of the scores there
};

/// The axes that scores are made of, each outermost first and without splits.
struct ScoreAxes {
  AxisRun batch, queries, keys;
};

class MaskReader {
public:
  explicit MaskReader(LiteralRows &rows) : rows(rows) {}

  /// What the steps, the one nearest to the softmax first, let a query see. Nothing, and the step and the reason in
  /// `at` and `why`, unless each element is either kept as it is or hidden for good, the same in all heads, a band of
  /// keys around a diagonal stays, and every query sees a key.
  std::optional<AttentionMask> read(llvm::ArrayRef<MaskStep> steps, const Axes &axes, const ScoreAxes &roles,
                                    double scale, mlir::Operation *&at, std::string &why);

private:
  struct Answer {
    std::optional<AttentionMask> mask;
    size_t step = 0;
    std::string why;
  };
  LiteralRows &rows;
  std::map<std::vector<uint64_t>, Answer> answers; // layers have equal masks
};

} // namespace tcc
