// Attention as users write it, recognised around its softmax: q·kᵀ, scale and mask before it, casts, views and the
// product with values behind it.
#pragma once
#include "ir/ops/dropout.h"
#include "passes/attention_mask.h"
#include "llvm/ADT/SetVector.h"

namespace tcc {

/// What flash_attention would compute. Batch dims of both products stand for one run of heads.
struct AttentionPattern {
  MatmulOp scores, mix;            // q·kᵀ, and probabilities times values
  bool queriesAreLhs = true;       // scores are q·kᵀ, else k·qᵀ
  bool probabilitiesAreLhs = true; // mix is P·v, else vᵀ·Pᵀ
  double scale = 1;
  AttentionMask mask;
  std::optional<Dropout> dropout; // of the probabilities
  int64_t headsOfFirst = 0;       // heads that one step of the dropout's `first` skips
};

class AttentionMatcher {
public:
  AttentionMatcher(LiteralRows &rows, MaskReader &masks) : rows(rows), masks(masks) {}

  /// The attention whose softmax ends with this division (or product with a reciprocal) of the exponentials `e`.
  /// Nothing where it is none, with what was expected in `why`, and `mix` where the walk got as far.
  std::optional<AttentionPattern> match(ExpOp e, mlir::Operation *division);

  std::string why;
  MatmulOp mix;

private:
  LiteralRows &rows;
  MaskReader &masks;
  Axes axes;
  llvm::SetVector<mlir::Operation *> chain; // ops of the pattern but for literal ones, the products included
  llvm::SmallVector<MaskStep> steps;        // the one nearest to the softmax first
  AttentionPattern pattern;
  ScoreAxes roles;
  AxisLayout dropLayout; // of the probabilities where they are dropped out
  mlir::Operation *maskAt = nullptr;

  bool refuse(const std::string &reason) {
    why = reason;
    return false;
  }
  bool matchSoftmax(ExpOp e, mlir::Operation *division, mlir::Value &x, int64_t &axis);
  mlir::Value divisorOf(mlir::Operation *division, mlir::Value divisor, mlir::RankedTensorType type, int64_t axis);
  mlir::Value belowReshapes(mlir::Value value);
  mlir::Value belowDetach(mlir::Value value);
  mlir::Value rowStatistic(mlir::Value value, mlir::RankedTensorType full, int64_t axis);
  bool matchBehind(mlir::Value probabilities, AxisLayout layout);
  bool takeDropout(mlir::Value &value, const Dropout &dropout, const AxisLayout &layout);
  bool checkDropout();
  bool matchMix(MatmulOp op, mlir::Value probabilities, const AxisLayout &layout);
  bool matchBefore(mlir::Value x, AxisLayout layout);
  bool addLiteralStep(mlir::Operation *op, const AxisLayout &layout, mlir::Value &next);
  bool addSelect(SelectOp op, const AxisLayout &layout, mlir::Value &next);
  bool matchScores(MatmulOp op, const AxisLayout &layout, const AxisRun &keys);
  bool checkSizes();
  bool checkUses();
};

/// Whether the operation's value is computed from a matrix product, by few ops that are none themselves.
bool dependsOnProduct(mlir::Value value);
/// Whether a matrix product reads what is computed from the value by few ops that are none themselves.
bool feedsProduct(mlir::Value value);

} // namespace tcc
