// MaskReader: finds which keys each query sees in attention that was written by hand. It evaluates, element by element,
// the steps of the graph that follow from coordinates and literals.
#pragma once
#include "ir/ops/attention.h"
#include "passes/axis_layout.h"
#include "passes/literal_rows.h"
#include <map>
#include <string>

namespace tcc {

/// A step between q·kᵀ and the softmax that changes the scores by a literal tensor whose elements differ.
struct MaskStep {
  enum class Kind { select, add, multiply };
  Kind kind;
  mlir::Operation *op;
  mlir::Value literal;   // the condition, addend or factor
  bool keepsTrue = true; // select: scores are kept where the condition holds
  double fill = 0;       // select: what the others become
  double factor = 1;     // what the literal is multiplied by between this step and the softmax
  AxisLayout layout;     // the layout of the scores at this step
};

/// The axes that the scores consist of. Each list has the outermost axis first, and no axis that was split.
struct ScoreAxes {
  AxisRun batch, queries, keys;
};

class MaskReader {
public:
  explicit MaskReader(LiteralRows &rows) : rows(rows) {}

  /// The mask that the steps make together; the step nearest to the softmax comes first. There is a mask if (1) each
  /// score is either kept as it is or hidden, (2) all heads hide the same scores, (3) the visible keys are a band
  /// around a diagonal, and (4) every query sees a key. If not, gives nothing, and `at` and `why` say which step and
  /// why.
  std::optional<AttentionMask> read(llvm::ArrayRef<MaskStep> steps, const Axes &axes, const ScoreAxes &roles,
                                    double scale, mlir::Operation *&at, std::string &why);

private:
  struct Answer {
    std::optional<AttentionMask> mask;
    size_t step = 0;
    std::string why;
  };
  LiteralRows &rows;
  std::map<std::vector<uint64_t>, Answer> answers; // kept since the layers of a model have equal masks
};

} // namespace tcc
